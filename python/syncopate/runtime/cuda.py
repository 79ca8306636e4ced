"""The few CUDA driver calls that a program's calls are made of, through ctypes.

torch offers no stream waits, no 2-d copies and no kernel launch, and its stream pool may hand the same stream to two
owners, which could deadlock a stream that waits for a value. ctypes releases the GIL around each call, so a watchdog
can run while a launch queue is full.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from typing import Any

from syncopate.errors import SyncopateError
from syncopate.forks import Process, expect_process, this_process

Address = ctypes.c_uint64
Handle = ctypes.c_void_p

STREAM_NON_BLOCKING = 1
EVENT_DISABLE_TIMING = 2
WAIT_VALUE_EQ = 1
NOT_READY = 600

_SHARED_SIZE_OPTIN = 97
_MULTIPROCESSORS = 16
_FUNC_SHARED_STATIC = 1
_FUNC_NUM_REGS = 4
_FUNC_MAX_DYNAMIC_SHARED = 8
_CACHE_PREFER_SHARED = 1
_MEMORY_UNIFIED = 4


class Memcpy2D(ctypes.Structure):
    """CUDA_MEMCPY2D_v2."""

    _fields_ = [
        ("src_x", ctypes.c_size_t), ("src_y", ctypes.c_size_t),
        ("src_type", ctypes.c_int), ("src_host", ctypes.c_void_p),
        ("src_device", Address), ("src_array", ctypes.c_void_p), ("src_pitch", ctypes.c_size_t),
        ("dst_x", ctypes.c_size_t), ("dst_y", ctypes.c_size_t),
        ("dst_type", ctypes.c_int), ("dst_host", ctypes.c_void_p),
        ("dst_device", Address), ("dst_array", ctypes.c_void_p), ("dst_pitch", ctypes.c_size_t),
        ("width", ctypes.c_size_t), ("height", ctypes.c_size_t),
    ]  # fmt: skip


SIGNATURES: dict[str, list[Any]] = {
    "cuInit": [ctypes.c_uint],
    "cuCtxGetCurrent": [ctypes.POINTER(Handle)],
    "cuCtxSetCurrent": [Handle],
    "cuDevicePrimaryCtxRetain": [ctypes.POINTER(Handle), ctypes.c_int],
    "cuGetErrorString": [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)],
    "cuDeviceGetAttribute": [ctypes.POINTER(ctypes.c_int), ctypes.c_int, ctypes.c_int],
    "cuMemcpyAsync": [Address, Address, ctypes.c_size_t, Handle],
    "cuMemcpyDtoHAsync_v2": [ctypes.c_void_p, Address, ctypes.c_size_t, Handle],
    "cuMemcpyHtoDAsync_v2": [Address, ctypes.c_void_p, ctypes.c_size_t, Handle],
    "cuMemcpy2DAsync_v2": [ctypes.POINTER(Memcpy2D), Handle],
    "cuStreamWaitValue32_v2": [Handle, Address, ctypes.c_uint32, ctypes.c_uint],
    "cuStreamWriteValue32_v2": [Handle, Address, ctypes.c_uint32, ctypes.c_uint],
    "cuStreamCreateWithPriority": [ctypes.POINTER(Handle), ctypes.c_uint, ctypes.c_int],
    "cuStreamDestroy_v2": [Handle],
    "cuStreamQuery": [Handle],
    "cuStreamIsCapturing": [Handle, ctypes.POINTER(ctypes.c_int)],
    "cuStreamWaitEvent": [Handle, Handle, ctypes.c_uint],
    "cuEventCreate": [ctypes.POINTER(Handle), ctypes.c_uint],
    "cuEventDestroy_v2": [Handle],
    "cuEventRecord": [Handle, Handle],
    "cuEventQuery": [Handle],
    "cuModuleLoadData": [ctypes.POINTER(Handle), ctypes.c_char_p],
    "cuModuleUnload": [Handle],
    "cuModuleGetFunction": [ctypes.POINTER(Handle), Handle, ctypes.c_char_p],
    "cuFuncGetAttribute": [ctypes.POINTER(ctypes.c_int), ctypes.c_int, Handle],
    "cuFuncSetAttribute": [Handle, ctypes.c_int, ctypes.c_int],
    "cuFuncSetCacheConfig": [Handle, ctypes.c_int],
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": [
        ctypes.POINTER(ctypes.c_int), Handle, ctypes.c_int, ctypes.c_size_t,
    ],
    "cuLaunchKernel": [Handle, *[ctypes.c_uint] * 7, Handle, ctypes.c_void_p, ctypes.c_void_p],
    "cuTensorMapEncodeTiled": [
        ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, Address, *[ctypes.c_void_p] * 4, *[ctypes.c_int] * 4,
    ],
}  # fmt: skip


@functools.cache
def _library() -> tuple[ctypes.CDLL, Process]:
    """The driver, and the process that can use it."""
    try:
        return ctypes.CDLL("libcuda.so.1"), this_process()
    except OSError as error:
        raise SyncopateError(
            f"the CUDA driver library libcuda.so.1 cannot be loaded ({error}); running needs an NVIDIA GPU"
        ) from None


@functools.cache
def function(name: str) -> Callable[..., int]:
    """The raw entry point of the driver, which returns its result code."""
    library, process = _library()
    expect_process(process, "the CUDA driver")
    entry = getattr(library, name)
    entry.argtypes = SIGNATURES[name]
    entry.restype = ctypes.c_int
    return entry  # type: ignore[no-any-return]


os.register_at_fork(after_in_child=function.cache_clear)


def check(code: int, what: str) -> None:
    """Raises a `SyncopateError` for a result code other than success."""
    if code:
        text = ctypes.c_char_p()
        function("cuGetErrorString")(code, ctypes.byref(text))
        raise SyncopateError(
            f"{what} failed: CUDA error {code}, {(text.value or b'unknown').decode()}"
        )


def call(name: str, *args: Any) -> None:
    """Calls the driver and raises on failure."""
    check(function(name)(*args), name)


def ensure_context(device: int) -> None:
    """Makes torch's context of a GPU that of this thread, if it has none.

    A thread gets one with its first call of the CUDA runtime, and the driver calls of a program may come before that:
    one that runs backward passes has made none.
    """
    context = Handle()
    call("cuCtxGetCurrent", ctypes.byref(context))
    if not context.value:
        call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        call("cuCtxSetCurrent", context)


def create_stream(priority: int = 0) -> int:
    """A new stream that does not synchronize with the default stream; a lower number is a higher priority."""
    stream = Handle()
    call("cuStreamCreateWithPriority", ctypes.byref(stream), STREAM_NON_BLOCKING, priority)
    return int(stream.value or 0)


def create_event() -> int:
    """A new event without timing."""
    event = Handle()
    call("cuEventCreate", ctypes.byref(event), EVENT_DISABLE_TIMING)
    return int(event.value or 0)


def record_and_wait(event: int, producer: int, consumer: int) -> None:
    """Makes what comes next on stream `consumer` wait for what is on stream `producer` now."""
    check(function("cuEventRecord")(event, producer), "cuEventRecord")
    check(function("cuStreamWaitEvent")(consumer, event, 0), "cuStreamWaitEvent")


def is_capturing(stream: int) -> bool:
    """Whether a CUDA graph is being captured from the stream."""
    status = ctypes.c_int()
    check(function("cuStreamIsCapturing")(stream, ctypes.byref(status)), "cuStreamIsCapturing")
    return status.value != 0


def event_done(event: int) -> bool:
    """Whether everything recorded before the event has finished."""
    code = function("cuEventQuery")(event)
    if code == NOT_READY:
        return False
    check(code, "cuEventQuery")
    return True


def stream_idle(stream: int) -> bool:
    """Whether everything on the stream has finished."""
    code = function("cuStreamQuery")(stream)
    if code == NOT_READY:
        return False
    check(code, "cuStreamQuery")
    return True


def describe_copy(
    dst: int, src: int, rows: int, row_bytes: int, dst_stride: int, src_stride: int
) -> Memcpy2D:
    """The argument of a 2-d copy between device addresses."""
    copy = Memcpy2D()
    copy.src_type = copy.dst_type = _MEMORY_UNIFIED
    copy.src_device, copy.dst_device = src, dst
    copy.src_pitch, copy.dst_pitch = src_stride, dst_stride
    copy.width, copy.height = row_bytes, rows
    return copy


def multiprocessors(device: int) -> int:
    """Number of SMs."""
    value = ctypes.c_int()
    call("cuDeviceGetAttribute", ctypes.byref(value), _MULTIPROCESSORS, device)
    return value.value


def load_function(cubin: bytes, name: str, shared_bytes: int, device: int) -> tuple[int, int]:
    """Loads machine code into the current context and readies it for launch.

    Asking for an attribute makes the driver load the function now: left to the first launch, lazy loading would
    synchronize with a kernel that spins for this very launch.

    Returns:
        The module's and the function's handle.
    """
    module, entry = Handle(), Handle()
    call("cuModuleLoadData", ctypes.byref(module), cubin)
    call("cuModuleGetFunction", ctypes.byref(entry), module, name.encode())
    value = ctypes.c_int()
    call("cuFuncGetAttribute", ctypes.byref(value), _FUNC_NUM_REGS, entry)
    call("cuDeviceGetAttribute", ctypes.byref(value), _SHARED_SIZE_OPTIN, device)
    optin = value.value
    call("cuFuncGetAttribute", ctypes.byref(value), _FUNC_SHARED_STATIC, entry)
    if shared_bytes + value.value > optin:
        raise SyncopateError(
            f"kernel {name} needs {shared_bytes + value.value} bytes of shared memory, but GPU {device} has {optin}; "
            f"use a smaller tile or fewer stages"
        )
    if shared_bytes > 48 * 1024:
        call("cuFuncSetCacheConfig", entry, _CACHE_PREFER_SHARED)
        call("cuFuncSetAttribute", entry, _FUNC_MAX_DYNAMIC_SHARED, optin - value.value)
    return int(module.value or 0), int(entry.value or 0)


def ctas_per_sm(entry: int, threads: int, shared_bytes: int) -> int:
    """How many CTAs of a function a multiprocessor of the current device can hold at once."""
    per_sm = ctypes.c_int()
    call(
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        ctypes.byref(per_sm),
        entry,
        threads,
        shared_bytes,
    )
    return per_sm.value
