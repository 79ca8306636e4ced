"""The site is built without a warning: all links, anchors, pictures and names that pages refer to are there."""

import re
import shutil
import subprocess
import sys


def _build(source, out):
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "2", "-b", "html"]
    return subprocess.run([*command, source, out], capture_output=True, text=True)


def test_site_is_built_with_all_its_links(root, tmp_path):
    run = _build(root / "docs", tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    first = (tmp_path / "index.html").read_text(encoding="utf-8")
    for page in ("start-laptop", "start-gpus", "concepts", "reference/python", "results/README"):
        assert f'href="{page}.html"' in first
    commands = (tmp_path / "commands.html").read_text(encoding="utf-8")
    assert "who moves the data (default: ldst_colocated)" in re.sub(r"<[^>]*>", "", commands)
    python = (tmp_path / "reference" / "python.html").read_text(encoding="utf-8")
    assert 'id="syncopate.Plan.all_gather"' in python
    # What a page shows of its set-up for the tests is nothing.
    assert not re.search(r"language-\w+ (gpu|part|long)", first)


BROKEN = {
    "[there](nowhere.md)": "cross-reference target not found: 'nowhere.md'",
    "[there](#nowhere)": "cross-reference target not found: 'nowhere'",
    "[there](other.md#nowhere)": "local id not found in doc 'other': 'nowhere'",
    "![picture](nowhere.svg)": "image file not readable: nowhere.svg",
}


def test_broken_links_are_errors(root, tmp_path):
    source = tmp_path / "docs"
    (source / "pictures").mkdir(parents=True)
    shutil.copy(root / "docs" / "conf.py", source)
    package = tmp_path / "python" / "syncopate"
    package.mkdir(parents=True)
    shutil.copy(root / "python" / "syncopate" / "__init__.py", package)
    links = "\n\n".join(["[here](other.md#other)", *BROKEN])
    (source / "index.md").write_text(f"# Page\n\n{links}\n\n```{{toctree}}\nother\n```\n")
    (source / "other.md").write_text("# Other\n")
    run = _build(source, tmp_path / "out")
    assert run.returncode != 0
    for said in BROKEN.values():
        assert said in run.stderr
    assert run.stderr.count("WARNING") == len(BROKEN), run.stderr
