"""The attention kernel alone, in several configurations, against what torch has.

    torchrun --nproc-per-node 1 benchmark/attention.py [--shapes 8192x32x8x128,…] [--only bm128] [--out docs/results]

A shape is the sequence, the heads of queries, those of keys and values, and the elements of a head. Each is measured
with a causal mask and without. Writes `<out>/attention-w1-<gpu>.json` and `.md`. Exits with 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from benchmark.common import report
from benchmark.common.attention_kernel import launch
from torch.nn.attention import SDPBackend, sdpa_kernel

from syncopate.kernels import AttentionConfig
from syncopate.runtime.session import Session
from syncopate.runtime.timing import Candidate

SUITE = "attention"
SETS = 3
TOLERANCE = 1e-2
"""An output that is off by more, relative to the reference, is wrong: weights and outputs have 8 bits."""

LSE_TOLERANCE = 1e-3
SHAPES = ("8192x32x32x128", "8192x32x8x128", "8192x32x32x64", "4096x16x16x256")
BACKENDS = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}

Shape = tuple[int, int, int, int]


def name_config(config: AttentionConfig) -> str:
    """For tables; `x2` says that two CTAs share a multiprocessor."""
    blocks = f"bm{config.block_m}-bn{config.block_n}"
    return f"{blocks}-w{config.num_warps}-s{config.num_stages}-x{config.ctas_per_sm}"


def list_configs(head_dim: int, causal: bool) -> list[AttentionConfig]:
    """The configuration that is chosen where no role is beside tiles, and others that fit."""
    blocks = {
        64: (
            (128, 128, 8, 3, 1),
            (128, 128, 4, 3, 2),
            (128, 64, 8, 4, 2),
            (128, 64, 4, 4, 2),
            (64, 128, 4, 3, 2),
            (64, 128, 4, 2, 2),
        ),
        128: (
            (128, 64, 8, 3, 1),
            (128, 64, 8, 4, 1),
            (128, 64, 8, 5, 1),
            (128, 128, 8, 3, 1),
            (128, 64, 4, 2, 2),
            (64, 64, 4, 2, 2),
            (64, 64, 4, 3, 2),
        ),
        256: ((128, 64, 8, 2, 1), (128, 32, 8, 2, 1), (128, 32, 8, 3, 1), (64, 32, 4, 2, 2)),
    }
    chosen = AttentionConfig.choose(head_dim)
    others = [
        AttentionConfig(bm, bn, warps, stages, ctas_per_sm=per_sm)
        for bm, bn, warps, stages, per_sm in blocks[head_dim]
    ]
    return [chosen, *(config for config in others if config != chosen)]


class Data:
    """Random inputs in a few sets, and what comes of each in float32."""

    def __init__(self, shape: Shape, causal: bool) -> None:
        self.length, self.heads, self.kv_heads, self.head_dim = shape
        self.causal = causal
        generator = torch.Generator("cuda").manual_seed(0)
        widths = (self.heads, self.kv_heads, self.kv_heads)
        self.sets = [
            tuple(
                torch.randn(
                    (self.length, heads * self.head_dim), generator=generator, device="cuda"
                ).bfloat16()
                for heads in widths
            )
            for _ in range(SETS)
        ]
        self.references = [self._reference(*given) for given in self.sets]
        self.split = [tuple(self._split(x) for x in given) for given in self.sets]

    @property
    def flops(self) -> float:
        """Of both products; with a mask, half of them."""
        pairs = self.length * self.length / (2 if self.causal else 1)
        return 4 * pairs * self.heads * self.head_dim

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        """As torch's operators take it: [1, heads, sequence, head_dim]."""
        return x.view(self.length, -1, self.head_dim).transpose(0, 1).contiguous()[None]

    def _reference(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Outputs and logarithms, a head at a time."""
        out, lse = torch.empty(q.shape, device="cuda"), []
        mask = torch.ones((self.length, self.length), dtype=torch.bool, device="cuda").tril()
        for head in range(self.heads):
            group = head // (self.heads // self.kv_heads)
            own, shared = (slice(i * self.head_dim, (i + 1) * self.head_dim) for i in (head, group))
            scores = q[:, own].float() @ k[:, shared].float().T * self.head_dim**-0.5
            if self.causal:
                scores.masked_fill_(~mask, float("-inf"))
            lse.append(scores.logsumexp(1))
            out[:, own] = scores.softmax(1) @ v[:, shared].float()
        return out, torch.stack(lse)

    def check(self, call: Callable[[int], tuple[torch.Tensor, torch.Tensor | None]]) -> float:
        """The largest relative error of an output; infinity if logarithms are wrong."""
        worst = 0.0
        for i, (out, lse) in enumerate(self.references):
            found, logs = call(i)
            error = float((found.float() - out).norm() / out.norm())
            if logs is not None and not float((logs - lse).abs().max()) < LSE_TOLERANCE:
                error = float("inf")
            # A NaN would get lost in a maximum.
            worst = max(worst, error if error == error else float("inf"))
        return worst


def run_kernel(
    data: Data, config: AttentionConfig
) -> Callable[[int], tuple[torch.Tensor, torch.Tensor]]:
    """The kernel under plain Triton, by the number of a set."""
    out = torch.empty_like(data.sets[0][0])
    lse = torch.empty((data.heads, data.length), device="cuda")

    def call(i: int) -> tuple[torch.Tensor, torch.Tensor]:
        launch(data.sets[i], out, lse, data.head_dim, config, causal=data.causal)
        return out, lse

    return call


def run_torch(data: Data, backend: SDPBackend) -> Callable[[int], tuple[torch.Tensor, None]]:
    """One of torch's operators, by the number of a set; outputs as ours are."""

    def call(i: int) -> tuple[torch.Tensor, None]:
        q, k, v = data.split[i]
        with sdpa_kernel(backend):
            out = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=data.causal, enable_gqa=data.heads != data.kv_heads
            )
        return out[0].transpose(0, 1).flatten(1), None

    return call


