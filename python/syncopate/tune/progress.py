"""Progress of a tuning on stderr: a bar on a terminal, else a line for each step."""

from __future__ import annotations

import sys
from typing import TextIO

__all__ = ["Progress"]

_WIDTH = 24


class Progress:
    """Says how far a tuning is, and what is best so far."""

    def __init__(
        self, title: str, *, shown: bool | None = None, stream: TextIO | None = None
    ) -> None:
        """Prints nothing yet.

        Args:
            title: What is tuned.
            shown: True for a bar wherever the stream leads, False for nothing; left out, a bar on a terminal, and
                lines elsewhere.
            stream: Where to; stderr if it is left out.
        """
        self._stream = sys.stderr if stream is None else stream
        self._title, self._quiet = title, shown is False
        self._bar = self._stream.isatty() if shown is None else shown

    def update(self, done: int, total: int, what: str, best: str, best_us: float) -> None:
        """Shows a step.

        Args:
            done: Candidates that are behind it.
            total: How many there may be.
            what: What is measured now.
            best: Name of the best one so far.
            best_us: Its time in microseconds.
        """
        if self._quiet:
            return
        so_far = f"best {best_us:.1f} µs: {best}" if best else "nothing measured yet"
        if self._bar:
            filled = _WIDTH * done // max(total, 1)
            bar = "█" * filled + "·" * (_WIDTH - filled)
            self._write(f"\r\x1b[K{self._title} {bar} {done}/{total} {so_far}")
        else:
            self._write(f"{self._title} {done}/{total}: {what}; {so_far}\n")

    def close(self, last: str) -> None:
        """Ends the bar.

        Args:
            last: What came of it.
        """
        if not self._quiet:
            self._write(
                f"\r\x1b[K{self._title}: {last}\n" if self._bar else f"{self._title}: {last}\n"
            )

    def _write(self, text: str) -> None:
        # Nobody may be reading any more; that is no reason to end a tuning.
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._quiet = True
