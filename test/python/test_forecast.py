"""Suites without GPUs: what they would run on 4 and 8, and what the cost model says of it."""

import dataclasses
import json
import sys
import threading
import types

import pytest
from studies import ROOT, load

torch = pytest.importorskip("torch")

from syncopate.errors import SyncopateError  # noqa: E402
from syncopate.plan.sequence import Sharding  # noqa: E402
from syncopate.workloads import AttentionWorkload  # noqa: E402

forecast = load("common.forecast")
baselines = load("common.sequence_baselines")

pytestmark = pytest.mark.any_triton

RESULTS = ROOT / "docs" / "results"
CASES = {
    "gemm_ar": ["gemm", "gemm_ar", "--shapes", "llama-7b-of-", "--realizations", "tma_colocated,nccl"],
    "a2a_gemm": ["gemm", "a2a_gemm", "--shapes", "papers", "--realizations", "ldst_colocated"],
    "sequence_attention": [
        "sequence_attention", "--kinds", "double-ring", "--realizations", "ldst_colocated",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "ranks"), [("gemm_ar", 4), ("a2a_gemm", 8), ("sequence_attention", 8)]
)
def test_dry_run_says_what_would_be_measured(name, ranks, tmp_path, monkeypatch, capsys):
    script, *words = CASES[name]
    module = load(script)
    given = [
        f"benchmark/{script}.py",
        *words,
        "--dry-run",
        "--ranks",
        str(ranks),
        "--out",
        str(tmp_path),
    ]
    monkeypatch.setattr(sys, "argv", given)
    assert module.main() == 0
    stem = tmp_path / f"{name}-w{ranks}-predicted"
    data = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
    table = stem.with_suffix(".md").read_text(encoding="utf-8")
    assert capsys.readouterr().out == table
    assert forecast.PREDICTED in table and f"{ranks} H200" in table
    assert data["meta"]["command"].endswith(f"--dry-run --ranks {ranks}")
    shapes = {"gemm_ar": 4, "a2a_gemm": 2, "sequence_attention": 1}
    assert len({tuple(row["shape"]) for row in data["rows"]}) == shapes[name]
    for row in data["rows"]:
        assert row["world_size"] == ranks
        assert row["us"] > row["bound_us"] > 0
        assert row["us"] * row["efficiency"] == pytest.approx(
            max(row["gemm_us"], row["link_us"]), rel=1e-4
        )
        best = min(us for us in row["baselines"].values() if us is not None)
        assert row["us"] * row["speedup"] == pytest.approx(best, rel=1e-4)
        assert f"| {row['variant']}" in table
        # Of library calls and of attention no error was measured.
        known = script == "gemm" and not row["variant"].startswith("nccl")
        assert (row["error"] is not None) == known


def test_errors_are_those_of_the_table():
    errors = forecast.read_errors()
    table = (RESULTS / "model-error-w2-h200.md").read_text(encoding="utf-8")
    assert (
        "| gemm_rs | ldst_colocated | push | destination | 10 | 4.2% | 14 | 4.5% | +2.4% | +18.0% |"
        in table
    )
    assert errors["gemm_rs", "ldst_colocated", "push", "destination"] == forecast.ErrorBar(
        0.045, 0.18
    )
    assert errors["gemm_ar",].worst == -0.153
    assert len(errors) == 5 + sum(
        line.count("_") > 1 and line.startswith("| ") for line in table.splitlines()
    )


@pytest.mark.parametrize("ranks", [4, 8])
def test_predictions_that_are_kept_are_of_every_table(ranks):
    """Each is labelled, says its command, and would take less than ten minutes."""
    gemms = ("ag_gemm", "gemm_rs", "gemm_ar", "a2a_gemm", "gemm_a2a")
    for name in (*gemms, "sequence_attention"):
        data = json.loads((RESULTS / "predicted" / f"{name}-w{ranks}-predicted.json").read_text())
        assert forecast.PREDICTED in data["meta"]["times"]
        assert f"--ranks {ranks}" in data["meta"]["command"]
        assert data["meta"]["seconds_on_gpus"] < 600
        shapes = {tuple(row["shape"]) for row in data["rows"]}
        assert len(shapes) == (6 if name in gemms[:3] else 2 if name in gemms else 4)
        assert any(row["default"] for row in data["rows"])