def _only_output(call: Callable[[int], tuple[torch.Tensor, Any]], i: int) -> torch.Tensor:
    return call(i)[0]


def measure(session: Session, shape: Shape, causal: bool, options: argparse.Namespace) -> Any:
    """The rows of a shape, and whether all results were right."""
    data = Data(shape, causal)
    name = "x".join(map(str, shape)) + ("-causal" if causal else "")
    calls: dict[str, Callable[[int], Any]] = {
        name: run_torch(data, backend) for name, backend in BACKENDS.items()
    }
    configs = list_configs(data.head_dim, causal)
    calls |= {name_config(config): run_kernel(data, config) for config in configs}
    errors: dict[str, float] = {}
    for way, call in calls.items():
        if way not in BACKENDS and options.only not in way:
            continue
        error = session.attempt(f"{name} {way}", functools.partial(data.check, call))
        if error is not None:
            errors[way] = error
    wrong = [way for way, error in errors.items() if not error < TOLERANCE]
    for way in wrong:
        session.say(f"WRONG {name} {way}: relative error {errors[way]:.2e}")
    timed = [
        Candidate(way, functools.partial(_only_output, calls[way]))
        for way in errors
        if way not in wrong
    ]
    session.compare(timed, options.rounds, SETS)
    best = min((way.us for way in timed if way.name in BACKENDS), default=None)
    rows = [
        {
            "shape": name,
            "variant": way.name,
            "default": way.name == name_config(configs[0]),
            "us": round(way.us, 1),
            "tflops": round(data.flops / way.us / 1e6, 1),
            "speedup": None if best is None else round(best / way.us, 3),
            "rel_err": float(f"{errors[way.name]:.2e}"),
        }
        for way in timed
    ]
    return rows, not [way for way in wrong if way not in BACKENDS]


def main() -> int:
    """Measures and writes; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", default=",".join(SHAPES), help="SxHxKVxD, comma-separated")
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds")
    parser.add_argument("--only", default="", help="only configurations whose name has this")
    parser.add_argument("--commit", default="", help="what to write down as the commit")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    session = Session()
    meta = report.describe_run(session.world_size, options.commit)
    stem = options.out / report.file_stem(SUITE, session.world_size, meta["gpu"])
    rows, good = [], True
    for text, causal in itertools.product(options.shapes.split(","), (False, True)):
        length, heads, kv_heads, head_dim = map(int, text.split("x"))
        done, right = measure(session, (length, heads, kv_heads, head_dim), causal, options)
        rows += done
        good = good and right
        torch.cuda.empty_cache()
        if session.rank == 0:
            # After every shape, so that a run that is cut short leaves what it has.
            write(stem, meta, rows)
            print(format_table({}, done), flush=True)
    session.close()
    return 0 if good else 1


def write(stem: Path, meta: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """The JSON and the table."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"meta": meta, "rows": rows}, indent=1)
    stem.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    stem.with_suffix(".md").write_text(format_table(meta, rows), encoding="utf-8")


def format_table(meta: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """One table for each shape."""
    lines = []
    if meta:
        told = ", ".join(f"{name} {meta[name]}" for name in meta if name != "command")
        lines += ["# Attention alone", "", told, "", f"    {meta['command']}"]
    for shape, of_shape in itertools.groupby(rows, key=lambda row: row["shape"]):
        lines += ["", f"**{shape}**", "", "| variant | µs | TFLOP/s | speed-up | rel. error |"]
        lines += ["|---|---|---|---|---|"]
        for row in of_shape:
            name = f"**{row['variant']}**" if row["default"] else row["variant"]
            speedup = "-" if row["speedup"] is None else row["speedup"]
            lines.append(
                f"| {name} | {row['us']} | {row['tflops']} | {speedup} | {row['rel_err']} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
