"""What has to hold of the profile of a call on GPUs, on ranks of one GPU and on GPUs of their own."""

from __future__ import annotations

from typing import Any

from syncopate import GemmWorkload, Strategy
from syncopate.kernels import GemmConfig
from syncopate.profile import Profile, SpanKind, TimeSource, find_critical_path

STEP_US = 1.1
"""A step of the GPU's clock, which on some GPUs goes on once in about a microsecond."""
LIMIT_US = 1e6
"""No call of these sizes takes so long, not even on ranks that share a GPU."""


def profiled_program(kind: str, realization: str, world: int, ctas: int) -> Any:
    """A GEMM of some rounds of tiles that leaves records."""
    workload = GemmWorkload(kind, m=2048, n=1024, k=512, world_size=world)
    strategy = Strategy(realization=realization, splits=4, comm_ctas=4)
    config = GemmConfig(block_n=128, num_ctas=ctas)
    return workload.compile(strategy, config=config, profile=True, timeout=10.0)


def check_profile(program: Any, profile: Profile, *, within_us: float) -> None:
    """Every tile once, times in order on each lane, and waits that end behind what they are for.

    Args:
        program: What has run.
        profile: Of one call.
        within_us: By how much clocks may be wrong.
    """
    run = profile.run
    assert len(profile.runs) == 1 and profile.dropped == 0
    assert run.source is TimeSource.MEASURED and 0 < run.us < LIMIT_US
    ends: dict[Any, float] = {}
    for rank in range(program.world_size):
        tiles = []
        for track in run.of_rank(rank):
            spans = list(track.spans)
            assert all(0 <= span.begin_us <= span.end_us <= run.us + within_us for span in spans)
            begins = [span.begin_us for span in track.of_kind(SpanKind.TILE)]
            assert begins == sorted(begins)
            tiles += [span.key.number for span in track.of_kind(SpanKind.TILE) if span.key]
            for span in spans:
                if span.key is not None:
                    ends[span.key] = max(ends.get(span.key, 0.0), span.end_us)
        assert sorted(tiles) == list(range(len(program.rank_tables(rank)["tiles"].values)))
    for track in run.tracks:
        for wait in track.of_kind(SpanKind.WAIT):
            made = [ends[key] for key in wait.cause.makers if key.kind is SpanKind.TRANSFER]
            assert all(wait.end_us >= end - within_us for end in made)
    assert find_critical_path(run)
    for rank in range(program.world_size):
        multiprocessors = {track.cta: track.sm for track in run.of_rank(rank)}
        assert len(multiprocessors) > 1 and len(set(multiprocessors.values())) > 1
    text = profile.explain()
    assert "measured" in text and "what to try:" in text
    assert len(profile.to_html()) > 10_000
