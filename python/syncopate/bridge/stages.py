# mypy: allow-subclassing-any

"""Hooks into Triton's compile, between TritonGPU IR and LLVM IR.

Triton offers one global hook that sees the table of stages of every compile. It is installed here under a lock, acts
only on the compile of the thread that installed it, passes everything on to a hook that was there before, and is
always taken out again. The original ``ttgir`` stage runs first (it also records what the launcher must know of tensor
descriptors); its result is what a transformation receives.

Triton's on-disk cache knows nothing of the transformation, so the caller's key becomes part of the source's hash.
"""

import hashlib
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompiledKernel
from triton.experimental.gluon._runtime import GluonASTSource
from triton.runtime.jit import JITFunction

from syncopate.bridge.module import export_module, import_module, self_check

__all__ = [
    "Captured",
    "KernelSpec",
    "Transform",
    "Transformed",
    "capture_ttgir",
    "compile_with",
    "divisible",
    "transform_with",
]

Transform = Callable[[str, str], str]
"""Takes the generic-form TTIR and TTGIR of a kernel, returns the generic-form TTGIR to compile in its place."""

_lock = threading.RLock()


@dataclass(frozen=True)
class KernelSpec:
    """Everything that Triton needs to compile one kernel without a GPU.

    Attributes:
        kernel: The kernel, written in Triton or in Gluon.
        signature: Triton type of every parameter, in order: ``*bf16``, ``i32``, ``tensordesc<bf16[128,64]>``,
            ``constexpr``.
        constexprs: Values of the parameters whose type is ``constexpr``, by name.
        attrs: What Triton may assume of a parameter, by the path of its position: ``{(0,): [["tt.divisibility",
            16]]}``. ``divisible`` makes them.
        target: What to compile for, e.g. ``GPUTarget("cuda", 90, 32)``.
        options: Triton's compile options, ``num_warps`` and ``num_stages`` among them. ``enable_fp_fusion`` is on
            unless it is given: its default differs between versions of Triton.
    """

    kernel: JITFunction[Any]
    signature: Mapping[str, str]
    constexprs: Mapping[str, Any] = field(default_factory=dict)
    attrs: Mapping[tuple[int, ...], Any] = field(default_factory=dict)
    target: GPUTarget = field(default_factory=lambda: GPUTarget("cuda", 90, 32))
    options: Mapping[str, Any] = field(default_factory=dict)

    def pinned_options(self) -> dict[str, Any]:
        """Returns the options with nothing left to a default that Triton changes between versions."""
        return {"enable_fp_fusion": True, **self.options}


def divisible(names: Sequence[str], values: Mapping[str, int]) -> dict[tuple[int, ...], Any]:
    """Returns what Triton may assume of integer and pointer parameters, for ``KernelSpec.attrs``.

    Triton itself distinguishes multiples of 16 only. Smaller powers of two matter where rows are not 16-byte aligned:
    an asynchronous copy of 4 bytes needs strides that are a multiple of two 16-bit elements.

    Args:
        names: All parameters of the kernel, in order.
        values: By name, a value (or an address) that stands for all that will be passed: a multiple of the largest
            power of two, up to 16, that divides them.
    """
    attrs: dict[tuple[int, ...], Any] = {}
    for name, value in values.items():
        divisor = math.gcd(value, 16)
        if divisor > 1:
            attrs[(names.index(name),)] = [["tt.divisibility", divisor]]
    return attrs


@dataclass(frozen=True)
class Captured:
    """The generic form of a kernel at two levels; ``ttir`` is empty for a kernel written in Gluon."""

    ttir: str
    ttgir: str


class _Stop(Exception):
    """Ends a compile after its ``ttgir`` stage."""


class _KeyedSource(ASTSource):
    key = ""

    def hash(self) -> str:
        return hashlib.sha256(f"{super().hash()}-{self.key}".encode()).hexdigest()


class _KeyedGluonSource(GluonASTSource):
    key = ""

    def hash(self) -> str:
        return hashlib.sha256(f"{super().hash()}-{self.key}".encode()).hexdigest()


def _source(spec: KernelSpec, key: str) -> Any:
    cls = _KeyedGluonSource if spec.kernel.is_gluon() else _KeyedSource
    source = cls(
        spec.kernel, dict(spec.signature), constexprs=dict(spec.constexprs), attrs=dict(spec.attrs)
    )
    source.key = key
    return source


