"""How `syncopate.torch` keeps programs, and how it passes weights to them. Needs torch, and no GPU."""

import contextlib
import random
import threading
import types
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("torch has no torch.distributed", allow_module_level=True)

import syncopate  # noqa: E402
from syncopate import GemmWorkload  # noqa: E402
from syncopate.agreement import Processes  # noqa: E402
from syncopate.errors import BudgetError, DeviceWaitTimeout, PeerFault, SyncopateError  # noqa: E402
from syncopate.torch import calls, programs  # noqa: E402
from syncopate.torch.layout import align, arrange_weight, is_column_major  # noqa: E402
from syncopate.workloads import GemmKind  # noqa: E402

pytestmark = pytest.mark.any_triton


class Loaded:
    """A loaded program that only knows what it is."""

    def __init__(self, workload):
        self.workload, self.closed, self.history = workload, False, [workload.m]
        self.fault = None

    def __call__(self, **tensors):
        assert not self.closed
        if self.fault is not None:
            raise self.fault
        return tensors

    synchronize = __call__

    def reschedule(self, workload, program):
        assert not self.closed
        assert (workload.n, workload.k) == (self.workload.n, self.workload.k)
        self.workload = workload
        self.history.append(workload.m)

    def close(self):
        assert not self.closed
        self.closed = True


class Kept(programs._Programs):
    """Programs of a group without one."""

    def __init__(self):
        self.world_size, self._entries, self._given_up = 2, programs.OrderedDict(), []
        self.made, self.capturing = [], False

    def _make(self, workload, strategy):
        old = self._make_room(programs._family(workload, strategy))
        if old is None:
            self.made.append(Loaded(workload))
            return programs._Entry(workload, strategy, self.made[-1])
        old.loaded.reschedule(workload, None)
        return programs._Entry(workload, strategy, old.loaded)

    def call(self, m, n=64, strategy="auto"):
        workload = GemmWorkload("gemm_rs", m, n, 64, 2)
        loaded = self.find((m, n, strategy), lambda: workload, strategy)
        assert loaded.workload == workload and not loaded.closed
        return loaded


@pytest.fixture
def kept(monkeypatch):
    made = Kept()
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: made.capturing)
    monkeypatch.setattr(programs, "_outside_of_pools", lambda make: make())
    return made


def test_a_program_is_made_once(kept):
    assert len({id(kept.call(64)) for _ in range(5)}) == 1
    assert kept.call(64, strategy="") is not kept.call(64)
    assert len(kept.made) == 2


def test_one_more_row_takes_the_place_of_the_oldest(kept):
    sizes = [2 * number for number in range(1, programs.ROWS_KEPT + 1)]
    first = {m: kept.call(m) for m in sizes}
    kept.call(sizes[0])  # So that the second one is the oldest.
    assert kept.call(1000) is first[sizes[1]]
    assert first[sizes[1]].history == [sizes[1], 1000]
    assert len(kept.made) == programs.ROWS_KEPT
    other = kept.call(1000, n=128)
    assert other is kept.made[-1] and len(kept.made) == programs.ROWS_KEPT + 1


def test_there_is_a_bound_on_programs(kept):
    for number in range(programs.PROGRAMS_KEPT + 5):
        kept.call(64, n=64 + 8 * number)
    assert Counter(loaded.closed for loaded in kept.made) == {
        True: 5,
        False: programs.PROGRAMS_KEPT,
    }
    assert [loaded.closed for loaded in kept.made[:5]] == [True] * 5


def test_what_a_graph_has_captured_stays(kept):
    with pytest.raises(SyncopateError, match="expects one call before a CUDA graph is captured"):
        kept.capturing = True
        kept.call(64)
    kept.capturing = False
    captured = kept.call(64)
    kept.capturing = True
    kept.call(64)
    kept.capturing = False
    for m in range(2, 2 * programs.ROWS_KEPT + 40, 2):
        kept.call(m)
    assert captured.history == [64] and kept.call(64) is captured
    for number in range(1, programs.PROGRAMS_KEPT + 9):
        kept.call(64, n=64 + 8 * number)
    assert not captured.closed
    kept.close()
    assert all(loaded.closed for loaded in kept.made)