class Ranks:
    """NCCL's collectives between threads, each of which is a rank."""

    def __init__(self, count):
        self.count, self.own = count, threading.local()
        self.box, self.barrier = [None] * count, threading.Barrier(count)

    def swap(self, given):
        self.box[self.own.rank] = given
        self.barrier.wait()
        told = list(self.box)
        self.barrier.wait()
        return told

    def all_to_all_single(self, out, given):
        told = self.swap(given.chunk(self.count))
        out.copy_(torch.cat([parts[self.own.rank] for parts in told]))

    def all_gather_into_tensor(self, out, given):
        out.copy_(torch.stack(self.swap(given)))

    isend, irecv = "isend", "irecv"

    def get_rank(self):
        return self.own.rank

    def get_world_size(self):
        return self.count

    def P2POp(self, *operation):  # noqa: N802
        return operation

    def batch_isend_irecv(self, moves):
        told = self.swap([(tensor, to) for what, tensor, to in moves if what == "isend"])
        receives = [(tensor, origin) for what, tensor, origin in moves if what == "irecv"]
        for place, (tensor, origin) in enumerate(receives):
            sent, to = told[origin][place]
            assert to == self.own.rank
            tensor.copy_(sent)
        return []

    def run(self, work):
        errors = []

        def rank_main(rank):
            self.own.rank = rank
            try:
                work(rank)
            except BaseException as error:
                errors.append(error)
                self.barrier.abort()

        threads = [threading.Thread(target=rank_main, args=(rank,)) for rank in range(self.count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]


def attend(q, k, v):
    scores = q.float() @ k.float().transpose(2, 3) * q.shape[3] ** -0.5
    return scores.softmax(3) @ v.float(), scores.logsumexp(3)


def launch(tensors, out, lse, head_dim, config, *, causal, positions=None):
    q, k, v = (each.view(len(each), -1, head_dim).transpose(0, 1).float()[None] for each in tensors)
    group = q.shape[1] // k.shape[1]
    places = torch.arange(q.shape[2]) if positions is None else positions
    kept = torch.arange(k.shape[2]) <= places[:, None]
    found = torch.nn.functional.scaled_dot_product_attention(
        q,
        *(each.repeat_interleave(group, 1) for each in (k, v)),
        attn_mask=kept if causal else None,
    )
    out.copy_(found[0].transpose(0, 1).flatten(1))


@pytest.mark.parametrize(
    ("kind", "heads", "more"),
    [
        ("ulysses", 6, {}),
        ("ulysses", 6, {"causal": True}),
        ("ring", 6, {}),
        ("sequence_parallel", 2, {}),
        ("sequence_parallel", 6, {"causal": True, "sharding": Sharding.ZIGZAG}),
    ],
)
def test_baselines_of_attention_are_right(kind, heads, more, monkeypatch):
    work = AttentionWorkload(kind, 6, heads, 16, 36, 3, batch=2, dtype="f16", **more)
    ranks = Ranks(3)
    monkeypatch.setattr(baselines, "dist", ranks)
    monkeypatch.setattr(baselines, "attend_by_flash", attend)
    monkeypatch.setattr(baselines, "launch", launch)
    found = {}

    def run(rank):
        data = baselines.SequenceData(work, rank, 2, torch.device("cpu"))
        base = baselines.SequenceBaselines(work, data)
        base.communicate(0)
        calls = base.calls()
        assert {"cudnn_nccl", "flash_nccl"} < set(calls)
        assert ("torch_cp" in calls) == (kind != "ulysses")
        # What needs no GPU.
        here = ("sdpa_nccl", "kernel_nccl", "ring_sdpa")
        found[rank] = {name: data.check_heads(calls[name]) for name in here if name in calls}
        # What one rank has drawn is what another takes for its own.
        own = torch.cat([data.whole[1][0][:, :, begin:end] for begin, end in data.ranges], dim=2)
        assert torch.equal(data.heads[1][1], own)
        alone = base.alone()
        whole, by_kernel = alone["sdpa"](1), data.split(alone["kernel"](1))
        assert whole.shape[2] == (36 if kind == "ulysses" else 12)
        if kind != "ulysses":
            torch.testing.assert_close(whole, by_kernel, rtol=2e-2, atol=2e-3)
        # A set that is not its own is wrong.
        assert not data.check_heads(lambda i: data.references[1 - i]) < 0.1
        own = data.references[0].permute(2, 0, 1, 3).reshape(12, -1)
        assert data.check_rows(lambda i: own, 1) == 0.0

    ranks.run(run)
    wanted = {"sdpa_nccl", "kernel_nccl"} | ({"ring_sdpa"} if kind == "ring" else set())
    for errors in found.values():
        assert set(errors) == wanted
        assert all(error < 2e-3 for error in errors.values())


def test_baseline_of_decoding_is_right(monkeypatch):
    decode = load("decode_attention")
    work = AttentionWorkload("decode", 6, 2, 16, 33, 3, batch=2)
    ranks = Ranks(3)
    monkeypatch.setattr(decode, "dist", ranks)
    monkeypatch.setattr(decode, "attend_by_flash", attend)
    found, data_of = {}, {}

    def run(rank):
        data_of[rank] = data = decode.DecodeData(work, rank, 2, torch.device("cpu"))
        base = decode.Baseline(data)
        assert base.communicate(0).shape == (3, 2, 2, 3, 16)
        found[rank] = data.check(base.call, 4)
        assert not data.check(lambda i: base.call(1 - i), 2) < 0.1

    ranks.run(run)
    assert all(error < 1e-2 for error in found.values())
    # Against all keys at once.
    for i in range(2):
        q = data_of[0].given[i][0]
        assert all(torch.equal(q, data.given[i][0]) for data in data_of.values())
        k, v = (
            torch.cat([data_of[rank].split(i)[part] for rank in range(3)], 2) for part in (1, 2)
        )
        out, _ = attend(data_of[0].split(i)[0], k, v)
        for data in data_of.values():
            torch.testing.assert_close(data.references[i], out.flatten(1), rtol=1e-4, atol=1e-5)


def test_predictions_of_a_run_are_for_the_gpu_that_is_here(monkeypatch):
    said, seen = [], []
    session = types.SimpleNamespace(rank=0, world_size=8, say=said.append)
    row = types.SimpleNamespace(variant="v", us=3.0)

    def make(machine):
        seen.append(machine.name)
        return [row]

    monkeypatch.setattr(forecast, "find_gpu", lambda: "NVIDIA H200")
    assert forecast.predict_here(session, make) == {"v": 3.0}
    assert seen[0].startswith("8 H200")

    def refuse(machine):
        raise SyncopateError("it has no curve")

    assert forecast.predict_here(session, refuse) == {}
    monkeypatch.setattr(forecast, "find_gpu", lambda: "NVIDIA GeForce GTX 480")
    assert forecast.predict_here(session, make) == {}
    assert said[0] == "no predictions: it has no curve" and "nothing is known of 8 ranks" in said[1]
    assert forecast.predict_here(types.SimpleNamespace(rank=1), make) == {} and len(seen) == 1


def test_estimate_grows_with_programs_and_calls():
    row = forecast.Forecast(
        "gemm_rs", "w", 8, (8, 8, 8), "v", True, 1e4, None, 1.0, 1e4, 1.0, 1.0, {"cublas_nccl": 2e4}
    )  # fmt: skip
    one = forecast.estimate_seconds([row], 10, 100)
    two = forecast.estimate_seconds([row, dataclasses.replace(row, variant="x")], 10, 100)
    # A program more, with its rounds and checked calls, each of ten milliseconds.
    assert two - one == pytest.approx(forecast.PROGRAM_SECONDS + 12 * 0.011 + 200 * 0.01)
