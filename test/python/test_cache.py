"""What is kept on disk, and what happens when it is damaged."""

import shutil
from pathlib import Path

import pytest

from syncopate.bridge import write_whole
from syncopate.compiler.cache import MOST_ENTRIES, Cache


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SYNCOPATE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_entries_outlive_the_process(folder):
    Cache("kind").store("key", {"a": b"1", "b": b""})
    assert Cache("kind").find("key") == {"a": b"1", "b": b""}
    assert Cache("kind").find("other") is None
    assert Cache("other").find("key") is None


@pytest.mark.parametrize("damage", ["truncate", "remove", "add", "no manifest"])
def test_damaged_entries_are_taken_away(folder, damage):
    Cache("kind").store("key", {"a": b"123", "b": b"4"})
    entry = folder / "kind" / "key"
    if damage == "truncate":
        (entry / "a").write_bytes(b"12")
    elif damage == "remove":
        (entry / "b").unlink()
    elif damage == "add":
        (entry / "c").mkdir()
    else:
        (entry / "manifest.json").unlink()
    assert Cache("kind").find("key") is None
    Cache("kind").store("key", {"a": b"123"})
    assert Cache("kind").find("key") == {"a": b"123"}


def test_folder_that_cannot_be_written_is_told(folder):
    folder.write_text("a file")
    cache = Cache("kind")
    with pytest.warns(UserWarning, match="set SYNCOPATE_CACHE_DIR"):
        cache.store("key", {"a": b"1"})
    assert cache.find("key") == {"a": b"1"}


def test_memory_is_bounded(folder):
    """What was asked for longest ago is read from disk again, as long as it is there."""
    cache = Cache("kind")
    for number in range(MOST_ENTRIES + 1):
        cache.store(str(number), {"a": str(number).encode()})
    assert cache.find("0") == {"a": b"0"}
    shutil.rmtree(folder / "kind")
    assert cache.find("1") is None
    assert cache.find("2") == {"a": b"2"}
    assert cache.find("0") == {"a": b"0"}


def test_file_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "entry"
    write_whole(path, "é")
    assert path.read_text(encoding="utf-8") == "é"

    def fail(*_):
        raise OSError("no space")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_whole(path, "other")
    assert [each.name for each in tmp_path.iterdir()] == ["entry"]
    assert path.read_text(encoding="utf-8") == "é"
