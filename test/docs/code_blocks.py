"""Runs the code blocks of Markdown pages, which Sybil finds.

The blocks of a page share their names, from top to bottom, and a folder. A word behind the language says what cannot be
run here:

* `gpu`: needs GPUs. Python is compiled, and its imports are made; commands are parsed, and the files that they name
  must be there.
* `part`: a piece of something, as of a kernel's body. It is compiled alone.
* `long`: takes minutes, or has a test of its own. As `gpu`.

What a reader need not see stands in a comment, `<!-- invisible-code-block: python … -->`. A piece of MLIR is put into
the text `around`, which such a comment gives, in the place of `{}`; a program of XLA, `mlir xla`, is imported, and left
in the file that it names as `file`.
"""

from __future__ import annotations

import ast
import doctest
import importlib.util
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

from sybil import Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

ROOT = Path(__file__).parents[2]
MARKS = ("gpu", "part", "long")
# Blocks of these are read, not run.
SHOWN = ("xml", "text", "json", "{toctree}", "{include}", "{eval-rst}")

_run_python = PythonEvaluator()


def _compile_python(example: Example) -> None:
    source = "\n" * (example.line + example.parsed.line_offset) + example.parsed
    compile(source, example.path, "exec", dont_inherit=True)
    for node in ast.walk(ast.parse(example.parsed)):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and _can_import(node):
            exec(compile(ast.Module([node], []), example.path, "exec"), {})


def _can_import(node: ast.Import | ast.ImportFrom) -> bool:
    names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    needs_torch = any(name.split(".")[0] == "torch" or name == "syncopate.torch" for name in names)
    return not needs_torch or importlib.util.find_spec("torch") is not None


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Commands of a block with what they are said to print; of one without prompts, each line is a command."""
    if not text.lstrip().startswith("$ "):
        for line in re.sub(r"\\\n", " ", text).splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                yield line.strip(), ""
        return
    for piece in re.split(r"(?m)^\$ ", text)[1:]:
        command, _, output = piece.partition("\n")
        yield command, output


def _run_commands(example: Example) -> None:
    for command, expected in _commands(textwrap.dedent(example.parsed)):
        run = subprocess.run(
            ["bash", "-uo", "pipefail", "-c", command], capture_output=True, text=True
        )
        said = run.stdout + run.stderr
        assert run.returncode == 0, f"{command}\n{said}"
        if expected:
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            same = doctest.OutputChecker().check_output(expected.strip(), said.strip(), flags)
            assert same, f"{command}\nsays\n{said}\nand not\n{expected}"


def _parse_commands(example: Example) -> None:
    from syncopate.cli import make_parser

    for command, _ in _commands(textwrap.dedent(example.parsed)):
        subprocess.run(["bash", "-n", "-c", command], check=True)
        words = shlex.split(re.split(r"[#>|]", command)[0])
        while words and re.fullmatch(r"\w+=.*", words[0]):
            words.pop(0)
        if words[0] == "syncopate" and words[1] != "opt":
            make_parser().parse_args(words[1:])
        for word in words:
            if word.endswith((".py", ".mlir")) and "/" in word:
                assert (ROOT / word).exists(), f"{command}: no {word}"


def _lower_mlir(example: Example) -> None:
    from syncopate.plan.plan_file import schedule_plan

    around = example.namespace.pop("around", "{}")
    lines = example.parsed.splitlines()
    # Aliases stand at the top of a module.
    aliases = [line for line in lines if re.match(r"[#!]\w+ =", line)]
    body = [line for line in lines if line not in aliases]
    if around == "{}":
        assert "chunk.plan" in example.parsed, f"{example.path}:{example.line}: no plan around it"
    schedule_plan("\n".join([*aliases, around.replace("{}", "\n".join(body))]))


def _import_program(example: Example) -> None:
    from syncopate.importers import import_plan

    file = Path(example.namespace.pop("file"))
    file.write_text(example.parsed, encoding="utf-8")
    import_plan(file, "stablehlo")


EVALUATORS: dict[str, Callable[[Example], None]] = {
    "python": _run_python,
    "python gpu": _compile_python,
    "python part": _compile_python,
    "python long": _compile_python,
    "sh": _run_commands,
    "sh gpu": _parse_commands,
    "sh long": _parse_commands,
    "console": _run_commands,
    "console gpu": _parse_commands,
    "console long": _parse_commands,
    "mlir": _lower_mlir,
    "mlir xla": _import_program,
}


def find_pages() -> list[Path]:
    """All pages with code blocks that a reader is to type, but for the reference, which MLIR's tools write."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [page for page in pages if "```" in page.read_text(encoding="utf-8")]


def list_languages(page: Path) -> set[str]:
    """What stands behind the fences that open a block, but for arguments of directives."""
    fences = re.findall(r"(?m)^ *```+(.*)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"(\{.*\}).*", r"\1", fence) for fence in fences[::2]}


def run_page(page: Path) -> int:
    """Runs, or checks, all blocks of a page in the current folder; returns how many there were."""
    sys.modules.setdefault("docs", type(sys)("docs"))
    parsers = [CodeBlockParser(language, run) for language, run in EVALUATORS.items()]
    document = Sybil(parsers=parsers, path=str(page.parent)).parse(page)
    document.namespace["__name__"] = "docs"
    count = 0
    for example in document.examples():
        example.evaluate()
        count += 1
    return count
