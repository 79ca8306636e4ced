"""Makes the helpers of this folder importable, and asks for enough hardware queues before CUDA starts."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
