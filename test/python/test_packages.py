"""Which package of syncopate imports which: what is imported below knows nothing of what stands above."""

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import syncopate

pytestmark = pytest.mark.any_triton

ROOT = Path(syncopate.__file__).parent

BACK = {
    ("compiler", "profile"),
    ("compiler", "show"),
    ("compiler", "sim"),
    ("compiler", "tune"),
    ("profile", "show"),
    ("runtime", "profile"),
    ("workloads", "tune"),
}
"""Methods that ask a package above, when they are called and not before; docs/architecture.md says what for."""


def _imports(node: ast.AST, called: bool = False) -> Iterator[tuple[str, bool]]:
    """Full names of what is imported to run, and whether a function does it; what types are checked with is not."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from ((alias.name, called) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from ((f"{child.module}.{alias.name}", called) for alias in child.names)
        yield from _imports(child, called or isinstance(child, ast.FunctionDef))


@pytest.fixture(scope="module")
def arrows() -> dict[tuple[str, str], bool]:
    """The packages, and modules beside them, of which one imports the other, and whether only calls do."""
    found: dict[tuple[str, str], bool] = {}
    for path in ROOT.rglob("*.py"):
        src = path.relative_to(ROOT).with_suffix("").parts[0]
        if src in ("mlir", "__init__"):
            continue
        for name, called in _imports(ast.parse(path.read_text(encoding="utf-8"))):
            top, _, rest = name.partition(".")
            dst = rest.partition(".")[0]
            if top == "syncopate" and dst != src:
                found[src, dst] = found.get((src, dst), True) and called
    return found


def test_packages_have_no_cycle(arrows: dict[tuple[str, str], bool]) -> None:
    below: dict[str, set[str]] = {}
    for src, dst in arrows.keys() - BACK:
        below.setdefault(src, set()).add(dst)
    graphlib.TopologicalSorter(below).prepare()


def test_packages_ask_those_above_by_calls_only(arrows: dict[tuple[str, str], bool]) -> None:
    assert {pair: arrows.get(pair) for pair in BACK} == dict.fromkeys(BACK, True)
