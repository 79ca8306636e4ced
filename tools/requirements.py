"""Prints requirements that pyproject.toml states, one a line, for pip.

Usage: requirements.py build | runtime | EXTRA
"""

import sys
from pathlib import Path
from typing import Any

try:
    import tomllib
except ImportError:  # Python 3.10 has no TOML parser, but its pip does.
    from pip._vendor import tomli as tomllib

# What pip's build isolation would add by itself.
BUILD_TOOLS = ["cmake>=3.24", "ninja>=1.11"]


def read_requirements(kind: str) -> list[str]:
    """Returns the requirements of one kind, or of the extra of that name."""
    path = Path(__file__).parent.parent / "pyproject.toml"
    project: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    if kind == "build":
        return [*project["build-system"]["requires"], *BUILD_TOOLS]
    if kind == "runtime":
        return list(project["project"]["dependencies"])
    return list(project["project"]["optional-dependencies"][kind])


def main() -> None:
    """Entry point."""
    print(*read_requirements(sys.argv[1]), sep="\n")


if __name__ == "__main__":
    main()
