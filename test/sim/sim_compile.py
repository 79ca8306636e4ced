"""How programs are compiled that the simulator runs, and GPUs where there are any."""

import ctypes
import functools

import syncopate


def _has_driver() -> bool:
    try:
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    except OSError:
        return False


MACHINE_CODE = _has_driver()
"""Whether to make machine code: only where it can run, as nothing else takes most tests as long."""

compile_program = functools.partial(syncopate.compile, machine_code=MACHINE_CODE)
"""`syncopate.compile`, likewise."""
