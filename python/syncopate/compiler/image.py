"""From Triton's IR to machine code and back, with everything that was done before on disk."""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import triton
from triton._C.libtriton import get_cache_invalidating_env_vars
from triton.compiler.errors import CompilationError
from triton.runtime.jit import JITFunction

import syncopate
from syncopate import bridge
from syncopate.compiler.cache import Cache, hash_of
from syncopate.errors import SyncopateError
from syncopate.runtime.interface import DescriptorLayout, KernelImage

__all__ = ["capture", "compile_image"]

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
    """What the compiler itself is: its version, its native libraries and its way in and out of Triton."""
    package = Path(syncopate.__file__).parent
    parts = [
        *sorted((package / "mlir" / "_mlir_libs").glob("*.so*")),
        *sorted((package / "bridge").glob("*.py")),
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


def capture(kernel: JITFunction[Any], spec: bridge.KernelSpec) -> bridge.Captured:
    """The local kernel at both levels, from the cache if it was seen before."""
    # Locations in the IR name the file, so it is part of the key.
    home = kernel.fn.__code__.co_filename
    key = hash_of("kernel", _compiler_hash(), home, kernel.cache_key, *_key_of(spec))
    _check_globals(kernel)
    entry = _kernels.find(key)
    if entry is not None:
        return bridge.Captured(entry["ttir.mlir"].decode(), entry["ttgir.mlir"].decode())
    with _explain_triton(kernel):
        captured = bridge.capture_ttgir(spec)
    _kernels.store(
        key, {"ttir.mlir": captured.ttir.encode(), "ttgir.mlir": captured.ttgir.encode()}
    )
    return captured


def compile_image(spec: bridge.KernelSpec, fused: str) -> tuple[KernelImage, dict[str, str]]:
    """The fused kernel's machine code, and its IR on the way there; from the cache if it was compiled before."""
    key = hash_of("image", _compiler_hash(), fused, *_key_of(spec))
    entry = _images.find(key)
    if entry is None:
        compiled = bridge.compile_with(spec, lambda _ttir, _ttgir: fused, key)
        arguments = list(spec.signature.items())
        image = KernelImage.from_triton(compiled, arguments)
        meta = asdict(image)
        del meta["cubin"]
        entry = {
            "image.json": json.dumps(meta).encode(),
            "kernel.cubin": image.cubin,
            "kernel.ttgir": compiled.asm["ttgir"].encode(),
            "kernel.ptx": compiled.asm["ptx"].encode(),
        }
        _images.store(key, entry)
    meta = json.loads(entry["image.json"])
    meta["arguments"] = tuple((name, kind) for name, kind in meta["arguments"])
    meta["descriptors"] = tuple(
        DescriptorLayout(**{**layout, "block_size": tuple(layout["block_size"])})
        for layout in meta["descriptors"]
    )
    image = KernelImage(cubin=entry["kernel.cubin"], **meta)
    texts = {"ttgir": entry["kernel.ttgir"].decode(), "ptx": entry["kernel.ptx"].decode()}
    return image, texts
