"""`strategy="auto"` of workloads and of `syncopate.compile`, as far as it goes without a GPU."""

import dataclasses
import re
import time

import numpy as np
import pytest
from tune_fakes import FakeSubject, candidate

import syncopate
from syncopate import GemmWorkload, Strategy, Target
from syncopate.errors import SyncopateError
from syncopate.kernels import GemmConfig, bind_gemm, bind_gemm_pointers, gemm, gemm_pointers
from syncopate.model import KernelCost, find_preset, save_machine
from syncopate.model.machine_file import machine_path
from syncopate.plan.templates import reduce_scatter_tiles
from syncopate.tune import Auto, Entry, GemmSubject, Key, Measured, Origin, TuningCache, choose
from syncopate.tune.machines import find_model, machine_id

MACHINE = find_preset("h200-w2")


@pytest.fixture
def auto(tmp_path):
    return Auto(machine=MACHINE, cache=TuningCache(tmp_path / "tuning"))


def remember(auto, subject, chosen, us=80.0):
    """As if that had been measured, on the machine's GPU."""
    default = subject.space.default
    measured = (Measured(chosen, us, 100.0), Measured(default, 100.0, 100.0))
    key = Key(subject.data, auto.machine.name, "sm_90x132", syncopate.__version__)
    auto.cache.store(Entry(key, chosen, "", measured, {}))


@pytest.mark.parametrize(
    "workload",
    [
        GemmWorkload("ag_gemm", 4096, 2048, 1024, 2),
        GemmWorkload("gemm_rs", 4096, 2048, 1024, 2),
        GemmWorkload("gemm_ar", 512, 2048, 1024, 2),
        GemmWorkload("a2a_gemm", 2048, 2048, 1024, 2),
        GemmWorkload("gemm_a2a", 2048, 2048, 1024, 2),
    ],
    ids=lambda workload: workload.name,
)
def test_choice_is_never_slower_than_the_default_by_the_models_own_numbers(auto, workload):
    subject = GemmSubject(workload, Target())
    begin = time.process_time()
    report = choose(subject, auto)
    assert time.process_time() - begin < 10
    assert report.origin is Origin.MODEL and report.considered > 10
    chosen, default = (
        workload.predict(one.strategy, one.config, MACHINE).us
        for one in (report.chosen, report.default)
    )
    assert (chosen, default) == (report.predicted_us, report.default_predicted_us)
    assert chosen <= default
    assert report.chosen == report.default or chosen < 0.95 * default
    again = choose(subject, auto)
    assert again.origin is Origin.CACHE and again.chosen == report.chosen
    other = dataclasses.replace(auto, machine=find_preset("h100-w8-predicted"))
    assert choose(subject, other).origin is not Origin.CACHE


def test_program_of_a_workload_says_how_it_was_chosen(auto):
    program = GemmWorkload("gemm_ar", 512, 1024, 512, 2).compile(auto)
    report = program.tuning
    assert program.strategy == report.chosen.strategy
    assert program.explain().endswith(str(report))
    assert "tuning of gemm_ar-512x1024x512-bf16-w2: " in program.explain()
    plain = GemmWorkload("gemm_ar", 512, 1024, 512, 2).compile()
    assert plain.tuning is None and "tuning of" not in plain.explain()


