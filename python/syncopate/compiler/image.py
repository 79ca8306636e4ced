"""From Triton's IR to machine code and back, with everything that was done before on disk."""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import triton
from triton._C.libtriton import get_cache_invalidating_env_vars
from triton.compiler.errors import CompilationError
from triton.runtime.jit import JITFunction

import syncopate
from syncopate import bridge, device
from syncopate.compiler.cache import MOST_ENTRIES, Cache, hash_of
from syncopate.compiler.fusion import Fusion
from syncopate.errors import SyncopateError
from syncopate.recent import Recent
from syncopate.runtime.interface import DescriptorLayout, KernelImage

__all__ = ["CompiledKernel", "capture", "compile_image", "kernel_key"]

_kernels = Cache("kernels")
_images = Cache("images")


def _key_of(spec: bridge.KernelSpec) -> tuple[object, ...]:
    return (
        triton.__version__,
        # What Triton itself keeps its cache apart by, and which assembler it calls.
        sorted(get_cache_invalidating_env_vars().items()),
        os.environ.get("TRITON_PTXAS_PATH", ""),
        sorted(spec.signature.items()),
        sorted((name, repr(value)) for name, value in spec.constexprs.items()),
        sorted(spec.attrs.items()),
        spec.target,
        sorted(spec.pinned_options().items()),
    )


@functools.cache
def _compiler_hash() -> str:
    """What the compiler itself is: its version, its native libraries, how it calls Triton and these, what it keeps."""
    package = Path(syncopate.__file__).parent
    parts = [
        *sorted((package / "mlir" / "_mlir_libs").glob("*.so*")),
        *sorted((package / "bridge").glob("*.py")),
        *sorted((package / "compiler").glob("*.py")),
        package / "dtypes.py",
        package / "runtime" / "interface.py",
    ]
    return hash_of(syncopate.__version__, *(path.read_bytes() for path in parts))


def _check_globals(kernel: JITFunction[Any]) -> None:
    """A kernel's key holds the values that its global variables had when it was first asked for, as in Triton."""
    for (name, _), (value, scope) in getattr(kernel, "used_global_vals", {}).items():
        if name in scope and scope[name] != value:
            raise SyncopateError(
                f"kernel {kernel.__name__}: global {name} has changed from {value} to {scope[name]} since the "
                "kernel was first compiled; pass it as a compile-time parameter"
            )


@contextlib.contextmanager
def _explain_triton(kernel: JITFunction[Any]) -> Iterator[None]:
    """Turns Triton's complaint about a local kernel into one error, the innermost, which shows its own line."""
    try:
        yield
    except CompilationError as error:
        while isinstance(error.__cause__, CompilationError):
            error = error.__cause__
        raise SyncopateError(f"kernel {kernel.__name__}: Triton refuses it {error}") from error
    except RuntimeError as error:
        raise SyncopateError(
            f"kernel {kernel.__name__}: Triton cannot compile it with these types and options: {error} (if the "
            "loop over tiles has no loop inside, Triton may have tried to pipeline it: compile with "
            "options={'num_stages': 1})"
        ) from error


def kernel_key(kernel: JITFunction[Any], spec: bridge.KernelSpec) -> str:
    """What tells a local kernel apart, and how it is compiled.

    Raises:
        SyncopateError: A global variable of the kernel has changed.
    """
    # Locations in the IR name the file, so it is part of the key.
    home = kernel.fn.__code__.co_filename
    key = hash_of("kernel", _compiler_hash(), home, kernel.cache_key, *_key_of(spec))
    _check_globals(kernel)
    return key


def capture(kernel: JITFunction[Any], spec: bridge.KernelSpec, key: str) -> bridge.Captured:
    """The local kernel at both levels, from the cache if its `kernel_key` was seen before."""
    entry = _kernels.find(key)
    if entry is not None:
        return bridge.Captured(entry["ttir.mlir"].decode(), entry["ttgir.mlir"].decode())
    with _explain_triton(kernel):
        captured = bridge.capture_ttgir(spec)
    _kernels.store(
        key, {"ttir.mlir": captured.ttir.encode(), "ttgir.mlir": captured.ttgir.encode()}
    )
    return captured


@dataclass(frozen=True)
class CompiledKernel:
    """A fused kernel for whatever plan has the features that it was made for.

    Attributes:
        image: Its machine code.
        localized_argument: The argument in whose place it reads the rank's own input where the caller keeps it.
        fused: The kernel, in generic form.
        ttgir: The same as Triton prints it.
        ptx: What Triton makes of that; empty without machine code.
    """

    image: KernelImage
    localized_argument: str | None
    fused: bytes
    ttgir: bytes
    ptx: bytes


def compile_image(
    spec: bridge.KernelSpec, fusion: Fusion, key: str, *, machine_code: bool = True
) -> CompiledKernel:
    """The fused kernel's machine code, from the cache if there is some for a plan of the same features.

    Args:
        spec: How the local kernel is compiled.
        fusion: The kernel, and the plan.
        key: Its `kernel_key`.
        machine_code: Whether to make machine code, which takes most of the time, or to stop before.
    """
    key = hash_of(
        "image" if machine_code else "module", key, device.source_hash(), fusion.features.key
    )
    compiled = _compiled.find(key)
    if compiled is None:
        entry = _images.find(key)
        if entry is None:
            entry = (_compile if machine_code else _transform)(spec, fusion, key)
            _images.store(key, entry)
        compiled = _compiled.keep(key, _read_entry(entry))
    return compiled


_compiled: Final[Recent[str, CompiledKernel]] = Recent(MOST_ENTRIES)


def _compile(spec: bridge.KernelSpec, fusion: Fusion, key: str) -> Mapping[str, bytes]:
    fused = fusion.fused
    compiled = bridge.compile_with(spec, lambda _ttir, _ttgir: fused, key)
    image = KernelImage.from_triton(compiled, list(spec.signature.items()))
    return _make_entry(image, fusion, compiled.asm["ttgir"], compiled.asm["ptx"])


def _transform(spec: bridge.KernelSpec, fusion: Fusion, _key: str) -> Mapping[str, bytes]:
    fused = fusion.fused
    transformed = bridge.transform_with(spec, lambda _ttir, _ttgir: fused)
    image = KernelImage.without_code(
        spec.kernel.__name__, transformed.metadata, list(spec.signature.items())
    )
    return _make_entry(image, fusion, transformed.ttgir, "")


def _make_entry(image: KernelImage, fusion: Fusion, ttgir: str, ptx: str) -> Mapping[str, bytes]:
    meta = asdict(image)
    del meta["cubin"]
    return {
        "image.json": json.dumps(meta).encode(),
        "kernel.json": json.dumps({"localized_argument": fusion.localized_argument}).encode(),
        "kernel.cubin": image.cubin,
        "kernel.mlir": fusion.fused.encode(),
        "kernel.ttgir": ttgir.encode(),
        "kernel.ptx": ptx.encode(),
    }


def _read_entry(entry: Mapping[str, bytes]) -> CompiledKernel:
    meta = json.loads(entry["image.json"])
    meta["arguments"] = tuple((name, kind) for name, kind in meta["arguments"])
    meta["descriptors"] = tuple(
        DescriptorLayout(**{**layout, "block_size": tuple(layout["block_size"])})
        for layout in meta["descriptors"]
    )
    return CompiledKernel(
        KernelImage(cubin=entry["kernel.cubin"], **meta),
        json.loads(entry["kernel.json"])["localized_argument"],
        entry["kernel.mlir"],
        entry["kernel.ttgir"],
        entry["kernel.ptx"],
    )
