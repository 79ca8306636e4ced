"""A kernel that is not profiled holds nothing of it, and one that is leaves what its roles do."""

import re

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler.errors import CompilationError

from syncopate.abi import Realization
from syncopate.bridge import capture_ttgir, compile_with
from syncopate.device import calls, copy, copy_tma, entry, ring, roles, signals, tile
from syncopate.device.build import _Key, _specs

TARGET = GPUTarget("cuda", 90, 32)
LDST, TMA = Realization.LDST_COLOCATED, Realization.TMA_COLOCATED
STAMPING = (copy, copy_tma, ring, roles, signals, tile)
STAMPED = (
    "close_call",
    "finish_tile",
    "read_tile",
    "roles",
    "run_commands_ldst_colocated",
    "run_commands_tma_colocated",
    "wait_signals",
)


@pytest.fixture(autouse=True)
def own_caches(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("SYNCOPATE_CACHE_DIR", str(tmp_path / "syncopate"))


@triton.jit
def no_stamp(ctx, EVENT: tl.constexpr, subject, ROLE: tl.constexpr):
    """What must not be compiled."""
    tl.static_assert(False, "a stamp is compiled")


@triton.jit
def no_begin(ctx, ROLE: tl.constexpr):
    """Likewise."""
    tl.static_assert(False, "a stamp is compiled")


def texts(profiled):
    key = _Key(TARGET, 4, 16, frozenset({LDST, TMA}), False, None, LDST, profile=profiled)
    specs = _specs(key)
    return {name: capture_ttgir(specs[name]).ttgir for name in STAMPED}


def forget_parsed():
    """Makes Triton look again at what functions call, which it remembers of those that it has parsed."""
    for module in (*STAMPING, calls, entry):
        for value in vars(module).values():
            if isinstance(value, triton.runtime.JITFunction):
                value.hash = None
                value.used_global_vals.clear()


@pytest.fixture
def without_stamps(monkeypatch):
    """Puts what cannot be compiled in place of stamps."""

    def replace():
        for module in STAMPING:
            monkeypatch.setattr(module, "stamp", no_stamp)
            if hasattr(module, "begin_role"):
                monkeypatch.setattr(module, "begin_role", no_begin)
        forget_parsed()

    yield replace
    monkeypatch.undo()
    forget_parsed()


def innermost(error):
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error)


def test_no_stamp_is_compiled_unless_it_is_asked_for(without_stamps):
    """With stamps that no kernel could be compiled with, all functions are the same, byte for byte."""
    before = texts(False)
    without_stamps()
    assert texts(False) == before
    with pytest.raises(CompilationError) as caught:
        texts(True)
    assert "a stamp is compiled" in innermost(caught.value)


def test_stamps_stand_where_roles_begin_and_end():
    plain, profiled = texts(False), texts(True)

    def clocks(modules, name):
        return modules[name].count("%globaltimer")

    # Two roles of the outline's beginning and end, of a tile its own, of the ring two on either side of it.
    more = {name: clocks(profiled, name) - clocks(plain, name) for name in STAMPED}
    assert more == {
        "close_call": 2,
        "finish_tile": 3,
        "read_tile": 1,
        "roles": 2 + 2,
        "run_commands_ldst_colocated": 2 + 2 + 2 + 2,
        "run_commands_tma_colocated": 2 + 2 + 2,
        "wait_signals": 2,
    }
    assert not any("%smid" in text for text in plain.values())
    assert [name for name, text in profiled.items() if "%smid" in text] == [
        "roles",
        "run_commands_ldst_colocated",
        "run_commands_tma_colocated",
    ]


def test_one_thread_writes_a_record_without_a_barrier():
    """`read_tile` stamps and does nothing else that needs one."""
    key = _Key(TARGET, 8, 16, frozenset({LDST}), False, None, None, profile=True)
    text = compile_with(_specs(key)["read_tile"], lambda _, ttgir: ttgir, "test").asm["ptx"]
    stores = re.findall(r"^\s*(@%p\d+ )?st\.global\.b64", text, re.MULTILINE)
    assert len(stores) == 3 and all(stores)
    assert "bar.sync" not in text and "atom." not in text
    assert "ld.global.nc" not in text
