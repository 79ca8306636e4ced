"""Programs of XLA: how MLIR and HLO are written, and what StableHLO, Shardy and HLO mean by it."""
