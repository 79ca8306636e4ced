"""The device library has the form that the passes expect, and the PTX that its protocol needs."""

import re

import pytest
from triton.backends.compiler import GPUTarget

from syncopate.bridge import compile_with
from syncopate.device import COMMUNICATION_REGISTERS, compile_guard, library
from syncopate.device.build import _library, _specs
from syncopate.device.entry import YIELD_MARKER
from syncopate.device.roles import COMMUNICATE_MARKER, COMPUTE_MARKER
from syncopate.runtime.commands import UNITS

TARGET = GPUTarget("cuda", 90, 32)
NAMES = {
    "input_rows",
    "read_tile",
    "wait_signals",
    "open_call",
    "close_call",
    "run_commands_ldst",
    "roles_plain",
    "roles_colocated",
}


@pytest.fixture(scope="module", autouse=True)
def own_caches(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        patch.setenv("SYNCOPATE_CACHE_DIR", str(tmp_path_factory.mktemp("syncopate")))
        # What an earlier test left in memory is not in these folders.
        _library.cache_clear()
        yield


def ptx(name, num_warps=8, unit=16):
    return compile_with(
        _specs(TARGET, num_warps, unit, True)[name], lambda _, ttgir: ttgir, "test"
    ).asm["ptx"]


def top_level(text):
    """The lines of the function's own block."""
    return [line for line in text.splitlines() if re.match(r"    \S", line)]


@pytest.fixture(scope="module")
def modules():
    return library(TARGET, 8, 16, remote_loads=True)


def test_library_holds_every_function(modules):
    assert set(modules) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_function_is_one_block_without_calls(modules, name):
    text = modules[name]
    assert text.count('"tt.func"') == 1
    assert '"tt.call"' not in text
    assert "cf.br" not in text
    assert "cf.cond_br" not in text
    assert top_level(text)[-1].strip().startswith('"tt.return"() : () -> ()')


def test_library_is_read_from_disk(modules, monkeypatch):
    def fail(spec):
        raise AssertionError("compiled again")

    monkeypatch.setattr("syncopate.device.build.capture_ttgir", fail)
    _library.cache_clear()
    assert library(TARGET, 8, 16, remote_loads=True) == modules


def test_unit_must_be_known():
    with pytest.raises(ValueError, match="unit must be one of"):
        library(TARGET, 8, 3, remote_loads=True)


def test_read_tile_yields_five_values(modules):
    (marker,) = [line for line in modules["read_tile"].splitlines() if YIELD_MARKER in line]
    assert "(i32, i32, i32, i32, i32) -> i32" in marker


def test_outlines_have_holes(modules):
    plain, colocated = modules["roles_plain"], modules["roles_colocated"]
    assert (plain.count(COMPUTE_MARKER), plain.count(COMMUNICATE_MARKER)) == (1, 0)
    assert (colocated.count(COMPUTE_MARKER), colocated.count(COMMUNICATE_MARKER)) == (1, 1)
    assert "ttg.warp_specialize" not in plain
    registers = f"requestedRegisters = array<i32: {COMMUNICATION_REGISTERS}>"
    assert f"<{{partitionNumWarps = array<i32: 4>, {registers}}}>" in colocated


def test_wait_acquires_then_fences_for_tma():
    text = ptx("wait_signals")
    assert "ld.global.sys.acquire.b32" in text
    assert text.index("ld.global.sys.acquire.b32") < text.index("fence.proxy.async;")
    assert "ld.global.nc" not in text


def test_wait_on_older_gpus_has_no_fence():
    modules = library(GPUTarget("cuda", 80, 32), 8, 16, remote_loads=True)
    assert "fence.proxy.async" not in modules["wait_signals"]


def test_open_releases_at_system_scope():
    text = ptx("open_call")
    assert re.search(r"atom\.global\.sys\.release\.exch\.b32", text)
    assert re.search(r"(atom|red)\.global\.sys\.release\.add\.u32", text)


def test_close_counts_after_a_barrier():
    text = ptx("close_call")
    counted = text.index("atom.global.gpu.acq_rel.add.u32")
    assert 0 < text.index("bar.sync") < counted
    assert text.rindex("st.global") > counted


@pytest.mark.parametrize("unit", UNITS)
def test_copy_moves_units_several_at_a_time(unit):
    width = {16: "v4.b32", 8: "v2.b32", 4: "b32", 2: "b16", 1: "b8"}[unit]
    text = ptx("run_commands_ldst", unit=unit)
    # Data is loaded under a mask, and all of it before the first store.
    load, store = (rf"@%p\d+ {op}\.global\.{width} " for op in ("ld", "st"))
    loads = [m.start() for m in re.finditer(load, text)]
    # What a wait that gives up stores comes before.
    stores = [m.start() for m in re.finditer(store, text) if m.start() > loads[0]]
    assert len(loads) >= 4
    assert len(stores) >= 4
    assert sum(start < stores[0] for start in loads) >= 4
    assert "ld.global.nc" not in text


def test_copy_counts_at_system_scope_after_a_barrier():
    text = ptx("run_commands_ldst")
    counted = text.index("atom.global.sys.acq_rel.add.u32")
    last_store = text.rindex("st.global.v4.b32")
    assert last_store < counted
    assert "bar.sync" in text[last_store:counted]


def test_colocated_outline_moves_registers():
    text = ptx("roles_colocated")
    assert re.search(r"setmaxnreg\.inc\.sync\.aligned\.u32\s+40", text)
    assert re.search(r"setmaxnreg\.dec\.sync\.aligned\.u32\s+232", text)
    assert ".reqntid 384" in text


def test_guard_kernel_compiles_without_a_gpu():
    made = compile_guard(TARGET)
    assert made.arguments == (("context", "*i64"), ("begin", "i32"), ("end", "i32"))
    assert made.num_warps == 1 and made.cubin