def test_ranks_with_the_same_calls_keep_the_same_programs(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(programs, "_outside_of_pools", lambda make: make())
    seed = random.randrange(1 << 30)
    ranks = [Kept(), Kept()]
    draw = random.Random(seed)
    for _ in range(600):
        m, n = 2 * draw.randrange(1, 20), 8 * draw.randrange(1, 12)
        for rank in ranks:
            rank.call(m, n)
        histories = [[loaded.history for loaded in rank.made] for rank in ranks]
        assert histories[0] == histories[1], f"seed {seed}"
    assert any(len(loaded.history) > 1 for loaded in ranks[0].made)


class Compared(programs._Programs):
    """The programs of one of two ranks, which are threads; the second one cannot compile for some M."""

    def __init__(self, store, rank):
        self.world_size, self._entries, self._given_up = 2, programs.OrderedDict(), []
        self.agreement = Processes(store, rank, 2, seconds=20)
        self.rank, self.loads = rank, []

    def _choose(self, strategy):
        return self.rank

    def _load(self, workload, program):
        assert program == workload.m
        self.loads.append(Loaded(workload))
        return self.loads[-1]

    def call(self, m):
        workload = GemmWorkload("gemm_rs", m, 64, 64, 2)
        try:
            return self.find(m, lambda: workload, "").workload.m
        except SyncopateError as error:
            return str(error)


def on_two_threads(function):
    """What it makes of ranks 0 and 1."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(function, range(2)))


@pytest.fixture
def compared(monkeypatch):
    def compile_(workload, rank, *, target):
        if rank == 1 and workload.m in (32, 34):
            raise BudgetError("too large")
        return workload.m

    target = types.SimpleNamespace(num_sms=1)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(programs, "_outside_of_pools", lambda make: make())
    monkeypatch.setattr(syncopate.Target, "current", lambda: target)
    monkeypatch.setattr(GemmWorkload, "compile", compile_)
    store = torch.distributed.HashStore()
    return [Compared(store, rank) for rank in range(2)]


def test_no_rank_loads_what_another_cannot_compile(compared):
    sizes = [*range(2, 2 * programs.ROWS_KEPT, 2), 32, 16, 34, 18]
    made = on_two_threads(lambda rank: [compared[rank].call(m) for m in sizes])
    for m, first, second in zip(sizes, *made, strict=True):
        if m in (32, 34):
            name = GemmWorkload("gemm_rs", m, 64, 64, 2).name
            assert first == f"compiling {name}: failed on rank 1: BudgetError: too large"
            assert second == "too large"
        else:
            assert first == second == m
    for rank in compared:
        assert len(rank.loads) == programs.ROWS_KEPT
        assert rank.loads[0].history == [2, 18]


def test_ranks_that_would_replace_different_programs_are_told_so(compared):
    sizes = range(2, 2 * programs.ROWS_KEPT + 2, 2)
    on_two_threads(lambda rank: [compared[rank].call(m) for m in sizes])
    compared[0].call(2)
    for text in on_two_threads(lambda rank: compared[rank].call(100)):
        first, second = (GemmWorkload("gemm_rs", m, 64, 64, 2).name for m in (4, 2))
        assert (
            f"rank 1 calls with in place of {second!r}, but rank 0 with in place of {first!r}"
            in text
        )


def test_a_program_that_cannot_go_on_is_closed(compared, monkeypatch):
    def fail(loaded, workload, program):
        raise SyncopateError("does not fit")

    sizes = range(2, 2 * programs.ROWS_KEPT + 2, 2)
    on_two_threads(lambda rank: [compared[rank].call(m) for m in sizes])
    with monkeypatch.context() as patch:
        patch.setattr(Loaded, "reschedule", fail)
        assert on_two_threads(lambda rank: compared[rank].call(100)) == ["does not fit"] * 2
    for rank in compared:
        assert [loaded.closed for loaded in rank.loads] == [True] + [False] * (len(sizes) - 1)
    assert on_two_threads(lambda rank: compared[rank].call(2)) == [2, 2]


def test_a_program_is_made_behind_all_kernels_of_the_gpu(monkeypatch):
    """In another thread, whose stream is not ordered behind those of the caller."""
    order = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: order.append("synchronized"))
    monkeypatch.setattr(programs, "_ensure_context", order.append)
    caller = threading.current_thread()
    assert programs._outside_of_pools(lambda: threading.current_thread() is not caller)
    assert order == ["synchronized", 0]


FAULTS = [
    DeviceWaitTimeout("late", rank=0, signal=1, wanted=2, seen=1, epoch=3),
    PeerFault("another was late"),
]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("at_call", [False, True])
def test_a_program_of_which_a_call_has_failed_is_made_anew(
    kept, fault, captured, at_call, monkeypatch
):
    """A call, or waiting, raises what has happened once; a graph's program is not freed under it."""
    monkeypatch.setattr(programs, "_groups", {"some": kept})
    monkeypatch.setattr(programs, "_programs", {"some": kept}.get)
    a, b = torch.randn(12, 72).bfloat16(), torch.randn(72, 40).bfloat16()

    def call(rows=12):
        return calls.run(GemmKind.GEMM_RS, a[:rows], b, "some", "")

    call()
    call(8)
    programs.synchronize("other")
    programs.synchronize("some")
    if captured:
        kept.capturing = True
        call()
        kept.capturing = False
    first, other = kept.made
    first.fault = fault
    with pytest.raises(type(fault), match="late"):
        call() if at_call else programs.synchronize()
    assert first.closed == (not captured) and not other.closed
    programs.synchronize()
    call()
    call(8)
    assert len(kept.made) == 3 and kept.made[2].workload == first.workload
    programs.close_programs("some")
    assert all(loaded.closed for loaded in kept.made)


def wide(rows, columns):
    """Part of a longer matrix, so that its rows are apart."""
    return torch.randn(rows, columns + 24, dtype=torch.bfloat16)[:, :columns]


@pytest.mark.parametrize(
    ("b", "transposed", "pitch", "copied"),
    [
        (torch.randn(40, 72).bfloat16().t(), False, None, False),
        (torch.randn(72, 40).bfloat16(), True, None, False),
        (wide(40, 72).t(), False, 96, False),
        (wide(72, 40), True, 64, False),
        (torch.randn(72, 83).bfloat16()[:, :40], True, None, True),
        (torch.randn(144, 80).bfloat16()[::2, ::2], True, None, True),
        (torch.randn(72 * 40 + 1).bfloat16()[1:].view(72, 40), True, None, True),
        (torch.randn(40 * 72 + 1).bfloat16()[1:].view(40, 72).t(), False, None, True),
        (torch.randn(1, 72).bfloat16().t(), False, None, False),
        (torch.randn(1, 72).bfloat16().expand(40, 72).t(), True, None, True),
    ],
)
def test_a_weight_is_passed_as_it_lies(b, transposed, pitch, copied):
    given, is_transposed, distance = arrange_weight(b)
    assert (is_transposed, distance) == (transposed, pitch)
    assert torch.equal(given if transposed else given.t(), b)
    assert (given.data_ptr() != b.data_ptr()) == copied
    assert given.data_ptr() % 16 == 0
    row = distance or given.shape[1]
    assert given.shape[0] == 1 or given.stride() == (row, 1)
    k, n = b.shape
    if distance is not None:
        GemmWorkload("gemm_ar", 64, n, k, 2, weight_pitch=distance, transpose_b=is_transposed)


def test_weights_are_copied_in_each_call_where_the_page_says_so():
    """docs/torch.md, "Weights that are copied"; room behind rows saves it."""

    def packed(b, m):
        _, transposed, pitch = arrange_weight(b.bfloat16())
        k, n = b.shape
        workload = GemmWorkload("gemm_rs", m, n, k, 2, weight_pitch=pitch, transpose_b=transposed)
        changed = workload.packed()
        return changed.weight_pitch != workload.weight_pitch, changed.k != workload.k

    lying = (False, False)
    assert packed(torch.empty(64, 1376).t(), 4096) == (True, False)
    assert packed(torch.empty(64, 1376).t(), 4094) == lying
    assert packed(torch.empty(64, 1408).t(), 4096) == lying
    assert packed(torch.empty(64, 1379).t(), 64) == (False, True)
    assert packed(torch.empty(60, 1379).t(), 4096) == lying
    assert packed(torch.empty(1379, 64), 4096) == lying
    room = torch.empty(64, 1408, dtype=torch.bfloat16)[:, :1376]
    assert packed(room.t(), 4096) == lying


@pytest.mark.parametrize("kind", list(GemmKind))
@pytest.mark.parametrize(
    "b", [torch.randn(40, 72).t(), torch.randn(72, 40), wide(40, 72).t(), wide(72, 40)]
)
def test_a_call_is_of_the_workload_that_it_needs(kind, b, monkeypatch):
    """The program's arguments have the shapes and strides that its workload says."""
    found = []

    class Group:
        world_size = 3

        def find(self, key, make, strategy):
            found.append((key, make(), strategy))
            return lambda **tensors: tensors

    monkeypatch.setattr(programs, "_programs", lambda name: Group())
    a, b = torch.randn(12, 72).bfloat16(), b.bfloat16()
    given = calls.run(kind, a, b, "some", "auto", returns_a=kind.is_before)
    ((_, workload, strategy),) = found
    assert (workload.kind, workload.dtype, strategy) == (kind, "bf16", "auto")
    assert workload.world_size == 3 and workload.returns_a == kind.is_before
    assert workload.m == (36 if kind is GemmKind.AG_GEMM else 12)
    assert given["a"] is a and given["b"].shape == workload.weight_shape
    assert given["b"].stride() == (workload.weight_pitch or workload.weight_shape[1], 1)
    assert given["b"].data_ptr() == b.data_ptr()
    calls.run(kind, a, torch.randn(72, 48).bfloat16(), "some", "", returns_a=False)
    assert found[0][0] != found[1][0]


def test_elements_that_kernels_do_not_multiply_as_they_are_are_refused(monkeypatch):
    x = torch.randn(8, 8)
    with pytest.raises(SyncopateError, match="A: float32 is multiplied in TF32; allow it by"):
        calls.run(GemmKind.GEMM_RS, x, x, "some", "auto")
    with pytest.raises(SyncopateError, match=r"A: expects one of torch.bfloat16, .* torch.float64"):
        calls.run(GemmKind.GEMM_RS, x.double(), x.double(), "some", "auto")


def test_columns_that_touch_are_a_transposed_weight():
    assert is_column_major(torch.randn(3, 5).t())
    assert not is_column_major(torch.randn(3, 5))
    assert not is_column_major(torch.randn(6, 10)[::2, ::2])


def test_factors_are_copied_only_where_kernels_could_not_read_them():
    x = torch.randn(8, 8)
    assert align(x) is x
    shifted = torch.randn(65)[1:].view(8, 8)
    for odd in (x.t(), shifted):
        made = align(odd)
        assert torch.equal(made, odd) and made.is_contiguous() and made.data_ptr() % 16 == 0


def test_programs_of_a_destroyed_group_are_freed_when_another_one_comes(monkeypatch):
    """Whatever its name is; else they would keep its memory and communicators for ever."""
    closed = []

    class Made(programs._Programs):
        def __init__(self, group):
            self.group = group

        def close(self):
            closed.append(self.group)

    named = {}
    monkeypatch.setattr(programs, "_groups", {})
    monkeypatch.setattr(programs, "_Programs", Made)
    monkeypatch.setattr(programs, "find_group", named.get)
    world = types.SimpleNamespace(pg_map={"first": 1, "second": 1, "third": 1})
    monkeypatch.setattr(programs.distributed_c10d, "_world", world)
    named.update(a="first", b="second")
    assert programs._programs("a") is programs._programs("a")
    assert programs._programs("b").group == "second" and not closed
    del world.pg_map["first"]
    named["a"] = "third"
    assert programs._programs("a").group == "third"
    assert closed == ["first"] and set(programs._groups) == {"a", "b"}
    del world.pg_map["second"]
    named["c"] = "third"
    programs._programs("c")
    assert closed == ["first", "second"] and set(programs._groups) == {"a", "c"}
