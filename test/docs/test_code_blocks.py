"""Every block of code in the documentation runs, or, where it needs GPUs, is compiled."""

import os
import sys
from pathlib import Path

import pytest
from code_blocks import EVALUATORS, ROOT, SHOWN, find_pages, list_languages, run_page

from syncopate.errors import SyncopateError

PAGES = find_pages()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder in which the repository's examples can be named, and `syncopate` found."""
    for name in ("examples", "benchmark", "test"):
        (tmp_path / name).symlink_to(ROOT / name)
    command = tmp_path / "bin" / "syncopate"
    command.parent.mkdir()
    command.write_text(
        f"#!{sys.executable}\nimport sys\nfrom syncopate.cli import main\nsys.exit(main())\n"
    )
    # What the tests import is what commands import, wherever they run.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(Path(p).resolve()) for p in sys.path))
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SYNCOPATE_CACHE_DIR", os.environ["SYNCOPATE_CACHE_DIR"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_of_page_runs(page, folder):
    unknown = list_languages(page) - set(EVALUATORS) - set(SHOWN)
    assert not unknown, f"{page}: blocks of {unknown} are not run; see test/docs/code_blocks.py"
    assert run_page(page) > 0 or list_languages(page) <= set(SHOWN)


@pytest.mark.parametrize(
    ("block", "kind", "said"),
    [
        ("```python\n1 / 0\n```", ZeroDivisionError, "division"),
        ("```python gpu\nfrom syncopate import nothing\n```", ImportError, "nothing"),
        ("```python part\nfor t in\n```", SyntaxError, "syntax"),
        ("```sh\nsyncopate explain nowhere.mlir\n```", AssertionError, "cannot read nowhere.mlir"),
        ("```console\n$ echo one\ntwo\n```", AssertionError, "says\none"),
        ("```sh gpu\nsyncopate explain --nothing x\n```", SystemExit, "2"),
        (
            "```sh gpu\ntorchrun benchmark/nowhere.py\n```",
            AssertionError,
            "no benchmark/nowhere.py",
        ),
        ("```mlir\n%0 = chunk.join\n```", AssertionError, "no plan around it"),
        ("```mlir\nchunk.plan @p mesh [2] {}\n```", SyncopateError, "has no chunk.kernel"),
    ],
)
def test_wrong_block_is_found(block, kind, said, folder):
    page = folder / "page.md"
    page.write_text(f"# Page\n\n{block}\n", encoding="utf-8")
    with pytest.raises(kind, match=said):
        run_page(page)


def test_blocks_of_a_page_share_names(folder):
    page = Path("page.md").absolute()
    page.write_text("```python\nx = 2\n```\n\n```python\nassert x == 2\n```\n", encoding="utf-8")
    assert run_page(page) == 2
