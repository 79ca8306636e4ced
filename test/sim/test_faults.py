"""Every fault of the corpus is found in every program that has what it breaks; what finds it is part of the corpus."""

import re
import subprocess

import pytest
from edited_tables import refuse_tables
from edits_protocol import COMMAND, RMW
from faults_compute import COMPUTE_FAULTS
from faults_handover import HANDOVER_FAULTS, HANDOVER_FORMS
from faults_order import GPU, ORDER_FAULTS
from faults_plan import PLAN_FAULTS
from faults_tables import TABLE_FAULTS
from faults_tma import TMA_FAULTS
from faults_transfer import TRANSFER_FAULTS
from fused_edits import change, kernel
from sim_faults import FORMS, find
from sim_programs import ag_gemm, with_fused
from sim_table import PUSH, Case

from syncopate._tools import find_tool
from syncopate.choices import TileOrder
from syncopate.sim.findings import Kind
from syncopate.sim.simulate import simulate

pytestmark = pytest.mark.any_triton

KERNEL_FAULTS = (
    *ORDER_FAULTS,
    *TRANSFER_FAULTS,
    *TMA_FAULTS,
    *HANDOVER_FAULTS,
    *COMPUTE_FAULTS,
)
FAULTS = (*KERNEL_FAULTS, *TABLE_FAULTS)
NAMED = {fault.name: fault for fault in FAULTS}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_found(fault):
    for case in fault.forms:
        assert fault.is_found(case), f"{fault.name} was not found in {case.name}"


@pytest.mark.parametrize("fault", TABLE_FAULTS, ids=lambda fault: fault.name)
def test_table_fault_is_refused(fault):
    for case in fault.forms:
        said = refuse_tables(fault.apply(case.build()), fault.check)
        assert re.search(fault.diagnostic, said), f"{fault.name} in {case.name}: {said or 'passes'}"


@pytest.mark.parametrize("case", FORMS, ids=lambda case: case.name)
def test_good_tables_are_not_refused(case):
    assert not refuse_tables(case.build())


@pytest.mark.parametrize(
    ("fault", "plan"),
    [(fault, plan) for fault in PLAN_FAULTS for plan in fault.forms],
    ids=lambda value: getattr(value, "stem", None) or value.name,
)
def test_plan_fault_is_refused(fault, plan):
    command = [str(find_tool("syncopate-opt")), *fault.flags]
    text = plan.read_text(encoding="utf-8")
    good = subprocess.run(command, input=text, capture_output=True, text=True)
    assert good.returncode == 0, good.stderr
    result = subprocess.run(command, input=fault.edit(text), capture_output=True, text=True)
    assert result.returncode != 0
    assert re.search(fault.diagnostic, result.stderr), result.stderr


def test_every_fault_has_a_name_and_breaks_something():
    assert all(fault.forms for fault in (*FAULTS, *PLAN_FAULTS))
    names = [fault.name for fault in (*FAULTS, *PLAN_FAULTS)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", (*FORMS, *HANDOVER_FORMS), ids=lambda case: case.name)
def test_faults_are_different_and_edits_change_only_what_they_name(case):
    """No edit is the identity, no two make the same program, and the module survives being read and printed."""
    program = case.build()
    unchanged = kernel()(program)
    assert kernel()(unchanged).ir["fused"] == unchanged.ir["fused"]
    texts = {unchanged.ir["fused"]: "no fault"}
    for fault in KERNEL_FAULTS:
        if case in fault.forms:
            text = fault.apply(program).ir["fused"]
            assert text not in texts, f"{fault.name} is {texts[text]}"
            texts[text] = fault.name


# What is no fault.


@pytest.mark.parametrize(
    "edit",
    [
        # Order is transitive, and the last CTA releases at the scope of the system.
        change(RMW, "scope", GPU, innermost=COMMAND),
    ],
    ids=["command counters at the scope of the gpu"],
)
def test_what_is_no_fault(edit):
    program = kernel(edit)(
        Case(algorithm=PUSH, shape=(192, 64, 192), order=TileOrder.GROUPED).build()
    )
    for seed in range(5):
        assert simulate(program, calls=2, seed=seed).verdict.ok


# What findings say.


def test_deadlock_names_who_should_have_raised_what():
    program = NAMED["no CTA raises"].apply(ag_gemm())
    (finding,) = simulate(program).verdict.findings
    assert finding.kind is Kind.DEADLOCK
    chunk = "chunk a[0:64, 0:128] from rank 0 (put by rank 0, transfer 0)"
    assert f"rank 1 CTA 0 compute waits for {chunk}" in finding.message
    assert re.search(
        rf"because this never comes: {re.escape(chunk)} \(flag 0 of rank 1 is 0\), "
        r"which was up to command 0 of rank 0, and that has been carried out",
        finding.message,
    )
    assert "signals.py" in finding.message
    assert "in a circle" not in finding.message


def test_deadlock_in_a_circle_is_shown_as_one():
    program = NAMED["commands in a circle"].apply(ag_gemm())
    (finding,) = simulate(program).verdict.findings
    assert finding.kind is Kind.DEADLOCK
    _, _, circle = finding.message.partition("because they wait for each other in a circle:\n")
    for rank, row in ((0, "64:128"), (1, "0:64")):
        peer = 1 - rank
        assert re.search(
            rf"^    rank {rank} CTA \d partition 0 waits for chunk a\[{row}, 0:128\] from rank {peer} .*: "
            rf"that is up to command 0 of rank {peer}, by rank {peer} CTA \d partition 0$",
            circle,
            re.MULTILINE,
        )
    assert "never comes" not in finding.message


def test_deadlock_of_a_flag_that_nobody_raises_says_so():
    program = NAMED["a rank raises nothing"].apply(ag_gemm())
    finding = find(program, {Kind.DEADLOCK})
    assert finding is not None
    assert re.search(r"because this never comes: .*, which is up to nobody", finding.message)


def test_deadlock_of_an_engine_leads_to_the_call_that_did_not_open():
    program = NAMED["nobody opens"].apply(ag_gemm("copy_engine", "direct pull"))
    (finding,) = simulate(program).verdict.findings
    assert finding.kind is Kind.DEADLOCK
    for rank in range(2):
        peer = 1 - rank
        assert re.search(
            rf"because this never comes: rank {peer} to stage its input \(flag \d+ of rank {rank} is 0\), "
            rf"which was up to the beginning of the call of rank {peer}, and that has begun",
            finding.message,
        )


def test_race_names_both_sides():
    broken = NAMED["no barrier before the count"].apply(ag_gemm())
    finding = find(broken, {Kind.RACE})
    assert "partition 0" in str(finding)
    assert "nothing orders the two" in str(finding)
    assert finding.location
    assert finding.operation


def test_device_timeout_drains_and_names_the_chunk():
    broken = NAMED["a rank raises nothing"].apply(ag_gemm())
    findings = simulate(broken, timeouts=True).verdict.findings
    assert findings[0].kind is Kind.TIMEOUT
    assert "a tile waited 60 s for" in findings[0].message


def test_waits_of_the_prologue_count_too():
    """Drops the fences one by one where the first tile of a rank waits; each that is executed is found."""
    program = ag_gemm("ldst_colocated", "direct push", 2, (192, 64, 192), order="grouped")
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
