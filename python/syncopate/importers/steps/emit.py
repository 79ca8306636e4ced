"""Makes a plan of steps, by the builder that people use too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from syncopate.choices import Direction
from syncopate.errors import PlanError
from syncopate.importers.imported import Imported
from syncopate.importers.names import Source
from syncopate.importers.steps.collective_steps import (
    Cells,
    Collective,
    CollectiveSteps,
    Memory,
    Move,
)
from syncopate.importers.steps.proof import prove
from syncopate.plan import Buffer, Chunk, Plan, Token
from syncopate.plan.moves import Moves

__all__ = ["emit_plan", "to_symbol"]


def emit_plan(
    steps: CollectiveSteps,
    shape: Sequence[int],
    dtype: str,
    *,
    source: Source = Source.INPUTS,
    kernel: bool = False,
) -> Imported:
    """A plan that moves what the steps move, in their order.

    Args:
        steps: The steps.
        shape: Of what is gathered, reduced or exchanged; its first dimension is cut into cells, the last ones shorter
            or empty if it does not divide.
        dtype: Element type as MLIR spells it.
        source: Where what the steps start with comes from.
        kernel: Whether to add a kernel without code, whose tiles read the result, or write what the steps start with:
            then tools can make a schedule of the plan. A kernel of one's own cannot be compiled with it any more.

    Raises:
        PlanError: The steps are not the collective that they are said to be, or the plan breaks a rule.
    """
    prove(steps)
    return _Emitter(steps, shape, dtype, source, kernel).emit()


class _Emitter:
    def __init__(
        self, steps: CollectiveSteps, shape: Sequence[int], dtype: str, source: Source, kernel: bool
    ) -> None:
        self.steps, self.dtype, self.source, self.kernel = steps, dtype, source, kernel
        place = steps.place.file, steps.place.line
        self.plan = Plan(to_symbol(steps.name), mesh=[steps.ranks], place=place)
        self.transfers = Moves(self.plan)
        if not shape or any(type(size) is not int or size < 1 for size in shape):
            raise PlanError(f"shape: expects positive sizes, but got {list(shape)}")
        self.rows, self.more = shape[0], tuple(shape[1:])
        self.block = -(-self.rows // steps.blocks)
        self.cell = -(-self.block // steps.chunks)
        whole = self.rows % steps.ranks == 0
        if not whole and steps.collective is Collective.ALL_TO_ALL and source is Source.TILES:
            raise PlanError(
                f"shape: expects a multiple of {steps.ranks} rows to give back, but got {self.rows}"
            )
        blocks = steps.collective in (Collective.ALL_TO_ALL, Collective.REDUCE_SCATTER)
        if kernel and not whole and blocks and source is Source.INPUTS:
            raise PlanError(
                f"shape: expects a multiple of {steps.ranks} rows for a kernel whose tiles read the result, as some "
                f"ranks get fewer rows than others, but got {self.rows}"
            )
        if steps.collective is Collective.BROADCAST and source is Source.TILES:
            # Tiles of all ranks write to the same place, where the root's block arrives.
            raise PlanError("source: expects inputs for a broadcast, but got tiles")
        self.moves = list(steps.moves)
        self.given = [steps.given(rank) for rank in range(steps.ranks)]
        self.last = Memory.DATA if steps.in_place else Memory.OUTPUT
        gathers = steps.collective is Collective.ALL_GATHER
        # Whether each rank's instance holds its own block alone: tiles of all ranks write to the same place.
        self.is_block = gathers and (not steps.in_place or source is Source.TILES)
        self._stage()
        self.first = self.given[0].memory
        self.buffers: dict[Memory, Buffer] = {}
        self.live: dict[tuple[int, Memory, int], int] = {}

    def _stage(self) -> None:
        """Adds copies from and to buffers that a caller, or tiles of all ranks alike, can have."""
        steps, place = self.steps, self.steps.place
        given = self.given
        cells = {cell for some in given for cell in some}
        written = any(not cells.isdisjoint(move.dst) for move in self.moves)
        if (steps.in_place and self.is_block) or (written and self.source is Source.INPUTS):
            self.given = [
                replace(cells, memory=Memory.GIVEN, offset=0 if self.is_block else cells.offset)
                for cells in self.given
            ]
            self.moves[:0] = [
                Move(_part(src, cell), _part(dst, cell), False, place)
                for cell in range(max(cells.count for cells in given))
                for src, dst in zip(self.given, given, strict=True)
                if cell < src.count
            ]
        self.staged = len(self.moves) - len(steps.moves)
        part = steps.in_place and steps.collective is Collective.REDUCE_SCATTER
        if self.kernel and part and self.source is Source.INPUTS:
            self.last = Memory.OUTPUT
            for rank in range(steps.ranks):
                dst = Cells(rank, Memory.OUTPUT, 0, steps.chunks)
                self.moves.append(Move(steps.taken(rank), dst, False, place))

    def emit(self) -> Imported:
        steps, plan = self.steps, self.plan
        used = dict.fromkeys([self.first, *steps.memories, self.last])
        for memory in used:
            rows = self._start(memory, self._extent(memory))
            if rows:
                shape = (rows, *self.more)
                self.buffers[memory] = plan.buffer(memory.value, shape, self.dtype)
        for rank in range(steps.ranks):
            self._provide(rank)
        tokens = [list(self._move(move)) for move in self.moves]
        everything = self.transfers.tokens
        self._claim(tokens)
        given, result = self.buffers[self.first], self.buffers[self.last]
        if self.source is Source.TILES:
            for rank in range(steps.ranks):
                region = self._region(steps.taken(rank))
                if region is not None:
                    plan.output(region, rank=rank)
        if self.kernel:
            tiles = result if self.source is Source.INPUTS else given
            grid = (-(-tiles.shape[0] // self.cell),)
            footprint = {tiles: (self.cell, *self.more)}
            if self.source is Source.INPUTS:
                plan.bind_tiles("read_tiles", grid, reads=footprint, after=everything)
            else:
                plan.bind_tiles("write_tiles", grid, writes=footprint, after=everything)
        return Imported(plan, given, result)

    def _extent(self, memory: Memory) -> int:
        if memory is self.first:
            return self.steps.chunks if self.is_block else self.steps.extent(Memory.DATA)
        return self.steps.extent(memory)

    def _start(self, memory: Memory, cell: int) -> int:
        """The row where a cell begins."""
        if memory in (Memory.SCRATCH, Memory.FIFO):
            return cell * self.cell
        block, cell = divmod(cell, self.steps.chunks)
        row = block * self.block + min(cell * self.cell, self.block)
        # The blocks that an all-to-all brings are all of one size, and so is the part that is a block.
        padded = self.steps.collective is Collective.ALL_TO_ALL and memory is Memory.OUTPUT
        return row if padded else min(row, self.rows)

    def _provide(self, rank: int) -> None:
        """What a rank starts with."""
        given = self.given[rank]
        # How long a cell of a block is depends on where the block is among all of them.
        ahead = rank * self.steps.chunks if self.is_block else 0
        for _, _, cell in given:
            begin, end = (self._start(Memory.DATA, ahead + cell + edge) for edge in (0, 1))
            self.live[rank, self.first, cell] = end - begin
        region = self._region(given)
        if region is None:
            return
        if self.source is Source.TILES:
            self.transfers.produced(region, rank)
        else:
            self.plan.input(region, rank=rank)

    def _region(self, cells: Cells) -> Chunk | None:
        """The rows of cells that are live."""
        begin = self._start(cells.memory, cells.offset)
        if not cells.count:
            return None
        end = max(self._start(*cell[1:]) + self.live.get(cell, 0) for cell in cells)
        return self.buffers[cells.memory][begin:end] if end > begin else None

    def _move(self, move: Move) -> Iterator[Token]:
        engine = move.engine and not move.reduces and move.src.rank != move.dst.rank
        with self.plan.at(move.place.file, move.place.line):
            for src, dst, rows in self._pieces(move):
                yield self.transfers.move(
                    self.buffers[move.src.memory][src : src + rows],
                    move.src.rank,
                    move.dst.rank,
                    self.buffers[move.dst.memory][dst : dst + rows],
                    reduction=self.steps.reduction if move.reduces else None,
                    direction=Direction.PULL if move.pull else Direction.PUSH,
                    realization="copy_engine" if engine else None,
                )

    def _pieces(self, move: Move) -> list[tuple[int, int, int]]:
        """Rows of the source, of the destination, and their number; as few as there can be."""
        pieces: list[tuple[int, int, int]] = []
        for source, target in zip(move.src, move.dst, strict=True):
            rows = self.live[target] = self.live[source]
            src, dst = self._start(*source[1:]), self._start(*target[1:])
            if rows == 0:
                continue
            if pieces:
                begin, other, count = pieces[-1]
                if (begin + count, other + count) == (src, dst):
                    pieces[-1] = begin, other, count + rows
                    continue
            pieces.append((src, dst, rows))
        return pieces

    def _claim(self, tokens: Sequence[Sequence[Token]]) -> None:
        """Has the compiler prove it once more, if there is an operation of plans for it."""
        steps, plan = self.steps, self.plan
        exchange = steps.collective is Collective.ALL_TO_ALL
        if exchange == steps.in_place:
            return
        count = self.staged + len(steps.moves)
        before = [token for some in tokens[: self.staged] for token in some]
        with plan.claim(after=[token for some in tokens[:count] for token in some]):
            if exchange:
                ends = self.buffers[Memory.INPUT], self.buffers[Memory.OUTPUT]
                plan.all_to_all(*ends, after=before)
            elif steps.collective is Collective.BROADCAST:
                plan.broadcast(self.buffers[Memory.DATA], root=steps.root, after=before)
            elif steps.collective is Collective.ALL_GATHER:
                plan.all_gather(self.buffers[Memory.DATA], after=before)
            elif steps.collective is Collective.REDUCE_SCATTER:
                plan.reduce_scatter(
                    self.buffers[Memory.DATA], reduction=steps.reduction, after=before
                )
            else:
                plan.all_reduce(self.buffers[Memory.DATA], reduction=steps.reduction, after=before)


def _part(cells: Cells, number: int) -> Cells:
    """One of some cells."""
    return replace(cells, offset=cells.offset + number, count=1)


def to_symbol(name: str) -> str:
    """The name of a plan, of what people like to call an algorithm or a tensor."""
    cleaned = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)
    return cleaned[:64] or "imported"
