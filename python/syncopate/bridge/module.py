"""Modules across the bridge, in generic form.

MLIR prints an operation that does not verify in generic form, whole. So a module attribute that cannot verify is set
through Triton's own bindings, the module is printed, and the attribute is neutralized and cut out of the text.
"""

import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend

from syncopate.bridge.errors import BridgeError
from syncopate.bridge.text import expand_aliases

__all__ = ["export_module", "import_module", "new_context", "self_check"]

_POISON_NAME = "llvm.data_layout"
_POISON_VALUE = "!syncopate"
_POISON_TEXT = f'{_POISON_NAME} = "{_POISON_VALUE}"'

_checked: set[str] = set()
_check_lock = threading.Lock()


def new_context(target: GPUTarget) -> Any:
    """Returns an MLIR context of Triton's with all dialects loaded that compiling for ``target`` uses."""
    context = ir.context()
    ir.load_dialects(context)
    make_backend(target).load_dialects(context)
    return context


def export_module(module: Any) -> str:
    """Returns ``module`` as generic-form text that MLIR parses without knowing Triton's dialects.

    Aliases are expanded in place; locations are kept, because argument names live in nothing else.

    Args:
        module: A module of Triton's bindings. It keeps an empty ``llvm.data_layout`` attribute, which means nothing:
            the bindings have no way to remove an attribute.

    Raises:
        BridgeError: The installed Triton did not print the generic form.
    """
    builder = ir.builder(module.context)
    module.set_attr(_POISON_NAME, builder.get_string_attr(_POISON_VALUE))
    try:
        text = str(module)
    finally:
        module.set_attr(_POISON_NAME, builder.get_string_attr(""))
    if '"builtin.module"() ' not in text or text.count(_POISON_TEXT) != 1:
        raise BridgeError("Triton did not print the module in generic form")
    for cut in (
        f", {_POISON_TEXT}",
        f"{_POISON_TEXT}, ",
        f" attributes {{{_POISON_TEXT}}}",
        _POISON_TEXT,
    ):
        if cut in text:
            text = text.replace(cut, "")
            break
    return expand_aliases(text)


def import_module(text: str, context: Any) -> Any:
    """Parses and verifies ``text`` in Triton's ``context`` and returns the module.

    Args:
        text: A module in generic form (or in Triton's own).
        context: A context of Triton's with its dialects loaded; the module keeps it alive.

    Raises:
        BridgeError: Triton rejects the module. Triton prints its diagnostics to stderr.
    """
    handle, path = tempfile.mkstemp(prefix="syncopate-", suffix=".mlir")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        module = ir.parse_mlir_module(path, context)
    except RuntimeError as error:
        raise BridgeError(f"Triton does not accept the module it was given: {error}") from error
    finally:
        Path(path).unlink()
    module.context = context
    return module


def self_check(module: Any) -> None:
    """Verifies once per process that ``module`` survives the way out of Triton and back in, text for text.

    The first module of a process stands for all: what can break is how a Triton version prints and parses.

    Raises:
        BridgeError: It does not.
    """
    with _check_lock:
        if triton.__version__ in _checked:
            return
        text = export_module(module)
        again = export_module(import_module(text, module.context))
        if again != text:
            line, other = next(
                (
                    pair
                    for pair in zip(text.splitlines(), again.splitlines(), strict=False)
                    if pair[0] != pair[1]
                ),
                ("", "the texts differ in length"),
            )
            raise BridgeError(
                f"the round trip of a module is not exact: {line.strip()!r} came back as {other.strip()!r}"
            )
        _checked.add(triton.__version__)
