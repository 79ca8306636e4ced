"""Builds the native parts and links them into python/syncopate.

Usage: build_in_place.py BUILD_FOLDER [CMAKE_ARGUMENT...]

Afterwards `PYTHONPATH=python` is a complete package, in which an edited Python
file counts at once and an edited C++ file after `cmake --build BUILD_FOLDER`.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def link(target: Path, name: str) -> None:
    """Makes python/syncopate/<name> a link to a folder of the build."""
    path = ROOT / "python" / "syncopate" / name
    if path.is_symlink():
        path.unlink()
    path.symlink_to(target, target_is_directory=True)


def main() -> None:
    """Entry point."""
    # The environment need not be active for its cmake and ninja to be found.
    folder = str(Path(sys.executable).parent)
    os.environ["PATH"] = os.pathsep.join([folder, os.environ["PATH"]])
    build = Path(sys.argv[1]).resolve()
    if not (build / "build.ninja").exists():
        configure = ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(build)]
        python = f"-DPython_EXECUTABLE={sys.executable}"
        subprocess.run([*configure, python, *sys.argv[2:]], check=True)
    subprocess.run(["cmake", "--build", str(build)], check=True)
    link(build / "python" / "syncopate" / "mlir", "mlir")
    link(build / "bin", "bin")


if __name__ == "__main__":
    main()
