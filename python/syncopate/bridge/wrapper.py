"""Kernels whose source is generated, among them wrappers that give a kernel one more argument.

Triton builds its launcher from a kernel's source signature, so an argument added later, in TritonGPU IR, would never
be passed. A wrapper takes the pointer to the context as its first parameter and calls the user's kernel, which Triton
inlines.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from triton.runtime.jit import JITFunction

from syncopate.bridge.cache import cache_folder, write_whole
from syncopate.errors import SyncopateError

__all__ = ["CONTEXT_ARGUMENT", "define_kernel", "make_wrapper"]

CONTEXT_ARGUMENT: Final = "sy_context"
"""Name of the parameter that a wrapper puts before those of the kernel; its type is ``*i64``."""


def define_kernel(source: str, name: str, globals_: Mapping[str, Any]) -> JITFunction[Any]:
    """Makes a ``@triton.jit`` function of generated source.

    Triton reads the source of a kernel from its file, so it is written to one, which stays for locations to lead to.

    Args:
        source: A module that defines the function.
        name: The function.
        globals_: What the module finds without importing it.
    """
    path = (
        cache_folder("wrappers") / f"{name}-{hashlib.sha256(source.encode()).hexdigest()[:16]}.py"
    )
    if not path.exists() or path.read_text() != source:
        write_whole(path, source)
    scope: dict[str, Any] = {"__name__": f"syncopate.wrappers.{name}", **globals_}
    exec(compile(source, str(path), "exec"), scope)
    kernel = scope[name]
    assert isinstance(kernel, JITFunction)
    return kernel


def make_wrapper(
    kernel: JITFunction[Any], name: str, extra: Sequence[str] = ()
) -> JITFunction[Any]:
    """Returns a ``@triton.jit`` function that takes ``sy_context``, ``extra`` and then what ``kernel`` takes.

    It calls the kernel with what that takes; the others are for code that is added later.

    Args:
        kernel: A plain ``@triton.jit`` function, from any module.
        name: Name of the wrapper and so of the compiled function, a Python identifier.
        extra: Names of further parameters.

    Raises:
        SyncopateError: ``kernel`` is no ``@triton.jit`` function (an autotuner wraps one: pass its ``fn``).
            ``name`` is no identifier, or ``kernel`` has a parameter called ``sy_context``.
    """
    if not isinstance(kernel, JITFunction):
        raise SyncopateError(
            f"kernel must be a @triton.jit function, but got {type(kernel).__name__}; pass the function that it wraps"
        )
    if not name.isidentifier():
        raise SyncopateError(f"name must be a Python identifier, but got {name!r}")
    added = [CONTEXT_ARGUMENT, *extra]
    for taken in added:
        if taken in kernel.arg_names:
            raise SyncopateError(
                f"parameter {taken!r} of {kernel.__name__} collides with an argument that is added; rename it"
            )
    parameters = [f"{p.name}: tl.constexpr" if p.is_constexpr else p.name for p in kernel.params]
    source = "\n".join(
        [
            f'"""Wrapper of the kernel {kernel.__name__}, generated."""',
            "",
            "import triton",
            "import triton.language as tl",
            "",
            "",
            "@triton.jit",
            f"def {name}({', '.join([*added, *parameters])}):",
            f"    sy_kernel({', '.join(kernel.arg_names)})",
            "",
        ]
    )
    return define_kernel(source, name, {"sy_kernel": kernel})