class _Hook:
    """What Triton calls for every compile while a wrapped stage is installed."""

    def __init__(self, wrap: Callable[[Any, Any, Any], Any], replaced: Any) -> None:
        self._wrap = wrap
        self._owner = threading.get_ident()
        # A compile inside a transformation is no business of the outer hook.
        self._foreign: Any = replaced._foreign if isinstance(replaced, _Hook) else replaced

    def __call__(self, *arguments: Any) -> Any:
        # Newer versions of Triton first ask for (key, hash), with no arguments, to tell their caches apart.
        if not arguments:
            return self._foreign() if self._foreign is not None else ("", "")
        if self._foreign is not None:
            self._foreign(*arguments)
        if threading.get_ident() == self._owner:
            stages = arguments[1]
            original = stages["ttgir"]
            stages["ttgir"] = lambda module, metadata: self._wrap(original, module, metadata)
        return None


@contextmanager
def _wrapped_ttgir_stage(wrap: Callable[[Any, Any, Any], Any]) -> Iterator[None]:
    """Installs ``wrap(original_stage, module, metadata)`` as the ``ttgir`` stage of this thread's compiles."""
    runtime = triton.knobs.runtime
    with _lock:
        replaced = runtime.add_stages_inspection_hook
        runtime.add_stages_inspection_hook = _Hook(wrap, replaced)
        try:
            yield
        finally:
            runtime.add_stages_inspection_hook = replaced


def _compile(spec: KernelSpec, key: str) -> CompiledKernel:
    return triton.compile(_source(spec, key), target=spec.target, options=spec.pinned_options())


def _run_stage(spec: KernelSpec, original: Any, module: Any, metadata: Any) -> tuple[Captured, Any]:
    # The stage rewrites its argument in place, so the text of the level above is taken first.
    ttir = "" if spec.kernel.is_gluon() else export_module(module)
    module = original(module, metadata)
    self_check(module)
    return Captured(ttir, export_module(module)), module


def capture_ttgir(spec: KernelSpec) -> Captured:
    """Compiles a kernel as far as TritonGPU IR and returns both levels in generic form.

    Raises:
        BridgeError: The installed Triton's modules do not survive the bridge.
    """
    captured: list[Captured] = []

    def stop(original: Any, module: Any, metadata: Any) -> Any:
        captured.append(_run_stage(spec, original, module, metadata)[0])
        raise _Stop

    with _wrapped_ttgir_stage(stop), suppress(_Stop):
        _compile(spec, "capture")
    return captured[0]


def compile_with(spec: KernelSpec, transform: Transform, key: str) -> CompiledKernel:
    """Compiles a kernel with its TritonGPU IR replaced by ``transform``'s result.

    Args:
        spec: The kernel and how to compile it.
        transform: Receives the generic-form TTIR and TTGIR, returns the TTGIR that goes on to PTX and cubin. It is not
            called when Triton's cache already holds the result.
        key: Names everything that ``transform`` depends on besides its arguments; part of Triton's cache key.

    Returns:
        Triton's compiled kernel; ``asm`` holds the transformed ``ttgir`` and what was made of it.

    Raises:
        BridgeError: Triton rejects the transformed module.
    """

    def replace(original: Any, module: Any, metadata: Any) -> Any:
        captured, module = _run_stage(spec, original, module, metadata)
        return import_module(transform(captured.ttir, captured.ttgir), module.context)

    with _wrapped_ttgir_stage(replace):
        return _compile(spec, key)


@dataclass(frozen=True)
class Transformed:
    """What `compile_with` makes machine code of.

    Attributes:
        ttgir: The transformed module, as Triton prints it.
        metadata: What Triton knows by then of how a launch passes its arguments.
    """

    ttgir: str
    metadata: Mapping[str, Any]


def transform_with(spec: KernelSpec, transform: Transform) -> Transformed:
    """Does what `compile_with` does, up to machine code.

    Raises:
        BridgeError: Triton rejects the transformed module.
    """
    transformed: list[Transformed] = []

    def stop(original: Any, module: Any, metadata: Any) -> Any:
        captured, module = _run_stage(spec, original, module, metadata)
        module = import_module(transform(captured.ttir, captured.ttgir), module.context)
        transformed.append(Transformed(str(module), dict(metadata)))
        raise _Stop

    with _wrapped_ttgir_stage(stop), suppress(_Stop):
        _compile(spec, "transform")
    return transformed[0]
