"""Fault records become errors that say who waited for what from whom."""

import pytest
from hand_tables import LDST
from test_runtime_linking import make

from syncopate.abi import FaultPlace
from syncopate.errors import DeviceWaitTimeout, SyncopateError
from syncopate.runtime.faults import decode_fault, describe_signal

pytestmark = pytest.mark.any_triton


def test_no_record_is_no_error():
    assert decode_fault(make(), [0] * 8) is None


def test_tile_wait_names_chunk_and_sender():
    program = make(3, "push", LDST)
    error = decode_fault(program, [1, 1, 2, 7, 6, FaultPlace.TILE, 7, 0])
    assert isinstance(error, DeviceWaitTimeout) and isinstance(error, SyncopateError)
    assert (error.rank, error.signal, error.wanted, error.seen, error.epoch) == (1, 2, 7, 6, 7)
    text = str(error)
    assert "program gather, call 7: on rank 1, a tile waited 60 s for chunk a[42:64, 0:16]" in text
    assert "from rank 2 (put by rank 2, transfer 2)" in text
    assert "wanted 7, saw 6" in text


def test_pulled_chunk_says_who_fetches():
    assert "fetched by rank 0" in describe_signal(make(2, "pull"), 0, 1)


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ("ready", "rank 2 to stage its input"),
        ("done", "rank 2 to finish the previous call"),
        ("ready_twin", "rank 2 to stage its input"),
        ("done_twin", "rank 2 to finish the previous call"),
    ],
)
def test_protocol_flags(block, text):
    program = make()
    assert describe_signal(program, 0, getattr(program.signal_layout, block) + 2) == text


def test_engine_done_and_nonsense():
    program = make()
    done = program.signal_layout.engine_done
    assert "copy engine commands of rank 1 itself" in describe_signal(program, 1, done)
    assert "does not have" in describe_signal(program, 1, 999)
