"""How Sphinx makes the site of docs/: `make site`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, ClassVar

from pygments import token
from pygments.lexer import RegexLexer
from sphinx.application import Sphinx
from sphinx.highlighting import lexers

# For docs/command_page.py.
sys.path.insert(0, str(Path(__file__).parent))

# Sphinx prescribes the names of what follows.
project = "Syncopate"
copyright = "The Syncopate authors, Apache-2.0 WITH LLVM-exception"
_package = Path(__file__).parents[1] / "python" / "syncopate" / "__init__.py"
version = release = re.findall(r'(?m)^__version__ = "(.*)"$', _package.read_text(encoding="utf-8"))[
    0
]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_argparse_cli",
    "sphinx_copybutton",
]
source_suffix = {".md": "markdown"}

# Links to headings are checked, to the depth of those of the reference of the dialect.
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline", "colon_fence"]

# Docstrings are Google's, with code in single backticks.
napoleon_google_docstring = True
# Some attributes of a docstring are properties, which are documented by themselves.
napoleon_use_ivar = True
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_default_options = {"members": True, "show-inheritance": True}
# Pages must not depend on whether this machine can run programs.
autodoc_mock_imports = ["torch"]

# Pages that MLIR's tools write go from the first heading to the third.
suppress_warnings = ["myst.header"]

html_theme = "furo"
html_title = f"Syncopate {version}"
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["pictures"]
copybutton_exclude = ".linenos, .gp, .go"


class MlirLexer(RegexLexer):
    """Colours of chunk IR, for which Pygments has none."""

    name = "MLIR"
    tokens: ClassVar = {
        "root": [
            (r"//.*", token.Comment),
            (r'"[^"]*"', token.String),
            (r"%[\w#]+", token.Name.Variable),
            (r"[@#^][\w$.-]+", token.Name.Function),
            (r"![\w.]+|\b(?:[fiu]|bf|f8)\d\w*\b|\bindex\b", token.Keyword.Type),
            (r"\b(?:chunk|arith|scf|func|tt|ttg)\.\w+", token.Keyword),
            (r"\b\d+\b", token.Number),
            (r"\w+", token.Name),
            (r"\s+", token.Whitespace),
            (r".", token.Punctuation),
        ]
    }


lexers["mlir"] = MlirLexer()


def adapt_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Adds to pages that list others what only a site has: the names of all that is there."""
    globs = {"design/README": "*", "results/README": "*\n*/*"}
    if name == "index":
        pages = sorted(path.stem for path in Path(app.srcdir).glob("*.md"))
        listed = source[0].split()
        globs["index"] = "\n".join(page for page in pages if page not in ("index", *listed))
    if globs.get(name):
        caption = ":caption: More\n" if name == "index" else ""
        source[0] += f"\n```{{toctree}}\n{caption}:hidden:\n:glob:\n\n{globs[name]}\n```\n"


def mark_code(
    _app: Sphinx, _what: str, _name: str, _of: Any, _options: Any, lines: list[str]
) -> None:
    """Indented code of a docstring, behind an empty line, becomes a block of code."""
    text = "\n".join(lines)
    code = re.compile(r"(?m)(?<=\n\n)(?= {4}\S)(?:(?: {4}.*)?\n)+")
    lines[:] = code.sub(lambda found: f".. code-block:: python\n\n{found[0]}\n", text + "\n").split(
        "\n"
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("source-read", adapt_page)
    # Before napoleon, whose sections are indented too, but behind their headings.
    app.connect("autodoc-process-docstring", mark_code, priority=400)
    return {"parallel_read_safe": True}
