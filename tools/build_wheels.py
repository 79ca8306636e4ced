"""Builds the source distribution, of it a wheel for each version of Python, and tries each where nothing else is.

Usage: build_wheels.py PYTHON...

All wheels are made of the unpacked source distribution, as pip makes them of it, and in one build folder: what does not
include Python's headers, nine tenths, is compiled once. Runs in an environment with what the package is built with,
and the extra `ship`; other versions of Python find MLIR and nanobind there. Everything lands in dist/.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from requirements import read_requirements

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
WORK = ROOT / "build" / "release"
SOURCE = WORK / "source"
BUILD = WORK / "cmake"
# What a user without a GPU does first; {plan} and {out} are filled in.
TRIALS = (
    ("doctor",),
    ("check", "{plan}", "--seeds", "1"),
    ("demo", "--seeds", "1", "--out", "{out}"),
    ("opt", "--syncopate-plan-pipeline", "{plan}"),
)


def run(*words: str | Path, quiet: bool = False, **environment: str) -> None:
    """Runs a command with additions to the environment; ends the program if it fails."""
    print("+", *words, flush=True)
    output = subprocess.DEVNULL if quiet else None
    done = subprocess.run(words, check=False, stdout=output, env={**os.environ, **environment})
    if done.returncode:
        sys.exit(f"{words[0]} ended with exit code {done.returncode}")


def make_environment(python: str, folder: Path, packages: Sequence[str | Path]) -> Path:
    """Makes a new virtual environment with some packages; returns the folder of its executables."""
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "venv", folder)
    run(folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return folder / "bin"


def find_dependencies() -> Mapping[str, str]:
    """CMake's variables that say where MLIR, LLVM and nanobind of this environment are."""
    script = "import {0}; print(list({0}.__path__)[0])"
    folders = {}
    for name in ("mlir", "llvm", "nanobind"):
        words = [sys.executable, "-c", script.format(name)]
        folders[name] = Path(subprocess.check_output(words, text=True).strip())
    return {
        "MLIR_DIR": str(folders["mlir"] / "lib" / "cmake" / "mlir"),
        "LLVM_DIR": str(folders["llvm"] / "lib" / "cmake" / "llvm"),
        "nanobind_DIR": str(folders["nanobind"] / "cmake"),
    }


def unpack_sdist() -> None:
    """Makes the source distribution and unpacks it to `SOURCE`."""
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", DIST, ROOT)
    newest = max(DIST.glob("syncopate_compiler-*.tar.gz"), key=lambda path: path.stat().st_mtime)
    shutil.rmtree(SOURCE, ignore_errors=True)
    SOURCE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SOURCE.parent) as folder:
        run("tar", "-xf", newest, "-C", folder)
        (top,) = Path(folder).iterdir()
        top.rename(SOURCE)


def build_wheel(python: str) -> Path:
    """Builds the wheel for one version of Python, with a manylinux tag; returns it."""
    backend = [one for one in read_requirements("build") if one.startswith("scikit-build-core")]
    bin_folder = make_environment(python, WORK / f"build-{Path(python).name}", backend)
    made = WORK / "wheel"
    shutil.rmtree(made, ignore_errors=True)
    settings = {"build-dir": str(BUILD)}
    settings |= {f"cmake.define.{name}": path for name, path in find_dependencies().items()}
    # CMake, Ninja and mlir-tblgen.
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    words = [bin_folder / "pip", "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", made]
    words += [f"--config-settings={name}={value}" for name, value in settings.items()]
    run(*words, SOURCE, PATH=tools)
    (plain,) = made.iterdir()
    repaired = made / "repaired"
    run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", repaired, plain, PATH=tools)
    (wheel,) = repaired.iterdir()
    return wheel.replace(DIST / wheel.name)


def try_wheel(python: str, wheel: Path) -> None:
    """Installs a wheel into a new environment, and runs `TRIALS` outside of the checkout."""
    bin_folder = make_environment(python, WORK / f"try-{Path(python).name}", [wheel])
    with tempfile.TemporaryDirectory() as folder:
        plan = shutil.copy(ROOT / "examples" / "plans" / "ring_by_hand.mlir", folder)
        for words in TRIALS:
            filled = [word.format(plan=plan, out=Path(folder, "demo")) for word in words]
            run(bin_folder / "syncopate", *filled, quiet=True, SYNCOPATE_CACHE_DIR=folder)


def main() -> None:
    """Entry point."""
    unpack_sdist()
    wheels = []
    for python in sys.argv[1:]:
        wheel = build_wheel(python)
        try_wheel(python, wheel)
        wheels.append(wheel)
    for wheel in wheels:
        print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 1e6:.1f} MB, tried")


if __name__ == "__main__":
    main()
