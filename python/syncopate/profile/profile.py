"""What a profiled program has left, on all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncopate.errors import SyncopateError
from syncopate.profile.clocks import Clocks, estimate_clocks
from syncopate.profile.measured import make_run, split_calls
from syncopate.profile.run import Run, TimeSource
from syncopate.profile.run_file import save_runs
from syncopate.profile.summary import describe_run
from syncopate.profile.trace import to_chrome_trace
from syncopate.runtime.records import RankRecords

if TYPE_CHECKING:
    from syncopate.model import Timeline

__all__ = ["Profile"]


@dataclass(frozen=True)
class Profile:
    """The calls of a profiled program.

    Attributes:
        program: What has run.
        ranks: What each rank has left, as it lay in its buffer.
        clocks: How the clocks of the ranks go together.
        runs: The calls, in order.
    """

    program: Any
    ranks: tuple[RankRecords, ...]
    clocks: Clocks
    runs: tuple[Run, ...]

    @staticmethod
    def of_records(program: Any, ranks: Sequence[RankRecords], source: TimeSource) -> Profile:
        """Makes sense of what ranks have left.

        Args:
            program: What has run.
            ranks: What each has left, in their order.
            source: What ran it.

        Raises:
            SyncopateError: There is nothing.
        """
        calls = split_calls(ranks)
        if not calls:
            raise SyncopateError(f"program {program.name} has left no records; call it first")
        clocks = estimate_clocks(program, calls[-1])
        runs = tuple(make_run(program, call, clocks, source) for call in calls)
        return Profile(program, tuple(ranks), clocks, runs)

    @property
    def run(self) -> Run:
        """The last call."""
        return self.runs[-1]

    @property
    def dropped(self) -> int:
        """Records that did not fit."""
        return sum(lane.dropped for own in self.ranks for lane in own.lanes)

    def beside(self, timeline: Timeline | None) -> list[Run]:
        """The last call, and a prediction behind it if there is one."""
        from syncopate.profile.predicted import predicted_run

        return [self.run] + ([] if timeline is None else [predicted_run(self.program, timeline)])

    def to_chrome_trace(self, predicted: Timeline | None = None) -> str:
        """The last call as JSON for Perfetto or chrome://tracing, with a prediction beside it if one is given."""
        return to_chrome_trace(self.beside(predicted))

    def to_html(self, predicted: Timeline | None = None) -> str:
        """The last call as a page to look at, which needs nothing else, with a prediction below it if one is given."""
        from syncopate.show.viewer import draw_runs

        return draw_runs(self.beside(predicted))

    def explain(self, predicted: Timeline | None = None) -> str:
        """Efficiency, where the time of the last call went, and what to try."""
        return describe_run(*self.beside(predicted))

    def save(self, path: Path | str, predicted: Timeline | None = None) -> None:
        """Writes the last call to a file that `syncopate timeline` reads."""
        save_runs(self.beside(predicted), Path(path))

    def __repr__(self) -> str:
        return f"<Profile of {self.program.name}: {len(self.runs)} calls, the last of {self.run.us:.1f} µs>"
