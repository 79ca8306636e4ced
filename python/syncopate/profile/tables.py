"""What numbers in records stand for, by a program's tables: tiles, transfers, and who raises a flag."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from syncopate.abi import NO_RECORD, LibraryCall, Realization
from syncopate.profile.run import Cause, CauseKind, Key, SpanKind
from syncopate.runtime.commands import split_commands
from syncopate.runtime.faults import describe_signal, name_chunk
from syncopate.runtime.flag_names import waited_flag
from syncopate.runtime.handover import find_handover, tile_numbers
from syncopate.tables import SignalMeaning

__all__ = ["RankNames", "RunNames"]

_OF_RANKS = {SignalMeaning.READY: CauseKind.INPUT, SignalMeaning.DONE: CauseKind.CALL}


class RankNames:
    """One rank's tables.

    Attributes:
        commands: Its rows of commands.
        device_rows: By row of a role's commands as kernels read them, the row of the table.
        numbers: By position, the number of the tile, row-major in the grid; empty if nobody waits for tiles.
        positions: By number of a tile, where it stands in the order: once, or once for each part.
        groups: By row of the groups, the positions of its tiles.
        records: By CTA that computes and number of a record, the position of the tile.
    """

    def __init__(self, program: Any, rank: int) -> None:
        self.rank = rank
        tables = program.rank_tables(rank)
        self.commands: list[dict[str, int]] = tables["commands"].rows()
        self.waits: list[dict[str, int]] = tables["waits"].rows()
        self.tiles: list[dict[str, int]] = tables["tiles"].rows()
        device, _ = split_commands(tables["commands"])
        self.device_rows = [int(row) for row in device]
        grouped = tables["tile_groups"].rows()
        self.numbers: list[int] = tile_numbers(tables).tolist() if grouped else []
        self.positions: dict[int, list[int]] = {}
        for position, number in enumerate(self.numbers):
            self.positions.setdefault(number, []).append(position)
        self.groups: dict[int, list[int]] = {}
        self.records: dict[tuple[int, int], int] = {}
        if grouped:
            record = find_handover(tables, program.num_ctas).record.tolist()
            for number, row in enumerate(grouped):
                self.groups.setdefault(row["group"], []).extend(self.positions[number])
                if record[number] != NO_RECORD:
                    position = self.positions[number][0]
                    self.records[position % program.num_ctas, record[number]] = position
        self.num_groups = len(tables["groups"].values)
        self._dims = len(program.tiles)

    def name_tile(self, position: int) -> str:
        """A tile by its coordinates."""
        row = self.tiles[position]
        coords = [row["c0"], row["c1"], row["c2"]]
        # The third coordinate of a grid of two is the number of a part.
        dims = self._dims if self._dims == 3 or not row["c2"] else 3
        return f"tile ({', '.join(map(str, coords[:dims]))}), position {position}"


class RunNames:
    """The tables of all ranks."""

    def __init__(self, program: Any) -> None:
        self.program = program
        self.ranks = [RankNames(program, rank) for rank in range(program.world_size)]
        self._raisers: dict[tuple[int, int], list[Key]] = {}
        for names in self.ranks:
            signals = program.rank_tables(names.rank)["signals"].rows()
            for number, row in enumerate(names.commands):
                for signal in signals[row["signal_begin"] : row["signal_end"]]:
                    key = Key(SpanKind.TRANSFER, names.rank, number)
                    self._raisers.setdefault((signal["rank"], signal["signal"]), []).append(key)
        self.cause_of_wait = functools.cache(self._cause_of_wait)
        self.name_transfer = functools.cache(self._name_transfer)

    def _cause_of_wait(self, rank: int, wait: int) -> Cause:
        """What a row of a rank's waits is for."""
        row = self.ranks[rank].waits[wait]
        signal = row["signal"]
        meaning, index, _ = self.program.signal_layout.decode(signal)
        flag = waited_flag(self.program, signal, row["count"])
        words = f"{flag}: {describe_signal(self.program, rank, signal)}"
        makers = tuple(self._raisers.get((rank, signal), ()))
        if row["count"] == 0:
            # It guards a place until the call before is over.
            whose = index if meaning is SignalMeaning.DONE else rank
            return Cause(CauseKind.CALL, whose, words)
        if meaning is SignalMeaning.GROUP:
            return self._cause_of_group(index, words)
        if meaning is SignalMeaning.DATA and makers:
            source = self._row(makers[0])["src_rank"]
            return Cause(CauseKind.DATA, source, words, makers)
        kind = _OF_RANKS.get(meaning, CauseKind.ENGINE)
        return Cause(kind, index if meaning in _OF_RANKS else rank, words, makers)

    def _cause_of_group(self, index: int, words: str) -> Cause:
        """Groups are numbered rank by rank."""
        for names in self.ranks:
            if index < names.num_groups:
                tiles = names.groups.get(index, [])
                makers = tuple(Key(SpanKind.TILE, names.rank, position) for position in tiles)
                return Cause(CauseKind.TILES, names.rank, words, makers)
            index -= names.num_groups
        return Cause(CauseKind.TILES, 0, words)

    def _row(self, key: Key) -> Mapping[str, int]:
        return self.ranks[key.rank].commands[key.number]

    def _name_transfer(self, key: Key) -> str:
        """A row of the commands in words."""
        row = self._row(key)
        if row["transfer"] in set(LibraryCall):
            return f"{LibraryCall(row['transfer']).name.lower()} by a library call"
        chunk, how = name_chunk(self.program, row), Realization(row["realization"]).spelling
        size = f"{self.nbytes(key) / 1024:g} KiB"
        if row["transfer"] < 0:
            return f"stages input {chunk} for others, {size}, {how}"
        adds = " and adds" if row["reduction"] else ""
        return f"{chunk} from rank {row['src_rank']} to rank {row['dst_rank']}{adds}, {size}, {how}"

    def source(self, key: Key) -> int:
        """The rank that a transfer reads from."""
        return self._row(key)["src_rank"]

    def nbytes(self, key: Key) -> int:
        """Bytes that a transfer moves; rows that are counted at run time count in full."""
        row = self._row(key)
        return row["rows"] * row["row_bytes"] * max(row["parts"], 1)

    def route(self, key: Key) -> tuple[int, int] | None:
        """From which rank to which a transfer moves data over a link."""
        row = self._row(key)
        ends = (row["src_rank"], row["dst_rank"])
        return None if ends[0] == ends[1] or row["transfer"] < 0 else ends
