"""Chunk IR from Python: contexts, parsing, pipelines, and the compiler's diagnostics as exceptions."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from syncopate.errors import PlanError
from syncopate.mlir import dialects, ir
from syncopate.mlir.passmanager import PassManager

__all__ = ["name_file", "new_context", "parse", "run_pipeline", "translate_errors"]

# The bindings cannot show a message that quotes bytes which are no text.
_NO_TEXT = "expects strings in UTF-8, but the error quotes one that is none"
# The bindings look for Python classes of every operation that is touched. They do not remember that a dialect has none,
# and look through the file system each time; an empty module ends this.
for _dialect in ("gluon", "llvm", "nvws", "tt", "ttg", "ttng"):
    sys.modules.setdefault(f"{dialects.__name__}.{_dialect}", ModuleType(_dialect))

_RUNNING = re.compile(r"^Failure while executing pass pipeline:\n")


def new_context() -> ir.Context:
    """Returns a context that knows the chunk dialect, and Triton's dialects as opaque ones.

    It works on the caller's thread alone: a module has one plan, and passes go over that one after another.
    """
    context = ir.Context()
    context.enable_multithreading(False)
    context.load_all_available_dialects()
    return context


@contextlib.contextmanager
def translate_errors(what: str = "") -> Iterator[None]:
    """Turns MLIR's errors into `PlanError`, one line per diagnostic, each with its source location.

    Args:
        what: What was being done, put in front of the message.
    """
    try:
        yield
    except RuntimeError as error:
        if "conversion error" not in str(error):
            raise
        raise PlanError(f"{what}: {_NO_TEXT}" if what else _NO_TEXT) from None
    except ir.MLIRError as error:
        lines: list[str] = []
        for diagnostic in error.error_diagnostics:
            _describe(diagnostic, 0, lines)
        text = "\n".join(lines) or _RUNNING.sub("", str(error))
        raise PlanError(f"{what}: {text}" if what else text) from None


def _describe(diagnostic: Any, depth: int, lines: list[str]) -> None:
    message = str(diagnostic.message)
    # MLIR attaches the whole operation, which a plan's author did not write.
    if message.startswith("see current operation"):
        return
    place = _place(diagnostic.location)
    lines.append("  " * depth + (f"{place}: " if place else "") + message)
    for note in diagnostic.notes:
        _describe(note, depth + 1, lines)


def _place(location: ir.Location) -> str:
    """The file and line of a location, or nothing."""
    match = re.search(r'"([^"]+)":(\d+)', str(location))
    return f"{match[1]}:{match[2]}" if match else ""


def parse(text: str, context: ir.Context) -> ir.Module:
    """Parses a module.

    Raises:
        PlanError: It is malformed, or breaks a rule of the dialect.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise PlanError(f"-:{line}: expects text, but got {text[error.start]!r}") from None
    # MLIR's lexer may report an error, such as a quote that is not closed, that its parser then overlooks; the bindings
    # end the process over an error of a call that succeeds. So errors are collected here, not by them.
    lines: list[str] = []

    def collect(diagnostic: Any) -> bool:
        if diagnostic.severity != ir.DiagnosticSeverity.ERROR:
            return False
        try:
            _describe(diagnostic, 0, lines)
        except RuntimeError:
            lines.append(_NO_TEXT)
        return True

    context.emit_error_diagnostics = True
    handler = context.attach_diagnostic_handler(collect)
    module = None
    try:
        with context, contextlib.suppress(ir.MLIRError):
            module = ir.Module.parse(text)
    finally:
        handler.detach()
        context.emit_error_diagnostics = False
    if lines or module is None:
        raise PlanError("\n".join(lines) or "the module is malformed")
    return module


def run_pipeline(module: ir.Module, pipeline: str, *, last: str | None = None) -> None:
    """Runs passes, such as ``syncopate-plan-pipeline{splits=2}``, on a module in place.

    The module is verified once, as someone may have changed it since it was parsed. What each pass leaves is not
    verified again, which would take half as long as the passes: `syncopate-opt` does that.

    Args:
        module: The module.
        pipeline: The passes.
        last: The one of them, without options, that no other is to come after; all run if it is left out.

    Raises:
        PlanError: The module breaks a rule of its dialects, or a pass refuses it.
    """
    with module.context, translate_errors():
        module.operation.verify()
        manager = PassManager.parse(f"builtin.module({pipeline})")
        if last is not None:
            passes = str(manager)
            front = passes[: passes.index(last) + len(last)]
            manager = PassManager.parse(front + ")" * (front.count("(") - front.count(")")))
        manager.enable_verifier(False)
        manager.run(module.operation)


@contextlib.contextmanager
def name_file(file: str) -> Iterator[None]:
    """Puts a file's name where MLIR, which has got its text, can only say `-`."""
    try:
        yield
    except PlanError as error:
        if not file:
            raise
        named = re.sub(
            r"^(\s*)-:(?=\d)", lambda m: f"{m[1]}{file}:", str(error), flags=re.MULTILINE
        )
        raise PlanError(named) from None
