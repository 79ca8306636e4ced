"""Roles on TMA: the order that their protocol needs, in the IR and in PTX, and what they take of a CTA."""

import re

import pytest
from triton.backends.compiler import GPUTarget

from syncopate.abi import Realization
from syncopate.bridge import compile_with
from syncopate.device import library
from syncopate.device.build import _Key, _specs

TARGET = GPUTarget("cuda", 90, 32)
TMA = frozenset(role for role in Realization if role.is_tma)
ROLES = ("run_commands_tma_colocated", "run_commands_tma_dedicated")
STORE = '"ttng.async_tma_copy_local_to_global"'
ADD = '"ttng.async_tma_reduce"'
LOAD = '"ttng.async_tma_copy_global_to_local"'
FULL_WAIT = "cp.async.bulk.wait_group 0;"
SYSTEM, RELEASE, ACQUIRE_RELEASE = 3, 3, 4


@pytest.fixture(scope="module", params=ROLES)
def role(request):
    return library(TARGET, 8, 16, roles=TMA, remote_loads=False, reduced="bf16")[request.param]


def made(name, *, remote_loads=False, reduced=None):
    spec = _specs(_Key(TARGET, 8, 16, TMA, remote_loads, reduced, None))[name]
    return compile_with(spec, lambda _, ttgir: ttgir, "test")


def ptx(name, **options):
    return made(name, **options).asm["ptx"]


def atomics(text, sem):
    """Where additions and exchanges of a semantics at the scope of the system stand."""
    pattern = rf"tt\.atomic_rmw.*scope = {SYSTEM} : i32, sem = {sem} : i32"
    return [match.start() for match in re.finditer(pattern, text)]


def places(text, needle):
    return [match.start() for match in re.finditer(re.escape(needle), text)]


def test_command_is_counted_after_stores_full_wait_and_barrier(role):
    (count,) = atomics(role, ACQUIRE_RELEASE)
    stores, waits = places(role, STORE) + places(role, ADD), places(role, FULL_WAIT)
    assert len(stores) == len(waits) == 2  # one loop that copies, one that adds
    for store, wait in zip(sorted(stores), waits, strict=True):
        assert store < wait < count
    barriers = [match.start() for match in re.finditer(r'"(gpu|ttg)\.barrier"', role)]
    assert any(waits[-1] < barrier < count for barrier in barriers)


def test_flags_are_raised_after_the_count(role):
    (count,) = atomics(role, ACQUIRE_RELEASE)
    released = atomics(role, RELEASE)
    assert len(released) == 2  # an exchange and an addition
    assert min(released) > count


def test_wait_for_flags_is_fenced_before_tma_reads(role):
    polls = atomics(role, 2)
    fences = places(role, "fence.proxy.async;")
    assert len(fences) == 1
    assert max(polls) < fences[0] < min(places(role, LOAD))


def test_ring_waits_before_it_stores_and_before_it_loads_again(role):
    """In the text, as in each iteration: wait for the slot, store it, wait for the reads, load ahead."""
    for store in places(role, STORE) + places(role, ADD):
        before = role.rindex('"ttng.wait_barrier"', 0, store)
        after = role.index('"ttng.async_tma_store_wait"', store)
        assert before < store < after < role.index(LOAD, after)


@pytest.mark.parametrize("name", ROLES)
def test_ptx_waits_for_writes_and_not_only_for_reads(name):
    text = ptx(name, reduced="f32")
    assert "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group" in text
    assert "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group" in text
    assert text.count(FULL_WAIT) == 2
    assert "fence.proxy.tensormap::generic.acquire.gpu" in text
    # The count's own basic block begins with the barrier, behind everything that was issued for the command.
    count = text.index("atom.global.sys.acq_rel.add.u32")
    block = text.rindex("$L__BB", 0, count)
    assert "bar.sync" in text[block:count]
    assert "cp.async.bulk.tensor" not in text[block:count]


@pytest.mark.parametrize(("remote_loads", "pending"), [(True, 0), (False, 1)])
def test_colocated_ring_leaves_stores_to_other_ranks_in_flight(remote_loads, pending):
    text = ptx(ROLES[0], remote_loads=remote_loads)
    assert re.search(rf"cp\.async\.bulk\.wait_group\.read\s+{pending};", text)


def test_colocated_ring_fits_beside_a_large_gemm():
    assert made(ROLES[0], reduced="bf16").metadata.shared <= 232448 - 213016


def test_types_that_tma_cannot_add_are_left_to_loads_and_stores():
    modules = library(TARGET, 8, 16, roles=TMA, remote_loads=False, reduced="f8E5M2")
    assert all(ADD not in modules[name] for name in ROLES)
