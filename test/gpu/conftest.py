"""Makes the helpers of this folder importable, and asks for enough hardware queues before CUDA starts."""

import os
import sys
from pathlib import Path

# The folder itself, and the top folder for `benchmark`.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
