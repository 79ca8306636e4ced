"""Installs the build of torch that suits this machine, into this interpreter.

With an NVIDIA GPU that is what pip chooses. Without one, a CUDA build would be
gigabytes for nothing: a CPU build is taken if the configured package sources
have one, and otherwise torch is left out and tests that need it are skipped.
"""

import argparse
import importlib.util
import json
import re
import shutil
import subprocess
import sys

REQUIREMENT = "torch>=2.10"


def run_pip(*args: str) -> "subprocess.CompletedProcess[str]":
    """Runs pip and returns what it wrote."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def has_gpu() -> bool:
    """Says whether an NVIDIA driver sees a GPU."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return False
    listing = subprocess.run([smi, "-L"], capture_output=True, text=True, check=False)
    return listing.returncode == 0 and "GPU" in listing.stdout


def find_cpu_version() -> str | None:
    """Returns the newest version labelled +cpu that pip can see."""
    listing = run_pip("index", "versions", "torch").stdout
    # A version is newer than the one before it nowhere in the list.
    versions = re.findall(r"(\d+\.\d+\.\d+)\+cpu\b", listing)
    fitting = [v for v in versions if tuple(map(int, v.split("."))) >= (2, 10)]
    return f"{fitting[0]}+cpu" if fitting else None


def default_build_is_for_cpu() -> bool:
    """Says whether pip's choice needs no CUDA packages, as on ARM and macOS."""
    plan = run_pip("install", "--dry-run", "--quiet", "--report", "-", REQUIREMENT)
    if plan.returncode != 0:
        return False
    names = [item["metadata"]["name"] for item in json.loads(plan.stdout)["install"]]
    return not any(name.lower().startswith(("nvidia-", "cuda-")) for name in names)


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only-for-gpu", action="store_true", help="do nothing without a GPU")
    options = parser.parse_args()
    if importlib.util.find_spec("torch"):
        return 0
    if has_gpu():
        requirement = REQUIREMENT
    elif options.only_for_gpu:
        return 0
    elif version := find_cpu_version():
        requirement = f"torch=={version}"
    elif default_build_is_for_cpu():
        requirement = REQUIREMENT
    else:
        print("notice: no GPU, and no CPU build of torch among pip's package sources:")
        print("notice: tests that need torch will be skipped")
        return 0
    return subprocess.run([sys.executable, "-m", "pip", "install", requirement]).returncode


if __name__ == "__main__":
    sys.exit(main())
