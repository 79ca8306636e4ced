"""What is kept on disk, and what happens when it is damaged."""

import pytest

from syncopate.compiler.cache import Cache


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
