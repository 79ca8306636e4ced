import subprocess

import pytest

from syncopate._tools import find_tool


@pytest.mark.parametrize("name", ["syncopate-opt", "syncopate-lsp-server"])
def test_tool_runs(name):
    result = subprocess.run([str(find_tool(name)), "--help"], capture_output=True, text=True)
    assert result.returncode == 0


def test_missing_tool_is_named_in_the_error():
    with pytest.raises(FileNotFoundError, match="syncopate-nothing"):
        find_tool("syncopate-nothing")
