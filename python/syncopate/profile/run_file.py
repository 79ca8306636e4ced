"""Runs in files, so that what was measured elsewhere can be looked at without the program."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from syncopate.abi import Realization
from syncopate.errors import SyncopateError
from syncopate.profile.run import (
    Cause,
    CauseKind,
    Key,
    LinkUse,
    Run,
    Span,
    SpanKind,
    TimeSource,
    Track,
)

__all__ = ["load_runs", "save_runs"]

_FORMAT: Final = "syncopate runs 1"


def save_runs(runs: Sequence[Run], path: Path) -> None:
    """Writes runs to a file of JSON.

    Raises:
        SyncopateError: It cannot be written.
    """
    data = {"format": _FORMAT, "runs": [_of_run(run) for run in runs]}
    try:
        path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
    except OSError as error:
        raise SyncopateError(f"path: cannot write {path}: {error.strerror}") from None


def load_runs(text: str, file: str = "the file") -> list[Run]:
    """Reads what `save_runs` has written.

    Raises:
        SyncopateError: The text is nothing of that kind.
    """
    try:
        data = json.loads(text)
        if data["format"] != _FORMAT:
            raise SyncopateError(
                f"{file}: expects a file in the format {_FORMAT!r}, but got {data['format']!r}"
            )
        return [_to_run(run) for run in data["runs"]]
    except (
        AttributeError,
        IndexError,
        KeyError,
        OverflowError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise SyncopateError(
            f"{file}: expects runs as `Profile.save` writes them, but cannot read it: {error!r}"
        ) from None


def _of_key(key: Key | None) -> list[Any] | None:
    return None if key is None else [key.kind.value, key.rank, key.number]


def _to_key(data: Any) -> Key | None:
    return None if data is None else Key(SpanKind(data[0]), int(data[1]), int(data[2]))


def _of_run(run: Run) -> dict[str, Any]:
    # Many waits have one cause, and causes may have many makers.
    causes: dict[Cause, int] = {}
    tracks = []
    for track in run.tracks:
        spans = [
            [
                span.kind.value,
                round(span.begin_us, 3),
                round(span.end_us, 3),
                span.name,
                _of_key(span.key),
                None if span.cause is None else causes.setdefault(span.cause, len(causes)),
                span.source,
            ]
            for span in track.spans
        ]
        tracks.append(
            {
                "rank": track.rank,
                "role": None if track.role is None else track.role.spelling,
                "cta": track.cta,
                "sm": track.sm,
                "begin": round(track.begin_us, 3),
                "end": round(track.end_us, 3),
                "spans": spans,
                "dropped": track.dropped,
            }
        )
    return {
        "name": run.name,
        "source": run.source.value,
        "clock": run.clock,
        "us": round(run.us, 3),
        "world_size": run.world_size,
        "num_ctas": run.num_ctas,
        "causes": [
            [cause.kind.name, cause.rank, cause.words, [_of_key(key) for key in cause.makers]]
            for cause in causes
        ],
        "tracks": tracks,
        "links": [[link.src, link.dst, link.moves] for link in run.links],
    }


def _to_run(data: Any) -> Run:
    causes = [
        Cause(
            CauseKind[kind],
            int(rank),
            str(words),
            tuple(key for m in makers if (key := _to_key(m))),
        )
        for kind, rank, words, makers in data["causes"]
    ]
    tracks = [
        Track(
            int(track["rank"]),
            None if track["role"] is None else Realization[track["role"].upper()],
            track["cta"],
            track["sm"],
            float(track["begin"]),
            float(track["end"]),
            tuple(
                Span(
                    SpanKind(kind),
                    float(begin),
                    float(end),
                    str(name),
                    _to_key(key),
                    None if cause is None else causes[cause],
                    source,
                )
                for kind, begin, end, name, key, cause, source in track["spans"]
            ),
            int(track["dropped"]),
        )
        for track in data["tracks"]
    ]
    links = [
        LinkUse(int(src), int(dst), tuple((float(b), float(e), int(n)) for b, e, n in moves))
        for src, dst, moves in data["links"]
    ]
    return Run(
        str(data["name"]),
        TimeSource(data["source"]),
        str(data["clock"]),
        float(data["us"]),
        int(data["world_size"]),
        int(data["num_ctas"]),
        tuple(tracks),
        tuple(links),
    )
