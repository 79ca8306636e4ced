"""NCCL through ctypes: the few functions that library calls need, on communicators of our own.

A call through torch.distributed takes the host some 100 µs, mostly for work objects and events that nobody here waits
for; NCCL's own function takes a tenth of that. The library is the one that torch has loaded.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from syncopate.abi import CommandReduction
from syncopate.errors import SyncopateError
from syncopate.runtime.engine_plan import Exchange

__all__ = ["Communicator", "Nccl", "new_id"]

_Size, _Handle, _Int = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int

_TYPES: Final = {
    torch.int8: 0, torch.uint8: 1, torch.int32: 2, torch.int64: 4,
    torch.float16: 6, torch.float32: 7, torch.float64: 8, torch.bfloat16: 9,
}  # fmt: skip
_BYTES: Final = 1
"""The type of what is only moved."""

_REDUCTIONS: Final = {
    CommandReduction.SUM: 0,
    CommandReduction.MAX: 2,
    CommandReduction.MIN: 3,
}


class UniqueId(ctypes.Structure):
    """ncclUniqueId."""

    _fields_ = [("internal", ctypes.c_char * 128)]


class Config(ctypes.Structure):
    """ncclConfig_t as of NCCL 2.17, which says so itself: later versions fill in the rest."""

    _fields_ = [
        ("size", _Size), ("magic", ctypes.c_uint), ("version", ctypes.c_uint), ("blocking", _Int),
        ("cga_cluster_size", _Int), ("min_ctas", _Int), ("max_ctas", _Int), ("net_name", ctypes.c_char_p),
    ]  # fmt: skip


_MAGIC: Final = 0xCAFEBEEF
_VERSION: Final = 21700
_UNDEFINED: Final = -(2**31)

_SIGNATURES: Final[dict[str, list[Any]]] = {
    "ncclGetUniqueId": [ctypes.POINTER(UniqueId)],
    "ncclCommInitRankConfig": [
        ctypes.POINTER(_Handle), _Int, UniqueId, _Int, ctypes.POINTER(Config),
    ],
    "ncclCommDestroy": [_Handle],
    "ncclCommAbort": [_Handle],
    "ncclAllReduce": [_Handle, _Handle, _Size, _Int, _Int, _Handle, _Handle],
    "ncclReduceScatter": [_Handle, _Handle, _Size, _Int, _Int, _Handle, _Handle],
    "ncclAllGather": [_Handle, _Handle, _Size, _Int, _Handle, _Handle],
    "ncclSend": [_Handle, _Size, _Int, _Int, _Handle, _Handle],
    "ncclRecv": [_Handle, _Size, _Int, _Int, _Handle, _Handle],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
}  # fmt: skip


@functools.cache
def _library() -> ctypes.CDLL:
    # The first name is that of what torch has loaded already; where it is linked into torch, there is no such file.
    inside = Path(torch.__file__).parent / "lib" / "libtorch_cuda.so"
    for name in ("libnccl.so.2", str(inside)):
        try:
            library = ctypes.CDLL(name)
            _ = library.ncclCommInitRankConfig  # An old library lacks it.
        except (OSError, AttributeError):
            continue
        return library
    raise SyncopateError(
        "the program makes library calls, but there is no libnccl.so.2 of version 2.14 or later; install a torch "
        "with NCCL"
    )


@functools.cache
def _function(name: str) -> Callable[..., int]:
    entry = getattr(_library(), name)
    entry.argtypes, entry.restype = _SIGNATURES[name], _Int
    return entry  # type: ignore[no-any-return]


def _check(code: int, what: str) -> None:
    if code:
        describe = _library().ncclGetErrorString
        describe.argtypes, describe.restype = [_Int], ctypes.c_char_p
        raise SyncopateError(
            f"{what} failed: NCCL error {code}, {(describe(code) or b'unknown').decode()}; NCCL_DEBUG=WARN says more"
        )


def new_id() -> bytes:
    """What one rank makes and all ranks of a new communicator need."""
    unique = UniqueId()
    _check(_function("ncclGetUniqueId")(ctypes.byref(unique)), "ncclGetUniqueId")
    return bytes(unique)


class Communicator:
    """This process's part of a communicator, on the current CUDA device.

    Attributes:
        rank: The rank.
        world_size: Number of ranks.
        handle: What NCCL calls it by; 0 when it is closed or aborted.
    """

    def __init__(self, unique: bytes, world_size: int, rank: int, ctas: int) -> None:
        """Connects. Collective.

        Args:
            unique: What `new_id` gave one of the ranks.
            world_size: Number of ranks.
            rank: This one.
            ctas: CTAs that a call may have; 0 for any number.

        Raises:
            SyncopateError: NCCL failed.
        """
        config = Config(ctypes.sizeof(Config), _MAGIC, _VERSION, *[_UNDEFINED] * 4, None)
        # A cluster of CTAs needs neighbouring SMs, which the computation does not leave free.
        config.cga_cluster_size = 0
        if ctas:
            config.max_ctas = ctas
        handle = _Handle()
        name = "ncclCommInitRankConfig"
        code = _function(name)(
            ctypes.byref(handle),
            world_size,
            UniqueId.from_buffer_copy(unique),
            rank,
            ctypes.byref(config),
        )
        _check(code, name)
        self.rank, self.world_size = rank, world_size
        self.handle = int(handle.value or 0)

    def close(self) -> None:
        """Frees it. Collective; graphs that have captured its calls must be gone."""
        handle, self.handle = self.handle, 0
        if handle:
            _check(_function("ncclCommDestroy")(handle), "ncclCommDestroy")

    def abort(self) -> None:
        """Ends its kernels, which may wait for ranks that do not come; returns when they have ended."""
        handle, self.handle = self.handle, 0
        if handle:
            _check(_function("ncclCommAbort")(handle), "ncclCommAbort")


class Nccl:
    """A `Library` on a communicator."""

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator

    def all_reduce(
        self, tensor: torch.Tensor, reduction: CommandReduction, stream: int
    ) -> Callable[[], int]:
        """In place."""
        at, kind = tensor.data_ptr(), _TYPES[tensor.dtype]
        operation = _REDUCTIONS[reduction]
        return self._bind("ncclAllReduce", stream, at, at, tensor.numel(), kind, operation)

    def reduce_scatter(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        reduction: CommandReduction,
        stream: int,
    ) -> Callable[[], int]:
        """In place if `output` is the rank's part of `tensor`."""
        given, got, kind = tensor.data_ptr(), output.data_ptr(), _TYPES[tensor.dtype]
        operation = _REDUCTIONS[reduction]
        return self._bind("ncclReduceScatter", stream, given, got, output.numel(), kind, operation)

    def all_gather(
        self, output: torch.Tensor, tensor: torch.Tensor, stream: int
    ) -> Callable[[], int]:
        """In place if `tensor` is the rank's part of `output`."""
        given, got = tensor.data_ptr(), output.data_ptr()
        return self._bind("ncclAllGather", stream, given, got, tensor.nbytes, _BYTES)

    def all_to_all(
        self, outputs: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor], stream: int
    ) -> Callable[[], int]:
        """By as many sends and receives, in one group."""
        return self._bind_group(
            [
                (name, stream, peer, part.data_ptr(), part.nbytes)
                for peer, (got, given) in enumerate(zip(outputs, tensors, strict=True))
                for name, part in (("ncclSend", given), ("ncclRecv", got))
            ]
        )

    def exchange(
        self,
        op: Exchange,
        sends: Sequence[tuple[int, int, int]],
        receives: Sequence[tuple[int, int, int]],
        stream: int,
    ) -> Callable[[], int]:
        """By as many sends and receives, in one group; in any order but for those of the same two ranks."""
        return self._bind_group(
            [("ncclSend", stream, *piece) for piece in sends]
            + [("ncclRecv", stream, *piece) for piece in receives]
        )

    def finish(self, stream: int) -> Callable[[], int] | None:
        """Nothing: a call ends on the stream itself."""
        return None

    def warm_up(self, calls: Sequence[Callable[[], int]]) -> None:
        """Makes the calls: the first of its kind and size connects, allocates, and loads its kernel."""
        for call in calls:
            call()
        torch.cuda.synchronize()

    def abort(self) -> None:
        """Aborts the communicator, which other programs of the same ranks may share."""
        self._communicator.abort()

    def _expect_open(self) -> None:
        if not self._communicator.handle:
            raise SyncopateError(
                "the communicator of this program's library calls is gone, after a fault or with its group; "
                "load the program again"
            )

    def _bind_group(self, parts: Sequence[tuple[str, int, int, int, int]]) -> Callable[[], int]:
        """Sends and receives: by which function, on which stream, with which rank, from where, how many bytes."""
        steps = [
            _function("ncclGroupStart"),
            *(
                self._bind(name, stream, address, nbytes, _BYTES, peer)
                for name, stream, peer, address, nbytes in parts
            ),
            _function("ncclGroupEnd"),
        ]

        def run() -> int:
            self._expect_open()
            for step in steps:
                _check(step(), "a group of sends and receives")
            return 0

        return run

    def _bind(self, name: str, stream: int, *args: int) -> Callable[[], int]:
        entry, communicator = _function(name), self._communicator
        converted = tuple(
            kind(arg)
            for kind, arg in zip(
                _SIGNATURES[name], (*args, communicator.handle, stream), strict=True
            )
        )

        def run() -> int:
            if not communicator.handle:
                self._expect_open()
            code = entry(*converted)
            if code:
                _check(code, name)
            return 0

        return run
