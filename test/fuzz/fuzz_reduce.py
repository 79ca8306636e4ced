"""Makes an input that goes wrong as small as it can be while it goes wrong in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from fuzz_mutate import TOKEN
from fuzz_workers import Report, run_cases

__all__ = ["reduce_text"]


def _verdict(kind: str, seed: int, run: Callable[[int, str], str], text: str) -> str:
    """How a text goes wrong, without what changes from one text to the next; nothing if it does not."""
    report = Report()
    run_cases(kind, range(seed, seed + 1), lambda _, number: run(number, text), report)
    return re.sub(r"\d+|'.*", "", report.wrong[0].what)[:60] if report.wrong else ""


def _shrink(pieces: Sequence[str], wrong: Callable[[str], bool]) -> list[str]:
    """Takes runs of pieces away, long ones first."""
    kept, size = list(pieces), max(1, len(pieces) // 2)
    while True:
        begin = 0
        while begin < len(kept):
            fewer = kept[:begin] + kept[begin + size :]
            if wrong("".join(fewer)):
                kept = fewer
            else:
                begin += size
        if size == 1:
            return kept
        size //= 2


def reduce_text(kind: str, seed: int, run: Callable[[int, str], str], text: str) -> str:
    """The smallest text found that goes wrong like this one."""
    verdict = _verdict(kind, seed, run, text)
    if not verdict:
        return text

    def wrong(candidate: str) -> bool:
        return _verdict(kind, seed, run, candidate) == verdict

    for split in (lambda t: t.splitlines(keepends=True), TOKEN.findall, TOKEN.findall):
        text = "".join(_shrink(split(text), wrong))
    return text
