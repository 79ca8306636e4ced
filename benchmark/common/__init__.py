"""What all benchmarks share: timing, baselines, verification, reports."""
