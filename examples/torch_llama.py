"""A small Llama-like model with tensor and sequence parallelism: trained and served by fused operators and plain torch.

    torchrun --nproc-per-node 2 examples/torch_llama.py train --out train.json
    torchrun --nproc-per-node 2 examples/torch_llama.py serve --out serve.json

RMSNorm, rotary embeddings, attention whose heads share keys, SwiGLU, and one matrix for embeddings and logits. `train`
takes the same steps in each way, compares losses step by step, and says how many tokens a second each trains. `serve`
takes a prompt and then one token at a time with a cache, compares logits with those of plain torch on the same tokens,
and says how many tokens a second of prompts and of answers each computes. The ways:

* plain: collectives of torch and products, one after the other.
* fused: `syncopate.torch`. Sums of single tokens, which have one row for each sequence, are a product and a collective.
* fused_sums (serve): the same, but for those sums, which `matmul_all_reduce` computes.
* async_tp (train, on GPUs): plain, compiled by torch with its AsyncTP.

Without GPUs processes talk by gloo and operators are a product and a collective: that checks results, in float32, of a
smaller model, and times mean nothing then. It ends with 1 if results differ by more than the element type's error.
"""

import argparse
import enum
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch.nn import functional

import syncopate.torch as st

LOSS_TOLERANCE = {torch.bfloat16: 1e-2, torch.float32: 1e-5}
LOGITS_TOLERANCE = {torch.bfloat16: 3e-2, torch.float32: 1e-5}
"""How far losses, and the norm of logits, may be off: some units of the type, for sums are rounded in another order."""

SIZES = {
    "layers": 4, "features": 4096, "hidden": 14336, "heads": 32, "kv-heads": 8, "vocabulary": 32768, "sequence": 4096,
    "seed": 0,
}  # fmt: skip
SIZES_WITHOUT_GPUS = {
    "layers": 2, "features": 64, "hidden": 96, "heads": 4, "kv-heads": 2, "vocabulary": 128, "sequence": 16, "seed": 0
}  # fmt: skip

MEASURED = {
    "train": "a step forward and backward with AdamW on the slowest rank; the median of the later half of the steps",
    "serve": "a prompt up to its logits, and all tokens of the answers, on the slowest rank; medians of the rounds",
}


class Way(enum.Enum):
    """How layers multiply and communicate."""

    PLAIN = "plain"
    FUSED = "fused"
    FUSED_SUMS = "fused_sums"
    ASYNC_TP = "async_tp"


class PlainColumn(st.ColumnParallelLinear):
    """A gather and then a product, by torch."""

    def forward(self, x: torch.Tensor, *, whole: bool = False) -> torch.Tensor:
        """[sequence / ranks, batch, features] → [sequence, batch, features / ranks]."""
        if not whole:
            x = funcol.all_gather_tensor_autograd(x, 0, self.group_name)
        return functional.linear(x, self.weight)


class PlainRow(st.RowParallelLinear):
    """A product and then a sum, by torch."""

    def forward(self, x: torch.Tensor, *, whole: bool = False) -> torch.Tensor:
        """[sequence, batch, features / ranks] → [sequence / ranks, batch, features]."""
        made = functional.linear(x, self.weight)
        if whole:
            return funcol.all_reduce(made, "sum", self.group_name)
        return funcol.reduce_scatter_tensor_autograd(made, "sum", 0, self.group_name)


