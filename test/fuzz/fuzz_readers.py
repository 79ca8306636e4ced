"""Cases for whatever else reads a file or a text: plan files, the command line, the simulator, the compiler's cache."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import fuzz_corpus as corpus
from fuzz_grammar import write_module
from fuzz_mutate import mutate
from fuzz_outcomes import Finding, Outcome
from fuzz_passes import plan_options
from fuzz_workers import mark

from syncopate import cli
from syncopate.compiler.cache import Cache
from syncopate.errors import SyncopateError
from syncopate.plan.plan_file import lower_plan, schedule_plan
from syncopate.show import describe_schedule, draw_schedule
from syncopate.sim import check
from syncopate.sim.check import check_plan
from syncopate.sim.translate import translate

__all__ = [
    "make_cache",
    "make_command",
    "make_fused",
    "make_plan_file",
    "run_cache",
    "run_command",
    "run_fused",
    "run_plan_file",
]

SMALL = 5_000
TINY = 100


def _plan_text(draw: random.Random) -> str:
    text = draw.choice(corpus.examples()) if draw.random() < 0.5 else write_module(draw)
    if draw.random() < 0.8:
        text = mutate(draw, text, corpus.modules(), most=2)
    # What Python can hold and no file in UTF-8.
    return text + chr(0xDC80) if draw.random() < 0.01 else text


def make_plan_file(draw: random.Random) -> Any:
    """A plan in chunk IR, options of the pipeline and a file's name."""
    options = plan_options(draw)
    if draw.random() < 0.1:
        options = mutate(draw, options or "splits=2", [options])
    return _plan_text(draw), options, draw.choice(["", "p.mlir", "-", "a\\b", "é"])


def run_plan_file(draw: random.Random, made: Any) -> Outcome:
    """Schedules, describes, draws and executes a plan."""
    text, options, file = made
    try:
        if draw.random() < 0.2:
            lower_plan(text, options)
        schedule = schedule_plan(text, options, file=file)
    except SyncopateError as error:
        if not str(error).strip():
            raise Finding("refused without a message") from None
        return Outcome.REFUSED_AT_ONCE
    tiles = sum(len(tables["tiles"].values) for tables in schedule.tables)
    commands = sum(len(tables["commands"].values) for tables in schedule.tables)
    nbytes = sum(buffer.nbytes for buffer in schedule.buffers) * schedule.world_size
    if tiles + commands < SMALL and nbytes < 1 << 22:
        try:
            describe_schedule(schedule)
            draw_schedule(schedule, title="t")
            if tiles + commands < TINY:
                report = check_plan(text, options, seeds=1, file=file)
                if not report.ok:
                    raise Finding(f"what the static checks accept is not sound: {report}")
        except SyncopateError:
            return Outcome.REFUSED_LATER
    return Outcome.ACCEPTED


def make_command(draw: random.Random) -> Any:
    """A command line, and the file that it is about."""
    command = draw.choice(["explain", "show", "show", "check", "check"] * 4 + ["unknown", ""])
    words = [command, "FILE"]
    if draw.random() < 0.5:
        options = plan_options(draw, wrong=0.02)
        words += [
            "--options",
            mutate(draw, options, ["splits=2"], most=1) if draw.random() < 0.2 else options,
        ]
    if command == "check" or draw.random() < 0.05:
        # More interleavings take longer, and find no more of what a command line gets wrong.
        words += ["--seeds", draw.choice(["1"] * 13 + ["0", "-1", "1e9", "-", "²"])]
    if command == "show" or draw.random() < 0.05:
        words += ["--out", draw.choice(["OUT"] * 12 + ["/", "/none/none", "", "a\0b"])]
    if draw.random() < 0.1:
        words.pop(draw.randrange(len(words)))
    data = _plan_text(draw).encode(errors="surrogatepass")
    if draw.random() < 0.1:
        where = draw.randrange(len(data) + 1)
        data = data[:where] + bytes([draw.randrange(256)]) + data[where:]
    return words, data, draw.choice(["file"] * 9 + ["folder", "none", "\0"])


