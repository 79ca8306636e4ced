"""Files of other systems, by the name of their format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from syncopate.errors import PlanError, SyncopateError
from syncopate.importers.formats.layouts_json import read_layouts_json
from syncopate.importers.formats.mercury_json import read_mercury_json
from syncopate.importers.formats.msccl_xml import read_msccl_xml
from syncopate.importers.formats.mscclpp_json import read_mscclpp_json
from syncopate.importers.formats.partitions_json import read_partitions_json
from syncopate.importers.formats.taccl_json import read_taccl_json
from syncopate.importers.formats.write_msccl_xml import write_msccl_xml
from syncopate.importers.formats.write_mscclpp_json import write_mscclpp_json
from syncopate.importers.imported import Imported
from syncopate.importers.layouts.exchange import Exchange
from syncopate.importers.layouts.rings import Ring
from syncopate.importers.names import Format, Source
from syncopate.importers.steps.collective_steps import Collective, CollectiveSteps
from syncopate.importers.steps.emit import emit_plan
from syncopate.importers.steps.read_plan import read_plan
from syncopate.importers.xla.exchanges import read_hlo_exchanges, read_stablehlo_exchanges
from syncopate.plan import Plan
from syncopate.plan.plan_source import read_text

__all__ = ["export_plan", "import_plan", "read_exchanges", "read_steps"]

_Read = TypeVar("_Read")

_READERS: Final[Mapping[Format, Callable[[str, str], CollectiveSteps]]] = {
    Format.MSCCL_XML: read_msccl_xml,
    Format.MSCCLPP_JSON: read_mscclpp_json,
    Format.TACCL_JSON: read_taccl_json,
    Format.PARTITIONS_JSON: read_partitions_json,
}
_TENSOR_READERS: Final[Mapping[Format, Callable[[str, str], Sequence[Exchange | Ring]]]] = {
    Format.STABLEHLO: read_stablehlo_exchanges,
    Format.HLO: read_hlo_exchanges,
    Format.LAYOUTS_JSON: read_layouts_json,
    Format.MERCURY_JSON: read_mercury_json,
}
_WRITERS: Final[Mapping[Format, Callable[[CollectiveSteps], str]]] = {
    Format.MSCCL_XML: write_msccl_xml,
    Format.MSCCLPP_JSON: write_mscclpp_json,
}


def read_steps(text: str, form: Format | str, file: str = "-") -> CollectiveSteps:
    """The steps of a file.

    Args:
        text: What is in it.
        form: Its format, one that has steps.
        file: Its name, for errors.

    Raises:
        PlanError: The file is malformed, or says what has no meaning or is no plan; the message names file and line.
        SyncopateError: There are no steps in files of this format.
    """
    return _read(_READERS, text, form, file)


def read_exchanges(text: str, form: Format | str, file: str = "-") -> list[Exchange | Ring]:
    """What moves at each place of a file where something does, in the order of the file.

    Args:
        text: What is in it.
        form: Its format, one that has no steps.
        file: Its name, for errors.

    Raises:
        PlanError: The file is malformed, or says what has no meaning or is no plan, or nothing moves.
        SyncopateError: Files of this format have steps.
    """
    found = _read(_TENSOR_READERS, text, form, file)
    if not found:
        raise PlanError(
            f"{file}:1: expects collectives, or layouts that differ, but there are none"
        )
    return list(found)


def _read(
    readers: Mapping[Format, Callable[[str, str], _Read]], text: str, form: Format | str, file: str
) -> _Read:
    known = _to_format(form)
    if known not in readers:
        names = ", ".join(other.value for other in readers)
        raise SyncopateError(f"format: expects one of {names}, but got {known.value}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise PlanError(f"{file}:{line}: expects text, but got {text[error.start]!r}") from None
    return readers[known](text, file)


def import_plan(
    path: Path | str,
    form: Format | str,
    *,
    shape: Sequence[int] | None = None,
    dtype: str | None = None,
    source: Source | None = None,
    kernel: bool = False,
    line: int | None = None,
) -> Imported:
    """A plan that does what a file says.

    A file with steps is proved to be the collective that it says it is, contribution by contribution, and a
    `chunk.claim` has the compiler prove the plan again, where there is an operation of plans for that collective. What
    a file says of tensors becomes the collectives of plans, or puts.

    Args:
        path: The file.
        form: Its format.
        shape: Of what is gathered, reduced or exchanged by steps; its first dimension is cut. By default the smallest
            that has 8 rows of 64 elements for each chunk. Files without steps say it.
        dtype: Element type as MLIR spells it, f32 by default. Files without steps say it.
        source: Whether ranks bring along what it starts with, or tiles of the kernel compute it. By default tiles, if
            the file has a product that computes it, else ranks.
        kernel: Whether to add a kernel without code, for tools; see `emit_plan`.
        line: Which place of a file without steps, if something moves at several: the line where it is written.

    Raises:
        PlanError: The file is malformed, or is not what it says, or the plan breaks a rule.
        SyncopateError: The file cannot be read, or an argument does not go with its format.
    """
    known = _to_format(form)
    text = read_text(str(path), f"{known.value}: {known.summary}")
    if not known.has_steps:
        for name, value in (("shape", shape), ("dtype", dtype)):
            if value is not None:
                raise SyncopateError(f"{name}: expects none, since a file of {known.value} says it")
        return _choose(read_exchanges(text, known, str(path)), line).build(source, kernel=kernel)
    if line is not None:
        raise SyncopateError(f"line: expects none, since a file of {known.value} is one plan")
    steps = read_steps(text, known, str(path))
    if shape is None:
        shape = (steps.blocks * steps.chunks * 8, 64)
    return emit_plan(
        steps,
        shape,
        "f32" if dtype is None else dtype,
        source=source or Source.INPUTS,
        kernel=kernel,
    )


def _choose(exchanges: Sequence[Exchange | Ring], line: int | None) -> Exchange | Ring:
    """The one of a line; the first, where one line has several."""
    lines = list(dict.fromkeys(exchange.place.line for exchange in exchanges))
    if line is None and len(exchanges) == 1:
        return exchanges[0]
    found = [exchange for exchange in exchanges if exchange.place.line == line]
    if not found:
        names = ", ".join(map(str, lines[:20])) + (", …" if len(lines) > 20 else "")
        raise SyncopateError(f"line: expects one of {names}, where something moves, but got {line}")
    return found[0]


def export_plan(
    plan: Plan | str,
    form: Format | str,
    *,
    file: str = "-",
    collective: str | None = None,
    result: str = "output",
) -> str:
    """What a file of a format says of a plan.

    Args:
        plan: The plan, or a module in chunk IR that holds it; it is, or claims to be, one collective of all its ranks.
        form: The format.
        file: Where the text comes from, for errors.
        collective: What a plan is that has no collective and claims nothing: all_gather, all_reduce, reduce_scatter or
            all_to_all, from the one buffer that ranks begin with. It is proved.
        result: The buffer to which, then.

    Raises:
        PlanError: The plan breaks a rule, or is something that these formats cannot say.
        SyncopateError: The format cannot be written.
    """
    known = _to_format(form)
    if not known.is_written:
        names = ", ".join(other.value for other in Format if other.is_written)
        raise SyncopateError(
            f"format: expects one that can be written, {names}, but got {known.value}"
        )
    text = plan.text_with_locations if isinstance(plan, Plan) else plan
    # What a plan that says nothing is said to be has no root.
    kinds = {kind.value: kind for kind in Collective if kind is not Collective.BROADCAST}
    if collective is not None and collective not in kinds:
        raise SyncopateError(
            f"collective: expects one of {', '.join(kinds)}, but got {collective!r}"
        )
    said = None if collective is None else kinds[collective]
    return _WRITERS[known](read_plan(text, file, collective=said, result=result))


def _to_format(form: Format | str) -> Format:
    try:
        return Format(form)
    except ValueError:
        names = ", ".join(known.value for known in Format)
        raise SyncopateError(f"format: expects one of {names}, but got {form!r}") from None
