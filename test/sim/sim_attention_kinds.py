"""Attention workloads of all kinds, with what they are to give in float64."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sim_compile import MACHINE_CODE
from sim_sequences import attend

import syncopate
from syncopate.kernels import AttentionConfig, DecodeConfig
from syncopate.plan.sequence import Sharding
from syncopate.workloads import AttentionKind, AttentionWorkload

__all__ = ["KINDS", "KindCase"]

Array = np.ndarray[Any, Any]
_SMALL = AttentionConfig(block_m=64, block_n=32, num_warps=4, num_stages=2, num_ctas=3)
_DECODE = DecodeConfig(parts=2, block_n=32, num_warps=4, num_stages=2, num_ctas=3)
_STRATEGY = syncopate.Strategy()


@dataclass(frozen=True)
class KindCase:
    """A workload, and how it is carried out."""

    workload: AttentionWorkload
    strategy: syncopate.Strategy = _STRATEGY
    config: AttentionConfig | DecodeConfig = _SMALL

    @functools.cache  # noqa: B019
    def build(self) -> Any:
        """Compiles it, once."""
        return self.workload.compile(self.strategy, config=self.config, machine_code=MACHINE_CODE)

    def draw(self, seed: int, calls: int) -> list[dict[str, list[Array]]]:
        """Random inputs of some calls, as `simulate` takes them."""
        generator = np.random.default_rng(seed)
        is_decode = self.workload.kind is AttentionKind.DECODE
        return [(self._draw_decode if is_decode else self._draw)(generator) for _ in range(calls)]

    def _draw(self, generator: np.random.Generator) -> dict[str, list[Array]]:
        work, shards = self.workload, self.workload.shards
        widths = {"q": work.row[0], "k": work.row[1], "v": work.row[1]}
        given: dict[str, list[Array]] = {name: [] for name in widths}
        for name, width in widths.items():
            whole = generator.standard_normal((work.sequence, width)).astype(np.float16)
            for rank in range(work.world_size):
                ranges = shards.ranges(rank)
                if name == "q" and work.kind is not AttentionKind.ULYSSES:
                    places = shards.positions(rank)
                    given[name].append(np.where(places[:, None] >= 0, whole[places], 0))
                else:
                    # Of several blocks the simulator takes each from where it belongs.
                    rows = slice(*ranges[0]) if ranges else slice(0)
                    given[name].append(whole if len(ranges) > 1 else whole[rows])
        for rank in range(work.world_size):
            for name, table in work.tables(rank, self.config).items():
                given.setdefault(name, []).append(table)
        return given

    def _draw_decode(self, generator: np.random.Generator) -> dict[str, list[Array]]:
        work = self.workload
        ranks, rows = range(work.world_size), work.batch * work.capacity
        q = generator.standard_normal((work.batch, work.row[0])).astype(np.float16)
        lengths = [generator.integers(0, work.capacity + 1, work.batch) for _ in ranks]
        # One rank has none of the first sequence's keys, and nobody any of the last one's.
        lengths[0][0] = 0
        given = {"q": [q for _ in ranks], "lengths": [own.astype(np.int32) for own in lengths]}
        for own in given["lengths"]:
            own[-1] = 0
        for name in "kv":
            given[name] = [
                generator.standard_normal((rows, work.row[1])).astype(np.float16) for _ in ranks
            ]
            for own, keys in zip(given["lengths"], given[name], strict=True):
                for sequence, length in enumerate(own):
                    # What is behind a sequence's keys may be anything.
                    keys[sequence * work.capacity + length : (sequence + 1) * work.capacity] = (
                        np.nan
                    )
        return given

    def errors(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> tuple[float, float]:
        """The largest differences of outputs and of logarithms from float64, of rows that stand for an element."""
        if self.workload.kind is AttentionKind.DECODE:
            return self._errors_of_decode(inputs, outputs)
        work, shards = self.workload, self.workload.shards
        whole = {name: np.zeros((work.sequence, inputs[name][0].shape[1])) for name in "qkv"}
        worst = [0.0, 0.0]
        for name, all_rows in whole.items():
            for rank, own in enumerate(inputs[name]):
                for number, (begin, end) in enumerate(shards.ranges(rank)):
                    in_place = name != "q" and len(shards.ranges(rank)) > 1
                    row = begin if in_place else number * shards.block
                    all_rows[begin:end] = own[row : row + end - begin]
        bounds = work.cu_seqlens or (0, work.sequence)
        wanted, logs = (
            np.zeros(whole["q"].shape),
            np.zeros((work.batch * work.heads, work.sequence)),
        )
        for begin, end in itertools.pairwise(bounds):
            if begin == end:
                continue
            places = np.arange(end - begin) if work.causal else None
            parts = (whole[name][begin:end] for name in "qkv")
            wanted[begin:end], logs[:, begin:end] = attend(*parts, places, work.head_dim)
        heads = len(logs) // work.world_size
        for rank in range(work.world_size):
            places = shards.positions(rank)
            has = places >= 0
            out, lse = outputs["o"][rank], np.asarray(outputs["lse"][rank])
            if work.kind is AttentionKind.ULYSSES:
                differences = lse - logs[rank * heads : (rank + 1) * heads]
                out_differences = out - wanted[places[has]]
            else:
                differences = lse[:, has] - logs[:, places[has]]
                out_differences = out[has] - wanted[places[has]]
            for index, found in enumerate((out_differences, differences)):
                worst[index] = float(np.maximum(worst[index], np.abs(found).max(initial=0)))
        return worst[0], worst[1]

    def _errors_of_decode(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> tuple[float, float]:
        work, worst = self.workload, [0.0, 0.0]
        for sequence in range(work.batch):
            first = sequence * work.capacity
            k, v = (
                np.concatenate(
                    [
                        own[first : first + lengths[sequence]]
                        for own, lengths in zip(inputs[name], inputs["lengths"], strict=True)
                    ]
                )
                for name in "kv"
            )
            q = inputs["q"][0][sequence : sequence + 1]
            if len(k):
                out, lse = attend(q, k, v, None, work.head_dim)
            else:
                out, lse = np.zeros(q.shape), np.full((work.heads, 1), -np.inf)
            for rank in range(work.world_size):
                found = outputs["lse"][rank][sequence]
                if not len(k):
                    assert (found == -np.inf).all()
                    found = lse[:, 0] = 0
                worst[0] = float(
                    np.maximum(worst[0], np.abs(outputs["o"][rank][sequence] - out[0]).max())
                )
                worst[1] = float(np.maximum(worst[1], np.abs(found - lse[:, 0]).max()))
        return worst[0], worst[1]


def _workload(kind: str, heads: int, kv_heads: int, sequence: int, world: int, **more: Any) -> Any:
    return AttentionWorkload(kind, heads, kv_heads, 64, sequence, world, dtype="f16", **more)


def _strategy(**choices: Any) -> syncopate.Strategy:
    return syncopate.Strategy(**choices, comm_ctas=2)


KINDS: dict[str, KindCase] = {
    # Sequences end within tiles, steps and shards; one has one element.
    "packed ring, causal": KindCase(
        _workload("ring", 2, 1, 205, 3, causal=True, cu_seqlens=(0, 17, 90, 91, 205))
    ),
    "packed batch of two": KindCase(
        _workload("sequence_parallel", 2, 1, 205, 2, batch=2, cu_seqlens=(0, 70, 128, 205))
    ),
    # A CTA begins more loops, with mbarriers of their own, than there is room for at a time.
    "packed batch of three, many sequences": KindCase(
        _workload("sequence_parallel", 2, 1, 41, 2, batch=3, cu_seqlens=(0, 9, 15, 17, 20, 41))
    ),
    # All keys are in one step, and some ranks have no rows.
    "causal ring, ranks without rows": KindCase(_workload("ring", 2, 1, 5, 8, causal=True)),
    "packed, ranks without rows": KindCase(
        _workload("sequence_parallel", 2, 1, 5, 8, cu_seqlens=(0, 2, 2, 3, 5))
    ),
    "causal, ranks without rows, several steps": KindCase(
        _workload("sequence_parallel", 2, 1, 41, 7, causal=True, batch=2)
    ),
    # A tile has queries of a rank's first block, and the second one is empty.
    "causal zig-zag, empty blocks": KindCase(
        _workload("ring", 2, 1, 33, 8, causal=True, sharding=Sharding.ZIGZAG)
    ),
    "packed double ring, ragged": KindCase(
        _workload("ring", 2, 1, 205, 6, causal=True, node_size=3, cu_seqlens=(0, 17, 90, 91, 205))
    ),
    "packed zig-zag of eight": KindCase(
        _workload("ring", 2, 1, 509, 8, sharding=Sharding.ZIGZAG, cu_seqlens=(0, 100, 101, 509)),
        _strategy(direction="pull"),
    ),
    "groups of three heads": KindCase(_workload("ring", 6, 2, 70, 3, causal=True)),
    "seven heads, a key for each rank": KindCase(_workload("sequence_parallel", 7, 7, 3, 3)),
    "packed, one for each rank": KindCase(
        _workload("ring", 2, 1, 192, 3, cu_seqlens=(0, 64, 128, 192))
    ),
    "packed zig-zag": KindCase(
        _workload(
            "ring", 2, 1, 251, 2, causal=True, sharding=Sharding.ZIGZAG, cu_seqlens=(0, 100, 251)
        ),
        _strategy(direction="pull"),
    ),
    "ulysses, causal": KindCase(_workload("ulysses", 4, 2, 135, 2, causal=True)),
    "ulysses, pulled": KindCase(
        _workload("ulysses", 3, 3, 130, 3),
        _strategy(direction="pull", realization="ldst_dedicated"),
    ),
    "ulysses, batch of two, heads of keys at two ranks": KindCase(
        _workload("ulysses", 4, 1, 130, 4, batch=2, causal=True), _strategy(splits=2)
    ),
    "ulysses, a rank without rows": KindCase(_workload("ulysses", 4, 4, 5, 4, causal=True)),
    "ulysses by tma": KindCase(
        _workload("ulysses", 2, 2, 101, 2, causal=True), _strategy(realization="tma_dedicated")
    ),
    "ulysses by engines": KindCase(
        _workload("ulysses", 2, 2, 101, 2), _strategy(realization="copy_engine")
    ),
    "decode": KindCase(_workload("decode", 4, 2, 139, 2, batch=3), config=_DECODE),
    "decode, fewer keys than ranks": KindCase(
        _workload("decode", 7, 7, 3, 4, batch=2), config=_DECODE
    ),
    "decode, pulled": KindCase(
        _workload("decode", 6, 1, 150, 3, batch=2), _strategy(direction="pull"), _DECODE
    ),
    "decode, four ranks": KindCase(
        _workload("decode", 2, 2, 211, 4, batch=2),
        _strategy(realization="ldst_dedicated", splits=2),
        _DECODE,
    ),
}
