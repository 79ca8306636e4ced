"""Pictures of pages, taken by a browser without a window."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from syncopate.errors import SyncopateError

__all__ = ["BROWSER_VARIABLE", "find_browser", "take_picture"]

BROWSER_VARIABLE: Final = "SYNCOPATE_BROWSER"
"""Names the browser, if it is none of those that are looked for."""

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
_SECONDS: Final = 60


def find_browser() -> str | None:
    """The path of Chromium or of a browser that is made of it; None if there is none."""
    named = os.environ.get(BROWSER_VARIABLE)
    return shutil.which(named) if named else next(filter(None, map(shutil.which, _NAMES)), None)


def take_picture(page: Path, picture: Path, *, size: tuple[int, int] = (1280, 1000)) -> None:
    """Writes what a browser shows of a page.

    Args:
        page: A file of HTML.
        picture: The file to write, PNG.
        size: Width and height of the window.

    Raises:
        SyncopateError: There is no browser, or it wrote nothing.
    """
    browser = find_browser()
    if browser is None:
        raise SyncopateError(
            f"picture: there is no {', '.join(_NAMES[:-1])} or {_NAMES[-1]} to take one with; install one of them, or "
            f"name it in {BROWSER_VARIABLE}"
        )
    with tempfile.TemporaryDirectory() as profile:
        command = [
            browser,
            "--headless",
            # The page is our own, and the sandbox needs privileges that containers lack.
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
            f"--window-size={size[0]},{size[1]}",
            f"--screenshot={picture.resolve()}",
            page.resolve().as_uri(),
        ]
        try:
            picture.unlink(missing_ok=True)
        except OSError as error:
            raise SyncopateError(f"picture: cannot write {picture}: {error.strerror}") from None
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise SyncopateError(f"picture: {browser} took more than {_SECONDS} s") from None
    if not picture.exists():
        raise SyncopateError(f"picture: {browser} wrote none: {done.stderr.strip()[-300:]}")