def run_command(draw: random.Random, made: Any) -> Outcome:
    """Runs `syncopate` with a command line, in this process."""
    words, data, what = made
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        file = folder / "plan.mlir"
        if what == "file":
            file.write_bytes(data)
        paths = {
            "FILE": str({"folder": folder, "none": folder / "none"}.get(what, file)),
            "OUT": str(folder / "o.svg"),
        }
        if what == "\0":
            paths["FILE"] += "\0"
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()) as told,
            # More calls take longer, too.
            mock.patch.object(check, "check_plan", functools.partial(check_plan, calls=1)),
        ):
            try:
                code = cli.main([paths.get(word, word) for word in words])
            except SystemExit as stop:
                code = int(stop.code or 0)
        if code not in (0, 1, 2):
            raise Finding(f"exit code {code}")
        if code and not told.getvalue().strip():
            raise Finding("ends with an error without a message")
        return Outcome.REFUSED_AT_ONCE if code else Outcome.ACCEPTED
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_fused(draw: random.Random) -> str:
    """The fused kernel of a program, mutated."""
    texts = corpus.programs()["fused"]
    return mutate(draw, draw.choice(texts), texts)


def run_fused(draw: random.Random, text: str) -> Outcome:
    """Translates a fused kernel for the simulator."""
    # Nothing of what follows the parser is native code.
    mark("parse")
    try:
        translate(text)
    except SyncopateError as error:
        if not str(error).strip():
            raise Finding("refused without a message") from None
        return Outcome.REFUSED_AT_ONCE
    return Outcome.ACCEPTED


def make_cache(draw: random.Random) -> Any:
    """The files of an entry, and what is done to one of them on disk."""
    files = {f"f{i}": draw.randbytes(draw.choice([0, 1, 100])) for i in range(draw.randint(0, 3))}
    damage = draw.choice(
        ["none", "flip", "cut", "grow", "remove", "add", "folder", "manifest", "link", "file"]
    )
    return files, damage, draw.randbytes(20)


def run_cache(draw: random.Random, made: Any) -> Outcome:
    """Reads a damaged entry of the compiler's cache: it is as it was, or it is none."""
    files, damage, noise = made
    root = Path(tempfile.mkdtemp(prefix="fuzz-"))
    before = os.environ.get("SYNCOPATE_CACHE_DIR")
    os.environ["SYNCOPATE_CACHE_DIR"] = str(root)
    try:
        Cache("k").store("key", files)
        entry = root / "k" / "key"
        path = draw.choice(sorted(entry.iterdir()))
        data = path.read_bytes()
        if damage == "flip" and data:
            where = draw.randrange(len(data))
            path.write_bytes(
                data[:where] + bytes([data[where] ^ (1 << draw.randrange(8))]) + data[where + 1 :]
            )
        elif damage == "cut":
            path.write_bytes(data[: draw.randrange(len(data) + 1)])
        elif damage == "grow":
            path.write_bytes(data + noise)
        elif damage == "remove":
            path.unlink()
        elif damage == "add":
            (entry / "other").write_bytes(noise)
        elif damage == "folder":
            path.unlink()
            path.mkdir()
        elif damage == "manifest":
            (entry / "manifest.json").write_bytes(
                mutate(draw, '{"f0": "ab"}', ["{}"]).encode(errors="replace")
            )
        elif damage == "link":
            path.unlink()
            path.symlink_to(root / "none")
        elif damage == "file":
            shutil.rmtree(entry)
            entry.write_bytes(noise)
        found = Cache("k").find("key")
        if found is not None and dict(found) != files:
            raise Finding("a damaged entry is taken for a whole one")
        if found is None:
            # It has to be possible to put it back.
            Cache("k").store("key", files)
            if damage != "file" and Cache("k").find("key") is None:
                raise Finding("a damaged entry stays damaged")
        return Outcome.ACCEPTED if found is not None else Outcome.REFUSED_AT_ONCE
    finally:
        if before is None:
            del os.environ["SYNCOPATE_CACHE_DIR"]
        else:
            os.environ["SYNCOPATE_CACHE_DIR"] = before
        shutil.rmtree(root, ignore_errors=True)
