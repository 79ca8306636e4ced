"""The thread that lets streams of programs go after a fault, with programs that only count."""

import gc
import weakref

import pytest

from syncopate.runtime.rescue import Watchdog

pytestmark = pytest.mark.any_triton


class Program:
    def __init__(self, steps):
        self.steps = steps

    def rescue(self):
        self.steps -= 1
        return 0.001 if self.steps > 0 else None


def watch(program):
    watchdog = Watchdog()
    # No thread: steps are taken here.
    watchdog._thread = object()
    watchdog.watch(program)
    return watchdog


def test_program_that_is_forgotten_is_let_go_all_the_same():
    """Else the stream would wait for ever, and whoever loads the next program waits for the whole GPU."""
    program = Program(4)
    seen, watchdog = weakref.ref(program), watch(program)
    assert watchdog._step_all() == 0.001
    del program
    gc.collect()
    assert seen() is not None and seen().steps == 3
    assert watchdog._step_all() == watchdog._step_all() == 0.001
    assert watchdog._step_all() == 0.05
    gc.collect()
    assert seen() is None


def test_program_without_a_fault_is_not_kept():
    program = Program(0)
    seen, watchdog = weakref.ref(program), watch(program)
    assert watchdog._step_all() == 0.05
    del program
    gc.collect()
    assert seen() is None
