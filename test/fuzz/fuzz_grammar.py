"""Random chunk modules that are well formed, and most of them valid: they get behind the parser."""

from __future__ import annotations

import math
import random

from fuzz_mutate import NUMBERS, affine_map

__all__ = ["write_module"]

ELEMENTS = ("i8", "f16", "bf16", "f32", "f64", "f8E4M3FN", "i32", "i64")
REALIZATIONS = ("copy_engine", "ldst_colocated")
UNLOWERED = ("tma_dedicated", "nccl", "ldst_dedicated", "tma_colocated")
ALGORITHMS = (
    "direct push",
    "pull",
    "ring",
    "ring pull",
    "bidirectional_ring push",
    "recursive_doubling",
    "hierarchical pull",
)
VERBS = ("reduce_scatter", "all_reduce", "all_to_all", "broadcast")


class _Writer:
    """Writes one plan. Knows which blocks of rows each rank holds, so that a transfer can read what is there."""

    def __init__(self, draw: random.Random, name: str) -> None:
        self.draw, self.name = draw, name
        self.mesh = [draw.choice([1, 2, 2, 3, 4, 8]) for _ in range(draw.choice([1, 1, 2]))]
        self.world = math.prod(self.mesh)
        self.lines: list[str] = []
        self.tokens: list[str] = []
        self.shapes: dict[str, tuple[list[int], str]] = {}
        # By buffer: the edges of its blocks, and by block and rank the token that brought it, "" for an input.
        self.edges: dict[str, list[int]] = {}
        self.held: dict[str, list[dict[int, str]]] = {}
        # By buffer and block, whether a rank still may write it.
        self.free: set[tuple[str, int, int]] = set()

    def kind(self, buffer: str) -> str:
        shape, element = self.shapes[buffer]
        return f"!chunk.buffer<{'x'.join(map(str, shape))}x{element}>"

    def numbers(self, values: list[int]) -> str:
        """Offsets or sizes, now and then with a wrong one."""
        words = [str(value) for value in values]
        if self.draw.random() < 0.003:
            words[self.draw.randrange(len(words))] = self.draw.choice(NUMBERS)
        return f"[{', '.join(words)}]"

    def after(self, tokens: list[str]) -> str:
        draw = self.draw
        if self.tokens and draw.random() < 0.2:
            tokens = [*tokens, draw.choice(self.tokens)]
        if tokens and draw.random() < 0.02:
            tokens = tokens[1:]
        if len(tokens) > 1 and draw.random() < 0.3:
            joined = f"%j{len(self.lines)}"
            self.lines.append(f"{joined} = chunk.join {', '.join(tokens)}")
            tokens = [joined]
        return f" after({', '.join(tokens)})" if tokens else ""

    def add_buffer(self, name: str) -> None:
        draw = self.draw
        rank = draw.choice([1, 2, 2, 2, 3, 4])
        shape = [
            draw.randint(self.world, 40 + self.world),
            *(draw.randint(1, 20) for _ in range(rank - 1)),
        ]
        if draw.random() < 0.1:
            shape[-1] = draw.choice([4096, 65537, 1 << 20])
        element = (
            draw.choice(ELEMENTS)
            if len(self.shapes) == 0 or draw.random() < 0.1
            else self.shapes["a"][1]
        )
        if self.shapes and draw.random() < 0.7:
            shape = list(self.shapes["a"][0])
        self.shapes[name] = (shape, element)
        self.lines.append(f'%{name} = chunk.buffer "{name}" : {self.kind(name)}')
        rows = -(-shape[0] // self.world)
        equal = [min(rows * part, shape[0]) for part in range(self.world + 1)]
        cuts = sorted({0, shape[0], *draw.choices(range(shape[0] + 1), k=draw.randint(0, 5))})
        self.edges[name] = sorted(set(equal)) if name == "a" and draw.random() < 0.6 else cuts
        self.held[name] = [{} for _ in self.edges[name][1:]]
        for block in range(len(self.held[name])):
            self.free.update((name, block, rank) for rank in range(self.world))

    def region(self, buffer: str, block: int) -> tuple[list[int], list[int]]:
        shape, _ = self.shapes[buffer]
        begin, end = self.edges[buffer][block : block + 2]
        return [begin] + [0] * (len(shape) - 1), [end - begin, *shape[1:]]

    def add_inputs(self, buffer: str) -> None:
        for block in range(len(self.held[buffer])):
            rank = (
                min(block, self.world - 1)
                if self.draw.random() < 0.9
                else self.draw.randrange(self.world)
            )
            offsets, sizes = self.region(buffer, block)
            self.lines.append(
                f"chunk.input %{buffer}{self.numbers(offsets)} sizes {self.numbers(sizes)} on {rank} : "
                f"{self.kind(buffer)}"
            )
            self.held[buffer][block][rank] = ""
            self.free.discard((buffer, block, rank))

    def add_transfer(self) -> None:
        draw = self.draw
        src = draw.choice(list(self.shapes))
        sources = [(block, rank) for block, ranks in enumerate(self.held[src]) for rank in ranks]
        if not sources:
            return
        block, src_rank = draw.choice(sources)
        dst = src if draw.random() < 0.8 else draw.choice(list(self.shapes))
        places = [place for place in sorted(self.free) if place[:2] == (dst, block)]
        if not places or self.region(src, block)[1] != self.region(dst, block)[1]:
            return
        _, _, dst_rank = draw.choice(places)
        if self.shapes[src] != self.shapes[dst] and draw.random() < 0.95:
            return
        offsets, sizes = self.region(src, block)
        token = f"%t{len(self.lines)}"
        brought = self.held[src][block][src_rank]
        after = self.after([brought] if brought else [])
        realization = draw.choice(REALIZATIONS if draw.random() < 0.98 else UNLOWERED)
        realize = f" realize {realization}" if draw.random() < 0.5 else ""
        self.lines.append(
            f"{token} = chunk.{draw.choice(['put', 'get'])} %{src}{self.numbers(offsets)} to "
            f"%{dst}{self.numbers(self.region(dst, block)[0])} sizes {self.numbers(sizes)} from {src_rank} to "
            f"{dst_rank}{after}{realize} : {self.kind(src)} to {self.kind(dst)}"
        )
        self.free.discard((dst, block, dst_rank))
        self.held[dst][block][dst_rank] = token
        self.tokens.append(token)

    def add_gather(self, buffer: str) -> None:
        draw = self.draw
        group = (
            list(range(self.world))
            if draw.random() < 0.9
            else draw.sample(range(self.world), self.world)
        )
        token = f"%t{len(self.lines)}"
        by = f" by {draw.choice(ALGORITHMS)}" if draw.random() < 0.5 else ""
        axis = 0 if draw.random() < 0.95 else draw.randrange(len(self.shapes[buffer][0]))
        about = f"axis {axis}"
        verb = "all_gather" if draw.random() < 0.6 else draw.choice(VERBS)
        kinds = self.kind(buffer)
        if verb == "broadcast":
            about = f"root {draw.randrange(self.world)}"
        elif verb == "all_to_all":
            about = f"to %{draw.choice(list(self.shapes))} {about}"
            kinds += f" to {kinds}"
        elif verb != "all_gather":
            about = f"reduce {draw.choice(['sum', 'max', 'min'])} {about}"
        self.lines.append(
            f"{token} = chunk.{verb} %{buffer} {about} group [{', '.join(map(str, group))}]"
            f"{self.after([])}{by} : {kinds}"
        )
        self.tokens.append(token)

    def add_spmd(self, buffer: str) -> None:
        """Blocks around a ring, now and then with maps that lead nowhere."""
        draw = self.draw
        shape, _ = self.shapes[buffer]
        size, rows = self.world, -(-shape[0] // self.world)
        rest = ", 0" * (len(shape) - 1)
        token, last = f"%t{len(self.lines)}", ""
        body = []
        for step in range(draw.randint(1, 4)):
            block = f"affine_map<(i) -> ((i - {step}) mod {size} * {rows}{rest})>"
            if draw.random() < 0.05:
                block = affine_map(draw, 1, len(shape))
            sizes = self.numbers([rows, *shape[1:]])
            body.append(
                f"%s{step} = chunk.transfer {draw.choice(['push', 'push', 'pull'])} %{buffer} at {block} to %{buffer} "
                f"at {block} sizes {sizes} peer affine_map<(i) -> ((i + 1) mod {size})>{last} : "
                f"{self.kind(buffer)} to {self.kind(buffer)}"
            )
            last = f" after(%s{step} at affine_map<(i) -> ((i - 1) mod {size})>)"
        self.lines.append(
            f"{token} = chunk.spmd group {self.numbers(list(range(size)))}{self.after([])} {{\n    "
            + "\n    ".join(body)
            + "\n  }"
        )
        self.tokens.append(token)

    def add_kernel(self, buffer: str) -> None:
        draw = self.draw
        shape, _ = self.shapes[buffer]
        grid = [draw.randint(1, 6) for _ in range(draw.choice([1, 2, 2, 3]))]
        if draw.random() < 0.003:
            grid[-1] = draw.choice([1000, 100_000])
        height = -(-shape[0] // grid[0])
        names = ["m", "n", "l"][: len(grid)]
        if draw.random() < 0.8:
            offsets = ", ".join([f"m * {height}", *["0"] * (len(shape) - 1)])
            access = f"affine_map<({', '.join(names)}) -> ({offsets})>"
        else:
            access = affine_map(draw, len(grid), len(shape))
        steps = ""
        if draw.random() < 0.3:
            if draw.random() < 0.9:
                offsets = ", ".join([f"s * {draw.randint(1, height)}", *["0"] * (len(shape) - 1)])
                access = f"affine_map<({', '.join([*names, 's'])}) -> ({offsets})>"
            begin, end = (affine_map(draw, len(grid), draw.choice([1, 1, 2])) for _ in range(2))
            if draw.random() < 0.7:
                begin, end = (
                    f"affine_map<({', '.join(names)}) -> ({to})>" for to in ("0", "m + 3")
                )
            rank = f"on {draw.randint(0, self.world)} " if draw.random() < 0.1 else ""
            steps = f"chunk.steps {rank}from {begin} to {end}{draw.choice(['', '', ' ordered'])}"
        after = f" after({', '.join(self.tokens)})" if self.tokens and draw.random() < 0.97 else ""
        reads = f'chunk.footprint read "x" at {access} sizes {self.numbers([height, *shape[1:]])}'
        self.lines.append(
            f'chunk.kernel @k tiles {self.numbers(grid)} ctas {draw.randint(1, 9)} args(%{buffer} as "x"){after} : '
            f"{self.kind(buffer)} {{ {reads if draw.random() < 0.98 else ''} {steps} }}"
        )

    def write(self) -> str:
        draw = self.draw
        for name in "abc"[: draw.choice([1, 1, 2, 3])]:
            self.add_buffer(name)
        for name in self.shapes:
            if name == "a" or draw.random() < 0.3:
                self.add_inputs(name)
        equal = len(self.held["a"]) == self.world and self.world > 1
        if equal and draw.random() < 0.6:
            self.add_gather("a") if draw.random() < 0.7 else self.add_spmd("a")
        else:
            for _ in range(draw.choice([1, 4, 10, 30])):
                self.add_transfer()
        if draw.random() < 0.9:
            self.add_kernel("a" if draw.random() < 0.9 else draw.choice(list(self.shapes)))
        strategy = ""
        if draw.random() < 0.4:
            splits = draw.choice([1, 1, 2, 3, 5, 7, 40])
            strategy = (
                f" strategy <splits = {splits}, order = {draw.choice(['arrival', 'grouped'])}>"
            )
        body = "\n  ".join(self.lines)
        return (
            f"chunk.plan @{self.name} mesh {self.numbers(self.mesh)}{strategy} {{\n  {body}\n}}\n"
        )


def write_module(draw: random.Random) -> str:
    """A module of one plan, now and then of two."""
    names = ["p"] if draw.random() < 0.97 else ["p", "q"]
    return "".join(_Writer(draw, name).write() for name in names)
