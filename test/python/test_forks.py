"""What a forked process may do with what its parent has loaded, with stand-ins for the GPU."""

import json
import os
import select
import threading

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from test_runtime_lifetime import Group, program, streams  # noqa: E402, F401
from test_torch_programs import Loaded, kept  # noqa: E402, F401

from syncopate import GemmWorkload, agreement, forks  # noqa: E402
from syncopate.errors import SyncopateError  # noqa: E402
from syncopate.runtime import cuda  # noqa: E402
from syncopate.runtime.loaded import LoadedProgram  # noqa: E402
from syncopate.runtime.process_group import _Shared  # noqa: E402
from syncopate.torch import programs  # noqa: E402

pytestmark = [
    pytest.mark.any_triton,
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]

SECONDS = 30


def in_child(*bodies):
    """What each of them raises, as text, or else gives, in a process that is forked from this one."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        told = []
        for body in bodies:
            try:
                told.append(body())
            except BaseException as error:
                told.append(f"{type(error).__name__}: {error}")
        os.write(writing, json.dumps(told).encode())
        os._exit(0)
    os.close(writing)
    came, _, _ = select.select([reading], [], [], SECONDS)
    if not came:
        os.kill(child, 9)
    text = os.read(reading, 1 << 16)
    os.close(reading)
    os.waitpid(child, 0)
    assert came, f"the forked process has not ended within {SECONDS} s"
    return json.loads(text)


def refusal(what):
    return f"SyncopateError: {what} is of process {os.getpid()}, and this one, "


def test_a_loaded_program_serves_only_the_process_that_has_loaded_it(streams, monkeypatch):  # noqa: F811
    monkeypatch.setattr("test_runtime_lifetime.WORLD", 1)
    group = Group(dist.HashStore(), 0)
    found = program(5000)
    found.world_size = group.world_size = 1
    with LoadedProgram(found, group) as loaded:
        uses = [
            loaded,
            loaded.synchronize,
            loaded.acquire,
            lambda: loaded.reschedule(found),
            lambda: group.allocate(64),
            group.barrier,
            lambda: LoadedProgram(found, group),
        ]
        *told, closed = in_child(*uses, loaded.close)
        refused = ["a loaded program"] * 4
        refused += ["symmetric memory", "the process group's store", "symmetric memory"]
        for text, what in zip(told, refused, strict=True):
            assert text.startswith(refusal(what))
            assert "start processes by multiprocessing's 'spawn'" in text
        assert closed is None
        assert loaded().numel() == 64


def test_operators_say_it_before_they_wait_for_anything(kept, monkeypatch):  # noqa: F811
    """Also where another thread had the lock when the process was forked."""
    monkeypatch.setattr(programs, "_groups", {"some": kept})
    made = Loaded(GemmWorkload("gemm_rs", 64, 64, 64, 2))
    kept._entries["key"] = programs._Entry(made.workload, "", made)
    process = forks.this_process()
    made.synchronize = lambda: forks.expect_process(process, "a loaded program")
    x = torch.zeros(2, 2)
    locked, done = threading.Event(), threading.Event()

    def hold():
        with programs._lock:
            locked.set()
            done.wait(SECONDS)

    thread = threading.Thread(target=hold)
    thread.start()
    locked.wait(SECONDS)

    def call():
        monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
        programs.call("some", "key", lambda world: made.workload, "", a=x)

    waited, called = in_child(programs.synchronize, call)
    done.set()
    thread.join()
    assert waited.startswith(refusal("a loaded program"))
    assert called.startswith("SyncopateError: torch has used GPUs in another process, and this one")


def test_the_driver_and_communicators_stay_with_their_process(monkeypatch):
    class Communicator:
        def abort(self):
            raise AssertionError("aborted")

    shared = _Shared()
    shared.communicators[0, 0] = Communicator()
    found = object(), forks.this_process()
    monkeypatch.setattr(cuda, "_library", lambda: found)
    cuda.function.cache_clear()
    told = in_child(shared.abort, lambda: cuda.function("cuInit"))
    assert told[0] is None and told[1].startswith(refusal("the CUDA driver"))
    with pytest.raises(AttributeError):
        cuda.function("cuInit")


def test_a_process_that_is_forked_first_is_one_like_others():
    def body():
        known = agreement.Processes(dist.HashStore(), 0, 1)
        forks.expect_gpus()
        return known.exchange("here", 5)

    assert in_child(body) == [[5]]


def test_gpus_of_torch_are_refused_before_a_group_is_made(monkeypatch):
    from syncopate.runtime import LocalGroup, ProcessGroup

    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    for make in (ProcessGroup, lambda: LocalGroup(2)):
        with pytest.raises(SyncopateError, match="torch has used GPUs in another process"):
            make()
