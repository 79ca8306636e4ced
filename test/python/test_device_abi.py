"""Device functions and the runtime's packers number the context alike."""

import pytest

from syncopate.device import abi

layout = pytest.importorskip("syncopate.runtime.layout")


@pytest.mark.parametrize("word", list(layout.ContextWord), ids=lambda word: word.name)
def test_context_words_agree(word):
    assert getattr(abi, word.name).value == word


@pytest.mark.parametrize("word", list(layout.FaultWord), ids=lambda word: word.name)
def test_fault_words_agree(word):
    name = {"SIGNAL": "FLAG"}.get(word.name, word.name)
    assert getattr(abi, f"FAULT_{name}").value == word


@pytest.mark.parametrize("place", list(layout.FaultPlace), ids=lambda place: place.name)
def test_fault_places_agree(place):
    assert getattr(abi, f"WHERE_{place.name}").value == place


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("CONTEXT_WORDS", "CONTEXT_WORDS"),
        ("FAULT_WORDS", "FAULT_WORDS"),
        ("TILE_STRIDE", "TILE_WORDS"),
        ("WAIT_STRIDE", "WAIT_WORDS"),
        ("SIGNAL_STRIDE", "SIGNAL_WORDS"),
        ("COMMAND_STRIDE", "COMMAND_WORDS"),
        ("STATE_EPOCH", "STATE_EPOCH"),
        ("STATE_FINISHED", "STATE_FINISHED_CTAS"),
        ("STATE_ABORTED", "STATE_ABORTED"),
        ("STATE_PARTS", "STATE_COMMANDS"),
    ],
)
def test_strides_and_state_words_agree(ours, theirs):
    assert getattr(abi, ours).value == getattr(layout, theirs)
