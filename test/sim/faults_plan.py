"""Faults of plans: edits of the examples in `.mlir`, each of which a static check refuses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["EXAMPLES", "PLAN_FAULTS", "PlanFault"]

EXAMPLES = tuple(sorted((Path(__file__).parents[2] / "examples" / "plans").glob("*.mlir")))
_VERIFIER = "verifier"


@dataclass(frozen=True)
class PlanFault:
    """One way to break a plan.

    Attributes:
        name: A few words.
        broken: One sentence that says what is wrong.
        check: The pass that refuses it, or `verifier`.
        diagnostic: What must be in the error.
        pattern: What is replaced in the text; a plan without it has nothing to break.
        by: What it becomes.
    """

    name: str
    broken: str
    check: str
    diagnostic: str
    pattern: str
    by: str

    @property
    def flags(self) -> tuple[str, ...]:
        """What syncopate-opt runs: the check alone, so that nothing else can have refused the plan."""
        if self.check == _VERIFIER:
            return ()
        return ("--chunk-decompose-collectives", f"--{self.check}")

    def edit(self, text: str) -> str | None:
        """The broken plan, or None if there is nothing to break."""
        edited, count = re.subn(self.pattern, self.by, text, count=1)
        return edited if count else None

    @property
    def forms(self) -> tuple[Path, ...]:
        """The plans that it breaks."""
        return tuple(p for p in EXAMPLES if self.edit(p.read_text(encoding="utf-8")) is not None)


_WOULD_WAIT = r"would wait for ever: it reads \"a_desc\""
_NOT_HELD = (
    r"what rank \d does not hold: it is no input, no tile computes it, and no transfer that this one comes after "
    r"brings it"
)
PLAN_FAULTS: tuple[PlanFault, ...] = (
    PlanFault(
        "dependence left out",
        "A transfer forwards a chunk without coming after the one that brings it.",
        "chunk-check-plan",
        "reads a chunk of rank 1 while another transfer writes it: neither comes after the other",
        r" after\(%b0_at1\)",
        "",
    ),
    PlanFault(
        "cyclic dependence",
        "A transfer comes after itself.",
        _VERIFIER,
        "does not dominate this use",
        r"(%b0_at2 = .*)after\(%b0_at1\)",
        r"\1after(%b0_at2)",
    ),
    PlanFault(
        "source one row off",
        "A chunk begins one row too late at its source.",
        "chunk-check-plan",
        _NOT_HELD,
        r"(%b0_at1 = chunk\.put) %a\[0, 0\] to",
        r"\1 %a[1, 0] to",
    ),
    PlanFault(
        "destination one row off",
        "A chunk is put one row too low, over another one.",
        "chunk-check-plan",
        "writes a chunk of rank 2 that another transfer writes too: neither comes after the other",
        r"to %a\[128, 0\] sizes \[128, 256\] from 1 to 2",
        "to %a[127, 0] sizes [128, 256] from 1 to 2",
    ),
    PlanFault(
        "two writers",
        "Two chunks are put to the same place.",
        "chunk-check-plan",
        "that another transfer writes too: neither comes after the other",
        r"(%t1 = chunk\.put %a\[128, 0\] to) %a\[128, 0\]",
        r"\1 %a[0, 0]",
    ),
    PlanFault(
        "input overwritten",
        "A chunk is put over the input of its destination.",
        "chunk-check-plan",
        "while another transfer writes it",
        r"to %a\[256, 0\] (sizes \[128, 256\] from 0 to 1 after)",
        r"to %a[128, 0] \1",
    ),
    PlanFault(
        "input missing",
        "A rank that puts has no input.",
        "chunk-check-plan",
        _NOT_HELD,
        r"  chunk\.input %a\[\d+, 0\] sizes \[\d+, \d+\] on 1 .*\n",
        "",
    ),
    PlanFault(
        "group too small",
        "A collective leaves out a rank that holds a part.",
        "chunk-check-plan",
        _NOT_HELD,
        r"group \[0, 1, 2, 3\]",
        "group [0, 1, 2]",
    ),
    PlanFault(
        "another block forwarded",
        "A rank forwards its own block instead of the one that was brought to it.",
        "chunk-check-claims",
        r'expects rank 1 to hold block 2 of rank 2, but .* it holds what rank 0 had in "a" at offsets \[0, 0\]',
        r"(%b2_at1 = chunk\.put) %a\[256, 0\] to",
        r"\1 %a[0, 0] to",
    ),
    PlanFault(
        "another rank's data",
        "A block goes on to where another rank's block belongs.",
        "chunk-check-claims",
        r'expects rank 2 to hold block 0 of rank 0, but .* it holds what rank 1 had in "a" at offsets \[128, 0\]',
        r"(%b0_at2 = chunk\.put) %a\[0, 0\] to",
        r"\1 %a[128, 0] to",
    ),
    PlanFault(
        "forwarded block too short",
        "The last row of a block is not forwarded.",
        "chunk-check-claims",
        r"expects rank 2 to hold block 0 of rank 0, but at offsets \[127, 0\] sizes \[1, 256\] it holds nothing",
        r"(%b0_at2 = .*) sizes \[128, 256\]",
        r"\1 sizes [127, 256]",
    ),
    PlanFault(
        "claim too early",
        "A claim does not come after all transfers that it speaks of.",
        "chunk-check-claims",
        "it holds what a transfer brings that the claim does not come after",
        r"claim after\(%t\)",
        "claim after(%b0_at2)",
    ),
    PlanFault(
        "transfer missing",
        "A chunk that tiles read is brought to all ranks but one.",
        "chunk-check-kernel",
        _WOULD_WAIT,
        r", %(b2_at1|t3)\n",
        "\n",
    ),
    PlanFault(
        "kernel too early",
        "The kernel does not come after the transfers.",
        "chunk-check-kernel",
        _WOULD_WAIT,
        r"(args\(%a as \"a_desc\"\)) after\(%t\)",
        r"\1",
    ),
    PlanFault(
        "tiles write an input",
        "A tile writes what transfers read.",
        "chunk-check-kernel",
        'writes of "a_desc" what (is an input|a transfer reads)',
        # Not one of a step, which no write has.
        r"footprint read(?! \S+ at affine_map<\(h, m, n\))",
        "footprint write",
    ),
    PlanFault(
        "rank out of range",
        "A chunk is put to a rank that the mesh does not have.",
        _VERIFIER,
        r"expects (dst|holding) rank to be in \[0, \d\), but got 9",
        r"(on|from \d to) 1 ",
        r"\1 9 ",
    ),
    PlanFault(
        "chunk out of bounds",
        "A chunk is a row longer than its buffer.",
        _VERIFIER,
        "chunk to lie inside",
        r"sizes \[128, (\d+)\] (from|on) (2|3|1)\b(?= to 0| :)",
        r"sizes [513, \1] \2 \3",
    ),
)
"""In the order of the checks."""
