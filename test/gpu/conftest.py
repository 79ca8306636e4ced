"""Makes the helpers of this folder importable, and asks for enough hardware queues before CUDA starts."""

import os
import sys
from pathlib import Path

import pytest

# The folder itself, the good programs of the simulator, and the top folder for `benchmark`.
sys.path[:0] = [
    str(Path(__file__).parent),
    str(Path(__file__).parents[1] / "sim"),
    str(Path(__file__).parents[2]),
]
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")


@pytest.fixture(scope="module")
def groups():
    """A function that gives the group of so many ranks on one GPU, made once for a file of tests."""
    from syncopate.runtime import LocalGroup

    made = {}

    def get(world):
        if world not in made:
            made[world] = LocalGroup(world)
        return made[world]

    return get
