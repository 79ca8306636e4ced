"""Random plans that keep every rule of the dialect, for any test that wants to know whether something holds for all.

A plan has two parts that meet only in tokens and in the kernel. In one, each block of a buffer reaches each rank by a
put or a get, by either realization, straight or through a slot of another buffer, at times after something else has
been there; further transfers bring what no tile reads. In the other, buffers of one to three dimensions are gathered
along any of them by some of the ranks, in any order, or broadcast by one of them, after what the members' blocks come
from; some of the others get the result from a member.
"""

import itertools
import random
from dataclasses import dataclass, field

from hypothesis import strategies

ALGORITHMS = ("direct", "ring", "bidirectional_ring")
DIRECTIONS = ("push", "pull")
REALIZATIONS = ("copy_engine", "ldst_colocated")
ELEMENTS = ("bf16", "f16", "f32", "f64", "f8E4M3FN", "f8E5M2", "i8", "i16", "i32", "i64")


@dataclass
class Spot:
    """A place of one rank where blocks come and go."""

    buffer: str
    begin: int
    rank: int
    block: int | None = None
    brought: str | None = None
    touched: list[str] = field(default_factory=list)


class RandomPlan:
    """Writes one plan.

    Args:
        draw: Where all choices come from.
        gathers: Buffers with collectives at most.
    """

    def __init__(self, draw: random.Random, gathers: int = 2) -> None:
        self.draw = draw
        self.world = draw.randint(2, 5)
        self.rows, self.depth = draw.randint(20, 90), draw.choice([1, 3, 8, 16, 21])
        cuts = draw.sample(range(1, self.rows), draw.randint(self.world - 1, self.world + 3))
        self.blocks = list(itertools.pairwise([0, *sorted(cuts), self.rows]))
        self.largest = max(end - begin for begin, end in self.blocks)
        slots = draw.randint(1, 3)
        element = draw.choice(ELEMENTS)
        rows = {"a": self.rows, "x": slots * self.largest, "y": slots * self.largest}
        self.kinds = {
            name: f"!chunk.buffer<{size}x{self.depth}x{element}>" for name, size in rows.items()
        }
        self.lines: list[str] = []
        self.gathered: list[str] = []
        self.others: list[str] = []
        # Where each block is, and the slots of each rank.
        self.homes = [
            [Spot("a", begin, rank) for rank in range(self.world)] for begin, _ in self.blocks
        ]
        for block, (begin, end) in enumerate(self.blocks):
            owner = draw.randrange(self.world)
            self.homes[block][owner].block = block
            self._input("a", (begin, 0), (end - begin, self.depth), owner)
        self.rings, self.sinks = (
            [
                Spot(buffer, slot * self.largest, rank)
                for slot in range(slots)
                for rank in range(self.world)
            ]
            for buffer in "xy"
        )
        self.footprints: dict[str, str] = {}
        self.tiles = (draw.randint(1, 6), draw.randint(1, 3))
        height = -(-self.rows // self.tiles[0])
        self.footprints["a"] = f"(m * {height}, 0)> sizes [{height}, {self.depth}]"
        self._bring_all(draw.randint(0, gathers))
        self.at_steps: set[str] = set()
        self.steps: list[str] = []
        if draw.random() < 0.4:
            self._walk_steps()

    def _walk_steps(self) -> None:
        """Lets tiles read some of what they read at steps, which may be others on each rank."""
        draw = self.draw
        height = draw.randint(-(-self.rows // 6), self.rows)
        if draw.random() < 0.8:
            self.at_steps.add("a")
            self.footprints["a"] = f"(k * {height} + n, 0)> sizes [{height}, {self.depth}]"
        for name in set(self.footprints) - {"a"}:
            if draw.random() < 0.5:
                self.at_steps.add(name)
                offsets, sizes = self.footprints[name].split("> sizes ")
                self.footprints[name] = f"{offsets[:-1]} + k * {draw.randint(1, 9)})> sizes {sizes}"
        alike = draw.random() < 0.5
        for rank in [""] if alike else [f"on {rank} " for rank in range(self.world)]:
            begin, end = draw.choice(_BEGINS), draw.choice(_ENDS)
            ordered = " ordered" if draw.random() < 0.2 else ""
            self.steps.append(
                f"  chunk.steps {rank}from affine_map<(m, n) -> ({begin})> to affine_map<(m, n) -> ({end})>{ordered}"
            )

    # Writing.

    def _token(self, of: list[str], line: str) -> str:
        token = f"%t{len(self.gathered) + len(self.others)}"
        self.lines.append(f"{token} = {line}")
        of.append(token)
        return token

    def _input(self, buffer: str, offsets, sizes, rank: int) -> None:
        self.lines.append(
            f"chunk.input %{buffer}{list(offsets)} sizes {list(sizes)} on {rank} : {self.kinds[buffer]}"
        )

    def _after(self, tokens) -> str:
        """Some tokens, now and then joined, and one more that nobody asked for."""
        draw = self.draw
        tokens = list(dict.fromkeys(tokens))
        if draw.random() < 0.3 and self.gathered + self.others:
            tokens.append(draw.choice(self.gathered + self.others))
        if len(tokens) > 1 and draw.random() < 0.3:
            name = f"%j{len(self.lines)}"
            self.lines.append(f"{name} = chunk.join {', '.join(tokens)}")
            tokens = [name]
        return f"after({', '.join(tokens)}) " if tokens else ""

    def _copy(self, of, src, dst, sizes, tokens) -> str:
        """Adds a put or a get between places: buffer, offsets, rank."""
        draw = self.draw
        after = self._after(tokens)
        line = f"chunk.{draw.choice(['put', 'get'])} %{src[0]}{list(src[1])} to %{dst[0]}{list(dst[1])} "
        line += f"sizes {list(sizes)} from {src[2]} to {dst[2]} {after}"
        if draw.random() < 0.7:
            line += f"realize {draw.choice(REALIZATIONS)} "
        return self._token(of, f"{line}: {self.kinds[src[0]]} to {self.kinds[dst[0]]}")

    # Blocks of the first buffer.

    def _size(self, block: int) -> int:
        begin, end = self.blocks[block]
        return end - begin

    def _move(self, src: Spot, dst: Spot, block: int) -> None:
        """Adds a transfer of a block from one spot to another, after all that it has to come after."""
        token = self._copy(
            self.gathered if dst.buffer == "a" else self.others,
            (src.buffer, (src.begin, 0), src.rank),
            (dst.buffer, (dst.begin, 0), dst.rank),
            (self._size(block), self.depth),
            [*dst.touched, *([src.brought] if src.brought else [])],
        )
        src.touched.append(token)
        dst.touched.append(token)
        dst.brought, dst.block = token, block

    def _holder(self, block: int) -> Spot:
        return self.draw.choice([spot for spot in self.homes[block] if spot.block == block])

    def _bring(self, block: int, rank: int) -> None:
        """Brings a block to its home on a rank."""
        draw, home = self.draw, self.homes[block][rank]
        if draw.random() < 0.25:
            # Something else of no larger size is there before.
            fitting = [
                other
                for other in range(len(self.blocks))
                if other != block and self._size(other) <= self._size(block)
            ]
            if fitting:
                other = draw.choice(fitting)
                self._move(self._holder(other), home, other)
        src = self._holder(block)
        if draw.random() < 0.4:
            slot = draw.choice(self.rings)
            self._move(src, slot, block)
            src = slot
        self._move(src, home, block)
        if draw.random() < 0.3:
            self._move(self._holder(block), draw.choice(self.sinks), block)

    def _bring_all(self, gathers: int) -> None:
        todo: list[tuple[int, ...]] = [
            (block, rank)
            for block in range(len(self.blocks))
            for rank in range(self.world)
            if self.homes[block][rank].block is None
        ]
        todo += [(number,) for number in range(gathers)]
        self.draw.shuffle(todo)
        for what in todo:
            if len(what) == 1:
                self._gather(f"g{what[0]}")
            else:
                self._bring(*what)

    # Collectives.

    def _gather(self, buffer: str) -> None:
        draw = self.draw
        shape = [draw.randint(1, 17) for _ in range(draw.randint(1, 3))]
        axis = draw.randrange(len(shape))
        self.kinds[buffer] = f"!chunk.buffer<{'x'.join(map(str, shape))}x{draw.choice(ELEMENTS)}>"
        group = draw.sample(range(self.world), draw.randint(2, self.world))
        outside = [rank for rank in range(self.world) if rank not in group]
        # Every block, the member that contributes it, and who has it when a call starts.
        blocks, before = [], []
        root = draw.choice(group) if draw.random() < 0.25 else None
        owners = group if root is None else [root]
        for index, member in enumerate(owners):
            rows = -(-shape[axis] // len(owners))
            offsets, sizes = [0] * len(shape), list(shape)
            offsets[axis] = index * rows
            sizes[axis] = min(rows, shape[axis] - index * rows)
            if sizes[axis] <= 0:
                continue
            owner = draw.choice(outside) if outside and draw.random() < 0.4 else member
            self._input(buffer, offsets, sizes, owner)
            blocks.append((offsets, sizes, owner))
            if owner != member:
                src, dst = (buffer, offsets, owner), (buffer, offsets, member)
                before.append(self._copy(self.others, src, dst, sizes, []))
        after = self._after(before)
        line = f"chunk.all_gather %{buffer} axis {axis} group {group} {after}{self._by(group)}"
        if root is not None:
            line = f"chunk.broadcast %{buffer} root {root} group {group} {after}{self._by(group)}"
        token = self._token(self.gathered, f"{line}: {self.kinds[buffer]}")
        if outside and draw.random() < 0.3:
            return  # not everybody has it, so tiles may not read it
        for rank in outside:
            for offsets, sizes, owner in blocks:
                if owner != rank:
                    src, dst = (buffer, offsets, draw.choice(group)), (buffer, offsets, rank)
                    self._copy(self.gathered, src, dst, sizes, [token])
        sizes = [draw.randint(1, size) for size in shape]
        offsets = [draw.choice(_OFFSETS).format(size=size) for size in sizes]
        self.footprints[buffer] = f"({', '.join(offsets)})> sizes {sizes}"

    def _by(self, group: list[int]) -> str:
        """An algorithm, a direction, both or neither."""
        draw = self.draw
        doubling = ["recursive_doubling"] if len(group) in (2, 4) else []
        words = [draw.choice([*ALGORITHMS, *doubling])] if draw.random() < 0.5 else []
        words += [draw.choice(DIRECTIONS)] if draw.random() < 0.5 else []
        return " ".join(["by", *words, ""]) if words else ""

    def text(self, ctas: int | None = None) -> str:
        """The whole plan, as a module."""
        draw = self.draw
        tokens = self.gathered + [token for token in self.others if draw.random() < 0.5]
        after = f" after({', '.join(tokens)})" if tokens else ""
        arguments = ", ".join(f'%{name} as "{name}"' for name in self.footprints)
        kernel = f"chunk.kernel @k tiles {list(self.tiles)} ctas {ctas or draw.randint(1, 4)} "
        kernel += f"args({arguments}){after} : "
        kernel += ", ".join(self.kinds[name] for name in self.footprints)
        footprints = [
            f'  chunk.footprint read "{name}" at affine_map<(m, n{", k" if name in self.at_steps else ""}) -> {where}'
            for name, where in self.footprints.items()
        ]
        buffers = [f'%{name} = chunk.buffer "{name}" : {kind}' for name, kind in self.kinds.items()]
        body = [*buffers, *self.lines, f"{kernel} {{", *self.steps, *footprints, "}"]
        return f"chunk.plan @p mesh [{self.world}] {{\n  " + "\n  ".join(body) + "\n}\n"


_OFFSETS = (
    "0",
    "m * {size}",
    "n * {size} - 1",
    "(m floordiv 2) * 3 + n",
    "(m - n * 3) mod 4",
    "n ceildiv 2",
)

_BEGINS = ("0", "n", "m floordiv 2, 1", "m - 2")
_ENDS = ("6", "m + 2", "4, n + m * 2", "n * 3")


@strategies.composite
def plans(draw, gathers: int = 2) -> str:
    """The text of a random plan."""
    return RandomPlan(draw(strategies.randoms(use_true_random=False)), gathers).text()
