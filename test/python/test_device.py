"""The device library has the form that the passes expect, and the PTX that its protocol needs."""

import dataclasses
import functools
import itertools
import re

import pytest
from triton.backends.compiler import GPUTarget

from syncopate.abi import Realization
from syncopate.bridge import capture_ttgir, compile_with
from syncopate.compiler.budgets import read_resources
from syncopate.device import COMMUNICATION_REGISTERS, compile_guard, library
from syncopate.device.build import RowStores, _Key, _library, _specs
from syncopate.device.entry import YIELD_MARKER
from syncopate.device.roles import COMMUNICATE_MARKER, COMPUTE_MARKER
from syncopate.runtime.commands import UNITS

TARGET = GPUTarget("cuda", 90, 32)
NAMES = {
    "input_rows",
    "read_step",
    "read_tile",
    "tile_steps",
    "wait_signals",
    "tile_number",
    "tile_slot",
    "store_rows",
    "tile_sum",
    "finish_tile",
    "finish_bulk_tile",
    "open_call",
    "close_call",
    "run_commands_ldst_dedicated",
    "run_commands_ldst_colocated",
    "roles",
}
ROLES = frozenset({Realization.LDST_DEDICATED, Realization.LDST_COLOCATED})
ROWS = RowStores(64, 64, "bf16", 64)
"""Blocks whose rows are stored one by one."""