def rotary(
    start: torch.Tensor, length: int, head_dim: int, dtype: torch.dtype
) -> Callable[..., Any]:
    """What turns [sequence, batch, heads, head_dim] by the places of tokens, of which the first is at `start`."""
    device = start.device
    rates = 10000 ** -(torch.arange(0, head_dim, 2, device=device).float() / head_dim)
    angles = torch.outer((start + torch.arange(length, device=device)).float(), rates)
    cos, sin = (each.to(dtype)[:, None, None] for each in (angles.cos(), angles.sin()))

    def rotate(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    return rotate


class Layer(nn.Module):
    """Attention and an MLP, each behind a norm and beside what it is added to."""

    def __init__(self, options: argparse.Namespace, group: str, **make: Any) -> None:
        super().__init__()
        features = options.features
        self.before = st.SequenceParallelRMSNorm(features, group, **make)
        self.attention = st.SequenceParallelAttention(
            features, options.heads, options.kv_heads, group, **make
        )
        self.between = st.SequenceParallelRMSNorm(features, group, **make)
        self.mlp = st.SequenceParallelMlp(features, options.hidden, group, **make)

    def forward(self, x: torch.Tensor, *, whole: bool = False, **how: Any) -> torch.Tensor:
        """[sequence / ranks, batch, features] → the same."""
        x = x + self.attention(self.before(x, whole=whole), whole=whole, **how)
        return x + self.mlp(self.between(x, whole=whole), whole=whole)


class Llama(nn.Module):
    """This rank's part of the weights, and its part of the sequence outside of attention and MLPs."""

    def __init__(self, options: argparse.Namespace, way: Way, **make: Any) -> None:
        super().__init__()
        self.group = dist.group.WORLD.group_name
        self.world, self.rank = dist.get_world_size(), dist.get_rank()
        # All ways start from the same weights. A rank has its own parts of layers, and all have the same embedding.
        torch.manual_seed(options.seed)
        shape = (options.vocabulary, options.features)
        self.embedding = nn.Parameter(torch.randn(shape, **make) * options.features**-0.5)
        torch.manual_seed(options.seed + 1 + self.rank)
        self.layers = nn.ModuleList(
            Layer(options, self.group, **make) for _ in range(options.layers)
        )
        self.norm = st.SequenceParallelRMSNorm(options.features, self.group, **make)
        for module in self.modules():
            if isinstance(module, st.RowParallelLinear):
                module.fuses_sum = way is Way.FUSED_SUMS
            if way in (Way.PLAIN, Way.ASYNC_TP):
                if isinstance(module, st.ColumnParallelLinear):
                    module.__class__ = PlainColumn
                elif isinstance(module, st.RowParallelLinear):
                    module.__class__ = PlainRow

    def rotary(self, start: torch.Tensor, length: int) -> Callable[..., Any]:
        """The rotation of tokens at these places."""
        head_dim = self.layers[0].attention.head_dim
        return rotary(start, length, head_dim, self.embedding.dtype)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """This rank's share of the mean loss of [sequence, batch] tokens, which all ranks have."""
        embedding = st.sum_gradients(self.embedding, self.group)
        mine, right = (each.chunk(self.world)[self.rank] for each in (tokens, targets))
        x = functional.embedding(mine, embedding)
        rotate = self.rotary(tokens.new_zeros(()), len(tokens))
        for layer in self.layers:
            x = layer(x, rotate=rotate)
        logits = self.norm(x) @ embedding.t()
        total = functional.cross_entropy(
            logits.flatten(0, 1).float(), right.flatten(), reduction="sum"
        )
        return total / tokens.numel()

    def new_caches(self, batch: int, length: int) -> list[st.KeyValueCache]:
        """One for each layer."""
        return [layer.attention.new_cache(batch, length) for layer in self.layers]

    def answer(
        self, tokens: torch.Tensor, caches: list[st.KeyValueCache], start: torch.Tensor
    ) -> torch.Tensor:
        """Logits [batch, vocabulary] of what comes after [sequence, batch] tokens, the first of which is at `start`.

        A prompt is shared out over the ranks. A single token of each sequence is not: all ranks have it whole.
        """
        whole = len(tokens) == 1
        mine = tokens if whole else tokens.chunk(self.world)[self.rank]
        x, rotate = functional.embedding(mine, self.embedding), self.rotary(start, len(tokens))
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, whole=whole, rotate=rotate, cache=cache, start=start)
        last = self.norm(x[-1:], whole=True)
        if not whole:
            last = self.gather(last)[-1:]
        # Each rank computes the logits of its part of the vocabulary.
        part = last[0] @ self.embedding.chunk(self.world)[self.rank].t()
        return self.gather(part.t().contiguous()).t()

    def gather(self, x: torch.Tensor) -> torch.Tensor:
        """The rows of all ranks, which are there for what comes next: no fused kernel may run beside NCCL's."""
        made = x.new_empty(len(x) * self.world, *x.shape[1:])
        dist.all_gather_into_tensor(made, x)
        return made


