"""The executables that come with the package."""

import os
import sys
from pathlib import Path
from typing import NoReturn


def find_tool(name: str) -> Path:
    """Returns the path of an executable of the package.

    Args:
      name: `syncopate-opt` or `syncopate-lsp-server`.

    Raises:
      FileNotFoundError: the package was built without it.
    """
    import syncopate

    # An editable install spreads the package over several folders.
    candidates = [Path(folder, "bin", name) for folder in syncopate.__path__]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    tried = ", ".join(str(candidate) for candidate in candidates)
    raise FileNotFoundError(f"no executable {name!r}: tried {tried}; reinstall the package")


def _replace_process_by(name: str) -> NoReturn:
    path = str(find_tool(name))
    os.execv(path, [path, *sys.argv[1:]])


def run_opt() -> NoReturn:
    """Entry point of the console script `syncopate-opt`."""
    _replace_process_by("syncopate-opt")


def run_lsp_server() -> NoReturn:
    """Entry point of the console script `syncopate-lsp-server`."""
    _replace_process_by("syncopate-lsp-server")