@pytest.fixture(scope="module", autouse=True)
def own_caches(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        patch.setenv("SYNCOPATE_CACHE_DIR", str(tmp_path_factory.mktemp("syncopate")))
        # What an earlier test left in memory is not in these folders.
        _library.cache_clear()
        yield


def ptx(name, num_warps=8, unit=16):
    key = _Key(TARGET, num_warps, unit, ROLES, True, None, None, row_stores=ROWS)
    specs = _specs(key)
    return compile_with(specs[name], lambda _, ttgir: ttgir, "test").asm["ptx"]


def top_level(text):
    """The lines of the function's own block."""
    return [line for line in text.splitlines() if re.match(r"    \S", line)]


@pytest.fixture(scope="module")
def modules():
    return library(TARGET, 8, 16, roles=ROLES, remote_loads=True, row_stores=ROWS)


def test_library_holds_every_function(modules):
    assert set(modules) == NAMES


def test_older_targets_have_no_function_for_bulk_stores():
    roles = frozenset({Realization.LDST_DEDICATED})
    older = library(GPUTarget("cuda", 80, 32), 4, 16, roles=roles, remote_loads=True)
    assert set(older) == NAMES - {
        "finish_bulk_tile",
        "run_commands_ldst_colocated",
        "store_rows",
    }


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
    again = library(TARGET, 8, 16, roles=ROLES, remote_loads=True, row_stores=ROWS)
    assert again == modules


def test_unit_must_be_known():
    with pytest.raises(ValueError, match="unit must be one of"):
        library(TARGET, 8, 3, roles=ROLES, remote_loads=True)


def test_read_tile_yields_five_values(modules):
    (marker,) = [line for line in modules["read_tile"].splitlines() if YIELD_MARKER in line]
    assert "(i32, i32, i32, i32, i32) -> i32" in marker


def test_rows_are_stored_in_units_of_sixteen_bytes():
    stores = [line for line in ptx("store_rows").splitlines() if "st.global" in line]
    assert stores
    assert all("st.global.v4.b32" in line for line in stores)


def test_read_step_yields_three_values(modules):
    (marker,) = [line for line in modules["read_step"].splitlines() if YIELD_MARKER in line]
    assert "(i32, i32, i32) -> i32" in marker


def test_outlines_have_holes(modules):
    assert modules["roles"].count(COMPUTE_MARKER) == 1
    assert modules["roles"].count(COMMUNICATE_MARKER) == 2


@functools.cache
def outline(roles):
    return capture_ttgir(_specs(_Key(TARGET, 8, 16, roles, True, None, None))["roles"]).ttgir


DEVICE = [role for role in Realization if role.is_device]


@pytest.mark.parametrize(
    "roles", [set(c) for n in range(5) for c in itertools.combinations(DEVICE, n)], ids=str
)
def test_outline_has_a_hole_for_each_role_in_its_place(roles):
    """Dedicated roles come before the computation, and co-located ones are its partitions."""
    text = outline(frozenset(roles))
    at = {role: text.index(f"{COMMUNICATE_MARKER}{role.spelling}\\0A") for role in roles}
    assert text.count(COMMUNICATE_MARKER) == len(roles)
    assert text.count(COMPUTE_MARKER) == 1
    colocated = [role for role in DEVICE if role in roles and role.is_colocated]
    for role in roles:
        assert (at[role] < text.index(COMPUTE_MARKER)) == role.is_dedicated
    branches = outline(frozenset()).count('"scf.if"')
    assert text.count('"scf.if"') == branches + (len(colocated) < len(roles))
    assert ("ttg.warp_specialize.partitions" in text) == bool(colocated)
    if colocated:
        each = ", ".join(["4"] * len(colocated))
        registers = ", ".join([str(COMMUNICATION_REGISTERS)] * len(colocated))
        wanted = f"<{{partitionNumWarps = array<i32: {each}>, requestedRegisters = array<i32: {registers}>}}>"
        assert wanted in text


def test_wait_acquires_then_fences_for_tma():
    text = ptx("wait_signals")
    assert "ld.global.sys.acquire.b32" in text
    assert text.index("ld.global.sys.acquire.b32") < text.index("fence.proxy.async;")
    assert "ld.global.nc" not in text


def test_wait_on_older_gpus_has_no_fence():
    modules = library(GPUTarget("cuda", 80, 32), 8, 16, roles=ROLES, remote_loads=True)
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


@pytest.mark.parametrize("role", sorted(ROLES))
@pytest.mark.parametrize("unit", UNITS)
def test_copy_moves_units_several_at_a_time(unit, role):
    width = {16: "v4.b32", 8: "v2.b32", 4: "b32", 2: "b16", 1: "b8"}[unit]
    text = ptx(f"run_commands_{role.spelling}", unit=unit)
    # Data is loaded under a mask, and all of it before the first store.
    load, store = (rf"@%p\d+ {op}\.global\.{width} " for op in ("ld", "st"))
    loads = [m.start() for m in re.finditer(load, text)]
    # What a wait that gives up stores comes before.
    stores = [m.start() for m in re.finditer(store, text) if m.start() > loads[0]]
    assert len(loads) >= 4
    assert len(stores) >= 4
    assert sum(start < stores[0] for start in loads) >= 4
    assert "ld.global.nc" not in text


@pytest.mark.parametrize("role", sorted(ROLES))
def test_copy_counts_at_system_scope_after_a_barrier(role):
    text = ptx(f"run_commands_{role.spelling}")
    counted = text.index("atom.global.sys.acq_rel.add.u32")
    last_store = text.rindex("st.global.v4.b32")
    assert last_store < counted
    assert "bar.sync" in text[last_store:counted]


@pytest.mark.parametrize("unit", UNITS)
def test_dedicated_copy_keeps_all_in_registers(unit):
    """Its many loads in flight must not spill in a CTA of twelve warps, eight that compute and a co-located role."""
    spec = _specs(_Key(TARGET, 8, unit, ROLES, True, "bf16", None))["run_commands_ldst_dedicated"]
    spec = dataclasses.replace(
        spec, options={**spec.options, "maxnreg": 65536 // (12 * 32) // 8 * 8}
    )
    asm = compile_with(spec, lambda _, text: text, "test").asm
    assert read_resources(asm["cubin"]).stack_bytes == 0


def test_colocated_outline_moves_registers():
    text = ptx("roles")
    assert re.search(r"setmaxnreg\.inc\.sync\.aligned\.u32\s+40", text)
    assert re.search(r"setmaxnreg\.dec\.sync\.aligned\.u32\s+232", text)
    assert ".reqntid 384" in text


def test_guard_kernel_compiles_without_a_gpu():
    made = compile_guard(TARGET)
    assert made.arguments == (("context", "*i64"), ("begin", "i32"), ("end", "i32"))
    assert made.num_warps == 1 and made.cubin


@pytest.mark.parametrize("ring", [Realization.LDST_COLOCATED, Realization.TMA_COLOCATED])
def test_pieces_of_a_ring_stand_in_its_outline_and_are_used_by_their_part(ring):
    """Both roles are there; only the ring's own has to do with it."""
    roles = (Realization.LDST_COLOCATED, Realization.TMA_COLOCATED)
    modules = library(TARGET, 8, 16, roles=roles, remote_loads=False, ring=ring)
    outline = modules["roles"]
    for piece in ("hand_over", "take"):
        assert outline.count(f"// syncopate.piece.{piece}") == 1
    before, _, behind = outline.partition("// syncopate.piece.take")
    for role in roles:
        marker = f"{COMMUNICATE_MARKER}{role.spelling}"
        assert (before.rindex(COMMUNICATE_MARKER) == before.find(marker)) == (role is ring)
        uses = modules[f"run_commands_{role.spelling}"].count("// syncopate.use.take")
        assert uses == (role is ring)
    assert behind.count(YIELD_MARKER) == 1
    assert modules["finish_tile"].count("// syncopate.use.hand_over") == 1
    assert "syncopate.use" not in modules["read_tile"] + modules["roles"]


def test_library_without_a_ring_has_no_pieces():
    modules = library(TARGET, 8, 16, roles=ROLES, remote_loads=False)
    assert not any(
        "syncopate.piece" in text or "syncopate.use" in text for text in modules.values()
    )