class Bench:
    """What both commands need: a device, models, times and a report."""

    def __init__(self, options: argparse.Namespace, device: torch.device) -> None:
        self.options, self.device = options, device
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        for name in ("sequence", "vocabulary"):
            if getattr(options, name) % dist.get_world_size():
                sys.exit(f"--{name}: expects a multiple of the number of ranks")
        names = ("layers", "features", "hidden", "heads", "kv_heads", "vocabulary", "batch")
        self.report: dict[str, Any] = {
            "command": options.command,
            "measured": MEASURED[options.command],
            "device": torch.cuda.get_device_name(device)
            if device.type == "cuda"
            else "cpu, by gloo",
            "ranks": dist.get_world_size(),
            "dtype": str(self.dtype).removeprefix("torch."),
            "torch": torch.__version__,
            "sizes": {name: getattr(options, name) for name in (*names, "sequence")},
            "ways": {},
        }

    def model(self, way: Way) -> Llama:
        """A model of this rank's part."""
        return Llama(self.options, way, device=self.device, dtype=self.dtype)

    def tokens(self, length: int) -> torch.Tensor:
        """Random ones, [length, batch], the same on all ranks."""
        torch.manual_seed(self.options.seed + 1000)
        shape = (length, self.options.batch)
        return torch.randint(self.options.vocabulary, shape, device=self.device)

    def wait(self) -> None:
        """Until the GPU has done what it was told."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self, call: Callable[[], Any]) -> float:
        """What a call takes on the slowest rank."""
        self.wait()
        dist.barrier()
        start = time.perf_counter()
        call()
        self.wait()
        taken = torch.tensor(time.perf_counter() - start, device=self.device, dtype=torch.float64)
        dist.all_reduce(taken, dist.ReduceOp.MAX)
        return float(taken)

    def add(self, way: Way, row: dict[str, Any], shown: str) -> None:
        """Adds a way to the report, which is written at once, so that a way that fails leaves those before it."""
        self.report["ways"][way.value] = row
        if dist.get_rank() == 0:
            print(f"{way.value}: {shown}", flush=True)
            if self.options.out:
                self.options.out.write_text(json.dumps(self.report, indent=1) + "\n")


class FusedByTorch:
    """Counts the operators that AsyncTP has made; where it cannot make any it says nothing."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, graph: torch.fx.Graph) -> None:
        """Counts those of a graph."""
        self.count += sum(str(node.target).startswith("symm_mem.fused") for node in graph.nodes)


