"""What measures a candidate; the tuner knows no more of GPUs than this."""

from __future__ import annotations

from typing import Protocol

from syncopate.tune.space import Candidate

__all__ = ["Bench", "Runner"]


class Runner(Protocol):
    """A candidate that is ready to run on this rank, together with those of the other ranks."""

    def check(self) -> None:
        """Compares results with what they should be. Collective.

        Raises:
            Exception: They are wrong; all ranks then drop the candidate.
        """

    def sample_us(self) -> float:
        """Microseconds of one call on this rank. Collective.

        Raises:
            Exception: Whatever goes wrong; all ranks then drop the candidate.
        """

    def close(self) -> None:
        """Gives up its memory; not collective."""


class Bench(Protocol):
    """Makes candidates run."""

    def compile(self, candidate: Candidate) -> object:
        """Compiles a candidate, on this rank alone.

        Raises:
            Exception: It cannot be compiled.
        """

    def start(self, program: object) -> Runner:
        """Loads what was compiled. Collective.

        Raises:
            Exception: It cannot run.
        """
