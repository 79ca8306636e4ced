"""Every mechanical fault is found; what finds it is part of the table."""

import pytest
from sim_faults import IN_KERNEL, IN_TABLES, DoesNotApply
from sim_programs import ag_gemm, with_fused

from syncopate.sim.findings import Kind
from syncopate.sim.simulate import simulate

PUSH, PULL = ("ldst_colocated", "direct_push"), ("ldst_colocated", "direct_pull")
RING, ENGINE = ("ldst_colocated", "ring_push"), ("copy_engine", "direct_pull")

EXPECTED = {
    "no fence before TMA reads": {Kind.RACE},
    "no barrier": {Kind.RACE},
    "relaxed release": {Kind.RACE},
    "relaxed acquire": {Kind.RACE},
    "counters only acquire": {Kind.RACE},
    "counters only release": {Kind.RACE},
    "relaxed counters": {Kind.RACE},
    "relaxed counter of CTAs": {Kind.RACE},
    "relaxed counter of a command": {Kind.RACE},
    "narrow scopes": {Kind.RACE},
    "narrow scope of releases": {Kind.RACE},
    "narrow scope of acquires": {Kind.RACE},
    "scope of a CTA": {Kind.RACE},
    "no wait on an mbarrier": {Kind.SHARED_RACE},
    "no expected bytes": {Kind.BARRIER, Kind.DEADLOCK},
    "fewer expected bytes": {Kind.BARRIER, Kind.DEADLOCK},
    "more expected bytes": {Kind.DEADLOCK},
    "one wgmma too many in flight": {Kind.SHARED_RACE},
    "accumulator in flight": {Kind.REGISTER},
    "no wait for TMA stores": {Kind.SHARED_RACE},
    "no fence before TMA stores": {Kind.SHARED_RACE},
    "mbarrier of two arrivals": {Kind.DEADLOCK},
    "constant phase": {Kind.SHARED_RACE, Kind.DEADLOCK},
    "tiles do not wait": {Kind.UNWRITTEN, Kind.RACE},
    "commands do not wait": {Kind.UNWRITTEN, Kind.RACE},
    "commands raise nothing": {Kind.DEADLOCK},
    "no guard": {Kind.RACE},
    "calls raise nothing at their end": {Kind.DEADLOCK},
    "chunks end early": {Kind.UNWRITTEN},
    "chunks lie too low": {Kind.UNWRITTEN, Kind.RACE},
    "signals swapped": {Kind.UNWRITTEN, Kind.RACE},
    "waits for the next call": {Kind.DEADLOCK},
    "a tile computed twice, another not": {Kind.RACE, Kind.OUTPUT},
}


def find(program, kinds):
    """The first finding of one of the kinds within a few runs."""
    for policy in ("random", "late", "early"):
        for seed in range(3):
            verdict = simulate(
                program, calls=3, seed=seed, scheduler=policy, staged=seed == 2
            ).verdict
            for finding in verdict.findings:
                if finding.kind in kinds:
                    return finding
    return None


def test_every_fault_has_an_expectation():
    assert set(EXPECTED) == {*IN_KERNEL, *IN_TABLES}


@pytest.mark.parametrize("choice", [PUSH, PULL, RING, ENGINE], ids="-".join)
@pytest.mark.parametrize("name", [*IN_KERNEL, *IN_TABLES])
def test_fault_is_found(name, choice):
    program = ag_gemm(*choice, 3 if choice == RING else 2, (192, 64, 192))
    try:
        broken = {**IN_KERNEL, **IN_TABLES}[name](program)
    except DoesNotApply:
        pytest.skip("nothing to break")
    finding = find(broken, EXPECTED[name])
    assert finding is not None, f"{name} was not found"
    assert finding.message


def test_command_counters_may_have_the_scope_of_the_gpu():
    """Not a fault: order is transitive, and the last CTA releases at the scope of the system."""
    from sim_faults import replace

    program = replace("scope = 3 : i32, sem = 4", "scope = 1 : i32, sem = 4")(ag_gemm(*PUSH))
    for seed in range(5):
        assert simulate(program, calls=2, seed=seed).verdict.ok


def test_deadlock_says_who_waits_for_what_from_whom():
    broken = IN_TABLES["waits for the next call"](ag_gemm(*PUSH))
    (finding,) = simulate(broken).verdict.findings
    assert finding.kind is Kind.DEADLOCK
    assert (
        "rank 1 CTA 0 compute waits for chunk a[0:64, 0:128] from rank 0 (put by rank 0"
        in finding.message
    )
    assert "signals.py" in finding.message


def test_race_names_both_sides():
    broken = IN_KERNEL["no barrier"](ag_gemm(*PUSH))
    finding = find(broken, {Kind.RACE})
    assert "partition 0" in str(finding)
    assert "nothing orders the two" in str(finding)
    assert finding.location
    assert finding.operation


def test_device_timeout_drains_and_names_the_chunk():
    broken = IN_TABLES["commands raise nothing"](ag_gemm(*PUSH))
    findings = simulate(broken, timeouts=True).verdict.findings
    assert findings[0].kind is Kind.TIMEOUT
    fault = findings[0]
    assert "a tile waited 60 s for" in fault.message


def test_the_end_of_a_call_acquires_what_the_engine_did():
    """Relaxes the last acquire of the kernel, which is the close wait's, and the one of its slow path."""
    program = ag_gemm("copy_engine", "direct_push")
    text = program.ir["fused"]
    for _ in range(2):
        head, _, tail = text.rpartition("scope = 3 : i32, sem = 2")
        text = f"{head}scope = 3 : i32, sem = 1{tail}"
    finding = find(with_fused(program, text), {Kind.RACE})
    assert finding is not None
    assert "read by the copy engine" in finding.message


def test_waits_of_the_prologue_count_too():
    """Drops the fences one by one where the first tile of a rank waits; each that is executed is found."""
    program = ag_gemm("ldst_colocated", "direct_push", 2, (192, 64, 192), order="grouped")
    lines = program.ir["fused"].split("\n")
    fences = [i for i, line in enumerate(lines) if "fence.proxy.async;" in line]
    found = 0
    for at in fences:
        text = "\n".join(
            line.replace("fence.proxy.async;", "fence.acq_rel.sys;") if i == at else line
            for i, line in enumerate(lines)
        )
        found += find(with_fused(program, text), {Kind.RACE}) is not None
    assert found >= 2