def train(bench: Bench) -> bool:
    """Trains in each way; whether all losses are those of the first."""
    options, tolerance = bench.options, LOSS_TOLERANCE[bench.dtype]
    text = bench.tokens(options.sequence + 1)
    first: list[float] = []
    right = True
    for way in options.ways:
        model = bench.model(way)
        step_loss: Any = model
        counter = FusedByTorch()
        if way is Way.ASYNC_TP:
            from torch.distributed._symmetric_memory import enable_symm_mem_for_group

            enable_symm_mem_for_group(model.group)
            step_loss = torch.compile(
                model, options={"_micro_pipeline_tp": True, "post_grad_custom_post_pass": counter}
            )
        elif options.compile:
            step_loss = torch.compile(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate)
        losses: list[float] = []
        times: list[float] = []
        made: list[torch.Tensor] = []

        def step(optimizer=optimizer, step_loss=step_loss, made=made) -> None:
            optimizer.zero_grad()
            loss = step_loss(text[:-1], text[1:])
            loss.backward()
            optimizer.step()
            made[:] = [loss.detach()]

        for _ in range(options.steps):
            times.append(bench.seconds(step))
            total = made[0].clone()
            dist.all_reduce(total)
            losses.append(total.item())
        first = first or losses
        errors = [abs(a - b) / abs(a) for a, b in zip(first, losses, strict=True)]
        # The first steps compile and load.
        seconds = statistics.median(times[len(times) // 2 :])
        row = {
            "compiled": options.compile or way is Way.ASYNC_TP,
            "ms_per_step": seconds * 1e3,
            "tokens_per_second": options.sequence * options.batch / seconds,
            "losses": losses,
            "largest_loss_error": max(errors),
        }
        if way is Way.ASYNC_TP:
            row["fused_by_torch"] = counter.count
            if not counter.count:
                print(
                    "async_tp: torch has fused nothing, so this is plain, compiled", file=sys.stderr
                )
        shown = f"{row['tokens_per_second']:.0f} tokens/s, loss {losses[0]:.4f} -> {losses[-1]:.4f}"
        bench.add(way, row, f"{shown}, at most {max(errors):.1e} from {options.ways[0].value}")
        right = right and max(errors) <= tolerance and losses[-1] < losses[0]
        del model, optimizer, step_loss, step
        st.close_programs()
    return right


def greedy(
    bench: Bench, model: Llama, first: torch.Tensor, caches: list[Any]
) -> Callable[[], None]:
    """What computes all tokens of an answer, each the likeliest after those before it."""
    options = bench.options
    start = torch.tensor(options.sequence, device=bench.device)
    token = first.clone()

    def step() -> None:
        token.copy_(model.answer(token, caches, start).argmax(-1)[None])
        start.add_(1)

    one: Callable[[], Any] = step
    if options.graph:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        one = graph.replay

    def run() -> None:
        start.fill_(options.sequence)
        token.copy_(first)
        for _ in range(options.answer):
            one()

    return run


@torch.no_grad()
def serve(bench: Bench) -> bool:
    """Serves in each way; whether all logits are those of the first."""
    options, tolerance = bench.options, LOGITS_TOLERANCE[bench.dtype]
    prompt, zero = bench.tokens(options.sequence), torch.tensor(0, device=bench.device)
    # What the first way has said is what all read, so that they can be compared.
    said: list[torch.Tensor] = []
    expected: list[torch.Tensor] = []
    right = True
    for way in options.ways:
        model = bench.model(way)
        caches = model.new_caches(options.batch, options.sequence + options.answer)
        logits = [model.answer(prompt, caches, zero)]
        for number in range(options.answer):
            if len(said) == number:
                said.append(logits[-1].argmax(-1)[None])
            place = zero + options.sequence + number
            logits.append(model.answer(said[number], caches, place))
        expected = expected or logits
        errors = [
            float((made - whole).float().norm() / whole.float().norm())
            for made, whole in zip(logits, expected, strict=True)
        ]
        same = [
            float((made.argmax(-1) == whole.argmax(-1)).float().mean())
            for made, whole in zip(logits, expected, strict=True)
        ]
        run = greedy(bench, model, said[0], caches)
        answers = [bench.seconds(run) for _ in range(options.rounds)]
        prompts = [
            bench.seconds(lambda model=model, caches=caches: model.answer(prompt, caches, zero))
            for _ in range(options.rounds)
        ]
        row = {
            "graph": options.graph,
            "prompt_tokens_per_second": prompt.numel() / statistics.median(prompts),
            "answer_tokens_per_second": options.answer * options.batch / statistics.median(answers),
            "largest_logits_error": max(errors),
            "same_likeliest_token": statistics.mean(same),
        }
        shown = f"{row['prompt_tokens_per_second']:.0f} tokens/s of prompts, "
        shown += (
            f"{row['answer_tokens_per_second']:.0f} of answers, logits at most {max(errors):.1e} "
        )
        bench.add(way, row, f"{shown}from {options.ways[0].value}")
        right = right and max(errors) <= tolerance
        del model, run, caches
        st.close_programs()
    return right


def read_options(on_gpus: bool) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train", help="compare losses, and say tokens/s")
    training.add_argument("--steps", type=int, default=20)
    training.add_argument("--rate", type=float, default=3e-4, help="of AdamW")
    training.add_argument("--compile", action="store_true", help="plain and fused by torch.compile")
    serving = commands.add_parser("serve", help="compare logits, and say tokens/s")
    serving.add_argument("--answer", type=int, default=64, help="tokens of each sequence")
    serving.add_argument("--rounds", type=int, default=5, help="times that prompt and answer run")
    serving.add_argument("--graph", action="store_true", help="a CUDA graph for a token")
    known = {
        training: [Way.PLAIN, Way.FUSED, *([Way.ASYNC_TP] if on_gpus else [])],
        serving: [Way.PLAIN, Way.FUSED, Way.FUSED_SUMS],
    }
    for command, ways in known.items():
        command.add_argument(
            "--ways", type=Way, nargs="+", default=ways, help="compared with the first one"
        )
        for name, size in (SIZES if on_gpus else SIZES_WITHOUT_GPUS).items():
            command.add_argument(f"--{name}", type=int, default=size)
        batch = (2 if command is training else 8) if on_gpus else 2
        command.add_argument("--batch", type=int, default=batch)
        command.add_argument("--out", type=Path, help="a file for the report, in JSON")
    options = parser.parse_args()
    if "LOCAL_RANK" not in os.environ:
        parser.error(
            "expects several ranks; start it by torchrun --nproc-per-node 2 examples/torch_llama.py"
        )
    return options


def main() -> None:
    """One rank, started by torchrun."""
    on_gpus = torch.cuda.is_available()
    options = read_options(on_gpus)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpus else torch.device("cpu")
    if on_gpus:
        torch.cuda.set_device(device)
    else:
        os.environ["SYNCOPATE_TORCH_FALLBACK"] = "1"
    dist.init_process_group("nccl" if on_gpus else "gloo")
    right = (train if options.command == "train" else serve)(Bench(options, device))
    dist.destroy_process_group()
    if not right:
        sys.exit("results differ by more than the element type's error, or the loss has not fallen")


if __name__ == "__main__":
    main()
