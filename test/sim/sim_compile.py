"""How programs are compiled that the simulator runs, and GPUs where there are any."""

import ctypes
import functools

import syncopate


def _has_driver() -> bool:
    try:
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    except OSError:
        return False


compile_program = functools.partial(syncopate.compile, machine_code=_has_driver())
"""`syncopate.compile` that makes machine code only where it can run: nothing else takes most tests as long."""
