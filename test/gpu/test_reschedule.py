"""A loaded program that goes on with schedules for other numbers of rows: same code, same memory, right results."""

import random

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
import torch
from workloads import TOLERANCE, random_matrix

import syncopate
from syncopate.choices import Combine
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.templates import reduce_scatter_tiles
from syncopate.runtime import cuda, load

pytestmark = pytest.mark.gpu(1)

WORLD, N, K = 2, 256, 128
MOST = 1536
CONFIG = GemmConfig(block_n=128, num_ctas=24)


def build(workload, realization, m):
    strategy = syncopate.Strategy(realization=realization, comm_ctas=4, combine=Combine.ROLE)
    plan = syncopate.Plan(workload, [WORLD])
    if workload == "gather":
        a = plan.buffer("a", (m, K), "bf16", shard_axis=0)
        plan.all_gather(a)
        return syncopate.compile(gemm, plan, **bind_gemm(a, N, CONFIG), strategy=strategy)
    c = plan.buffer("c", (m, N), "bf16")
    reduce_scatter_tiles(plan, c, strategy)
    a = syncopate.Tensor("a", (m, K), "bf16")
    return syncopate.compile(gemm, plan, **bind_gemm(a, N, CONFIG, c=c), strategy=strategy)


def check(loaded, workload, m, calls=20):
    weights = [random_matrix((N, K), 50 + rank) for rank in range(WORLD)]
    for call in range(calls):
        if workload == "gather":
            whole = random_matrix((m, K), 1000 * m + call)
            inputs = list(whole.split(-(-m // WORLD)))
            expected = [whole.float() @ b.float().T for b in weights]
        else:
            inputs = [random_matrix((m, K), 1000 * m + 2 * call + rank) for rank in range(WORLD)]
            parts = (a.float() @ b.float().T for a, b in zip(inputs, weights, strict=True))
            expected = sum(parts).split(-(-m // WORLD))
        outputs = loaded(a=inputs, b=weights)
        for out, right in zip(outputs, expected, strict=True):
            error = ((out.float() - right).norm() / right.norm()).item()
            assert error < TOLERANCE, f"{m} rows, call {call}: {error}"
    loaded.synchronize()


@pytest.mark.parametrize("realization", ["ldst_colocated", "copy_engine", "tma_dedicated"])
@pytest.mark.parametrize("workload", ["gather", "sum"])
def test_other_numbers_of_rows_need_no_other_code(groups, workload, realization, monkeypatch):
    loads = []
    original = cuda.load_function
    monkeypatch.setattr(cuda, "load_function", lambda *a: loads.append(a[1]) or original(*a))
    seed = random.randrange(1 << 30)
    draw = random.Random(seed)
    sizes = [WORLD * draw.randrange(8, MOST // WORLD) for _ in range(8)]
    with load(build(workload, realization, MOST), groups(WORLD)) as loaded:
        check(loaded, workload, MOST, calls=3)
        fused = [name for name in loads if name != "guard"]
        memory = loaded.buffer("a" if workload == "gather" else "c", 0).data_ptr()
        for m in sizes:
            loaded.reschedule(build(workload, realization, m))
            check(loaded, workload, m)
            buffer = loaded.buffer("a" if workload == "gather" else "c", 0)
            assert abs(buffer.data_ptr() - memory) < 1 << 16, f"seed {seed}"
        assert [name for name in loads if name != "guard"] == fused, f"seed {seed}"


def test_memory_grows_with_the_program(groups):
    with load(build("gather", "ldst_colocated", 256), groups(WORLD)) as loaded:
        for m in (256, 1024, 512, 1536):
            loaded.reschedule(build("gather", "ldst_colocated", m))
            check(loaded, "gather", m, calls=3)


def test_another_number_of_ranks_is_refused(groups):
    with load(build("gather", "ldst_colocated", 256), groups(WORLD)) as loaded:
        plan = syncopate.Plan("gather", [3])
        a = plan.buffer("a", (384, K), "bf16", shard_axis=0)
        plan.all_gather(a)
        other = syncopate.compile(gemm, plan, **bind_gemm(a, N, CONFIG))
        with pytest.raises(syncopate.SyncopateError, match="program: expects one for 2 ranks"):
            loaded.reschedule(other)
        check(loaded, "gather", 256, calls=2)


def test_a_graph_cannot_change_its_program(groups):
    program = build("gather", "ldst_colocated", 256)
    with load(program, groups(WORLD)) as loaded:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
            torch.zeros(8, device="cuda")
            with pytest.raises(syncopate.SyncopateError, match="while a CUDA graph is captured"):
                loaded.reschedule(program)
