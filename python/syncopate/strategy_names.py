"""Names of strategies, for tables, messages and command lines: short, and what they are made of can be read back.

A name is a realization, a direction and a number of pieces; behind them stands what is not as in `Strategy()`. With
realization nccl, it is what library calls take, their waves, and the multiprocessors that are left to the library, if
that is not by realization.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from syncopate.choices import Direction, Realization
from syncopate.errors import SyncopateError
from syncopate.strategy import Strategy

__all__ = ["name_strategy", "read_strategy_name"]


def _read_number(word: str) -> int:
    if not word.isdecimal():
        raise ValueError(f"expects a number, but got {word!r}")
    return int(word)


_DEFAULT: Final = Strategy()
_BY_SIZE: Final = "by size"
_FORMS: Final[tuple[tuple[str, str, str, Callable[[str], Any]], ...]] = (
    ("algorithm", "by ", "", str),
    ("combine", "sum by ", "", str),
    ("comm_ctas", "", " CTAs", _read_number),
    ("pause", "pause ", "", _read_number),
    ("shots", "shots ", "", str),
    ("reducing", "reducing by ", "", str),
    ("gathering", "gathering by ", "", str),
    ("order", "order ", "", str),
    ("group_m", "groups of ", " rows", _read_number),
    ("slots", "slots by ", "", str),
    ("between", "between nodes by ", "", str),
)
"""What stands around the value of each choice, and how that is read. No two forms fit the same text."""


def name_strategy(strategy: Strategy) -> str:
    """The name of a strategy."""
    return "/".join(_parts(strategy))


def _parts(strategy: Strategy) -> Iterator[str]:
    realization = Realization(strategy.realization)
    calls = realization is Realization.NCCL
    shown = set()
    if calls:
        yield realization.value
        yield _spell(strategy.slots)
        yield f"{_spell_waves(strategy.waves) or 'default'} waves"
        if strategy.comm_ctas:
            yield f"{strategy.comm_ctas} CTAs"
        shown = {"slots", "comm_ctas"}
        if strategy.direction is not _DEFAULT.direction:
            yield _spell(strategy.direction)
        if strategy.splits:
            yield f"{strategy.splits} pieces"
    else:
        yield realization.value
        yield _spell(strategy.direction)
        yield str(strategy.splits or _BY_SIZE)
        if strategy.waves:
            yield f"{_spell_waves(strategy.waves)} waves"
    for field, before, behind, _ in _FORMS:
        value = getattr(strategy, field)
        if field not in shown and value != getattr(_DEFAULT, field):
            yield f"{before}{_spell(value)}{behind}"


def read_strategy_name(name: str) -> Strategy:
    """The strategy that has this name.

    Raises:
        SyncopateError: It is no name of a strategy.
    """
    realization, *parts = name.split("/")
    choices: dict[str, Any] = {"realization": realization}
    try:
        # It says which realizations there are.
        Strategy(realization=realization)
        calls = realization == Realization.NCCL.value
        if len(parts) < (1 if calls else 2):
            behind = "what calls take" if calls else "a direction and a number of pieces"
            raise ValueError(f"expects {behind} behind {realization}")
        if calls:
            choices["slots"], *parts = parts
        else:
            choices["direction"], pieces, *parts = parts
            choices["splits"] = 0 if pieces == _BY_SIZE else _read_number(pieces)
        for part in parts:
            field, value = _read_part(part)
            choices[field] = value
        return Strategy(**choices)
    except (ValueError, SyncopateError) as error:
        raise SyncopateError(
            f"strategy: expects a name such as {name_strategy(_DEFAULT)}, but got {name!r}: {error}"
        ) from None


def _read_part(part: str) -> tuple[str, Any]:
    if part in {member.value for member in Direction}:
        return "direction", part
    if part.endswith(" waves"):
        waves = part.removesuffix(" waves")
        return "waves", () if waves == "default" else tuple(map(_read_number, waves.split("+")))
    if part.endswith(" pieces"):
        return "splits", _read_number(part.removesuffix(" pieces"))
    for field, before, behind, read in _FORMS:
        if part.startswith(before) and part.endswith(behind):
            return field, read(part.removeprefix(before).removesuffix(behind))
    raise ValueError(f"{part!r} is no choice")


def _spell(value: Any) -> str:
    return str(getattr(value, "value", value))


def _spell_waves(waves: tuple[int, ...]) -> str:
    return "+".join(map(str, waves))