def test_auto_without_a_gpu_or_a_machine_is_the_default(tmp_path, monkeypatch):
    monkeypatch.setenv("SYNCOPATE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("syncopate.tune.auto.find_gpu", lambda: None)
    workload = GemmWorkload("gemm_rs", 256, 128, 64, 2)
    program = workload.compile("auto", config=GemmConfig(block_m=64, block_n=64))
    report = program.tuning
    assert report.origin is Origin.DEFAULT and report.chosen == report.default
    assert report.reason.startswith("there is no GPU here, and no machine was named")
    assert not list((tmp_path / "tuning").glob("*"))


def test_another_word_than_auto_is_refused():
    with pytest.raises(
        SyncopateError, match=r"expects a syncopate\.Strategy, or 'auto', but got 'a"
    ):
        GemmWorkload("ag_gemm", 256, 128, 64, 2).compile("automatic")


def test_where_the_model_knows_nothing_it_is_the_default(auto):
    workload = GemmWorkload("ag_gemm", 512, 51, 70, 2)
    report = choose(GemmSubject(workload, Target()), auto)
    assert report.origin is Origin.DEFAULT and report.chosen == report.default
    assert "knows nothing of the GEMM on pointers" in report.reason


def test_new_shape_takes_what_the_nearest_tuned_one_has_if_the_model_agrees(auto):
    """With few looks at the model, and no compile."""
    subject = GemmSubject(GemmWorkload("gemm_rs", 4096, 4096, 1024, 2), Target())
    default = subject.space.default

    def by(realization):
        strategy = dataclasses.replace(default.strategy, realization=realization)
        return dataclasses.replace(default, strategy=strategy)

    def subject_of(*shape):
        return GemmSubject(GemmWorkload(*shape, 2), Target())

    near = [by("copy_engine"), by("ldst_dedicated")]
    remember(auto, subject_of("gemm_rs", 4096, 4096, 1088), near[0])
    remember(auto, subject_of("gemm_rs", 4096, 2048, 1024), near[1])
    remember(auto, subject_of("gemm_rs", 65536, 65536, 1024), by("tma_colocated"))
    remember(auto, subject_of("gemm_ar", 4096, 4096, 1024), by("tma_colocated"))
    report = choose(subject, auto)
    assert report.origin is Origin.NEIGHBOURS and report.considered == 3
    predicted = {
        one: subject.workload.predict(one.strategy, one.config, MACHINE).us
        for one in (default, *near)
    }
    best = min(predicted, key=predicted.__getitem__)
    gain = 1 - predicted[best] / predicted[default]
    assert report.chosen == (best if gain > 0.05 else default)


def test_nearest_of_several_shapes_comes_first(auto, tmp_path):
    """Of more than are looked at."""
    engines = [candidate(realization="copy_engine", splits=n) for n in range(1, 9)]
    cache = TuningCache(tmp_path / "near")
    auto = dataclasses.replace(auto, cache=cache)
    for n, one in enumerate(engines):
        subject = FakeSubject(size=n)
        key = Key(subject.data, MACHINE.name, "sm_90x132", syncopate.__version__)
        cache.store(Entry(key, one, "", (Measured(one, 1.0, 2.0),), {}))
    predicted = {engines[2]: 90.0, engines[5]: 10.0}
    subject = FakeSubject(size=-1, predicted=lambda one: predicted.get(one, 100.0))
    report = choose(subject, auto)
    assert report.origin is Origin.NEIGHBOURS
    assert subject.asked == [subject.space.default, *engines[:4]]
    assert report.chosen == engines[2] and report.predicted_us == 90.0


def test_choices_of_other_gpus_and_versions_are_no_neighbours(auto):
    subject = FakeSubject(size=1)
    one = candidate(realization="copy_engine")
    for gpu, version in (("NVIDIA H100", syncopate.__version__), (MACHINE.name, "0.0.1")):
        key = Key(FakeSubject(size=2).data, gpu, "sm_90x132", version)
        auto.cache.store(Entry(key, one, "", (Measured(one, 1.0, 2.0),), {}))
    assert choose(subject, auto).origin is Origin.MODEL


def test_compile_chooses_what_passes_make(auto):
    plan = syncopate.Plan("gemm_rs", [2])
    c = plan.buffer("c", (2048, 1024), "bf16")
    followed = Strategy(combine="role", direction="pull", splits=2)
    reduce_scatter_tiles(plan, c, followed)
    arguments = bind_gemm(syncopate.Tensor("a", (2048, 1024), "bf16"), 1024, GemmConfig(), c=c)
    program = syncopate.compile(gemm, plan, **arguments, strategy=auto)
    report = program.tuning
    assert report.default.strategy == followed
    assert report.chosen.config is None
    assert program.strategy.structure == followed.structure
    assert report.origin is Origin.MODEL and report.considered > 10
    assert any("templates of plan gemm_rs have followed" in why for why in report.refused)
    assert report.predicted_us <= report.default_predicted_us
    again = syncopate.compile(gemm, plan, **arguments, strategy=auto)
    assert again.tuning.origin is Origin.CACHE and again.strategy == program.strategy
    other = bind_gemm(
        syncopate.Tensor("a", (2048, 1024), "bf16"), 1024, GemmConfig(block_n=128), c=c
    )
    changed = syncopate.compile(gemm, plan, **other, strategy=auto)
    assert changed.tuning.origin is Origin.MODEL


def test_compile_asks_for_the_cost_of_other_kernels(auto):
    plan = syncopate.Plan("ag_gemm", [2])
    a = plan.buffer("a", (512, 70), "bf16", shard_axis=0)
    plan.all_gather(a, axis=0)
    config = GemmConfig(block_m=64, block_n=64, block_k=32, num_warps=4)
    arguments = bind_gemm_pointers(a, 51, config)
    program = syncopate.compile(gemm_pointers, plan, **arguments, strategy=auto)
    assert program.tuning.origin is Origin.DEFAULT
    assert "knows nothing of kernel gemm_pointers; pass Auto(cost=" in program.tuning.reason
    known = dataclasses.replace(auto, cost=KernelCost(5.0))
    program = syncopate.compile(gemm_pointers, plan, **arguments, strategy=known)
    assert program.tuning.origin is Origin.MODEL
    assert program.simulate(calls=2).verdict.ok


def test_chosen_program_computes_what_it_should(auto):
    workload = GemmWorkload("gemm_rs", 256, 128, 64, 2, "f16")
    config = GemmConfig(block_m=64, block_n=64, block_k=32, num_warps=4, num_ctas=4)
    generator = np.random.default_rng(0)
    a = [generator.standard_normal((256, 64)).astype(np.float16) for _ in range(2)]
    b = [generator.standard_normal((128, 64)).astype(np.float16) for _ in range(2)]
    subject = GemmSubject(workload, Target(), config)
    remember(
        auto,
        subject,
        dataclasses.replace(subject.space.default, strategy=Strategy(realization="copy_engine")),
    )
    program = workload.compile(auto, config=config)
    assert program.tuning.origin is Origin.CACHE
    assert program.strategy == Strategy(realization="copy_engine")
    result = program.simulate({"a": a, "b": b})
    assert result.verdict.ok, result.verdict
    right = sum(x.astype(np.float32) @ y.astype(np.float32).T for x, y in zip(a, b, strict=True))
    (outputs,) = result.outputs[0].values()
    for rank, out in enumerate(outputs):
        np.testing.assert_allclose(out, right[rank * 128 : (rank + 1) * 128], atol=0.05)


def test_machine_is_the_measured_one_or_a_preset_of_the_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("SYNCOPATE_CACHE_DIR", str(tmp_path))
    assert find_model("h200-w2", None, 4) == (MACHINE, "the machine is as given")
    assert find_model(None, "NVIDIA H200", 2)[0] == MACHINE
    assert find_model(None, "NVIDIA H200", 4)[0] == find_preset("h200-w4-predicted")
    machine, why = find_model(None, "NVIDIA H200", 3)
    assert machine == MACHINE
    assert why.startswith("the machine is h200-w2, since machine: nothing is known of 3 ranks on")
    machine, why = find_model(None, "NVIDIA H100 80GB HBM3", 16)
    assert machine == find_preset("h100-w8-predicted")
    machine, why = find_model(None, "NVIDIA GeForce GTX 480", 2)
    assert machine is None and re.match("machine: nothing is known of 2 ranks on NVIDIA GeF", why)
    measured = dataclasses.replace(MACHINE, name="measured")
    path = tmp_path / "machine.json"
    save_machine(measured, path)
    assert find_model(str(path), None, 2)[0] == measured
    path = machine_path("NVIDIA H200", 3)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    with pytest.raises(SyncopateError, match=re.escape(str(path))):
        find_model(None, "NVIDIA H200", 3)
    assert machine_id(measured) != machine_id(MACHINE) != machine_id(None) == ""


def test_hit_rate_counts_this_process(auto):
    from syncopate.tune import statistics

    before = dataclasses.replace(statistics)
    report = choose(FakeSubject(size=77), auto)
    assert (statistics.hits, statistics.misses) == (before.hits, before.misses + 1)
    again = choose(FakeSubject(size=77), auto)
    assert (statistics.hits, statistics.misses) == (before.hits + 1, before.misses + 1)
    assert report.hit_rate < again.hit_rate == statistics.hit_rate


def test_import_needs_no_torch():
    import subprocess
    import sys

    code = (
        "import sys, syncopate.tune, syncopate.workloads\n"
        "assert 'torch' not in sys.modules\n"
        "syncopate.GemmWorkload('ag_gemm', 512, 64, 64, 2)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
