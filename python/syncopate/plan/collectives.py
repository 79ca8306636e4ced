"""Builders of collectives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from syncopate.mlir.dialects import chunk as ops
from syncopate.plan.arguments import to_enum, to_integer, to_integers
from syncopate.plan.body import Buffer, PlanBody, Token

__all__ = ["Collectives"]


class Collectives(PlanBody):
    """The part of a plan's builder that adds collectives."""

    def all_gather(
        self,
        buffer: Buffer,
        *,
        axis: int = 0,
        group: Sequence[int] | None = None,
        after: Iterable[Token] = (),
        algorithm: str | None = None,
        direction: str | None = None,
    ) -> Token:
        """Adds an all-gather: afterwards every member holds the blocks of all members.

        Args:
            buffer: The buffer, gathered in place; member i holds block i along `axis`.
            axis: Dimension that is cut.
            group: Members; all ranks by default.
            after: Transfers that have to be complete before.
            algorithm: direct, ring, bidirectional_ring, hierarchical or recursive_doubling, if the strategy is not to
                choose; docs/plans.md says what they are.
            direction: push or pull, if the strategy is not to choose.

        Raises:
            PlanError: A rule of `chunk.all_gather` is broken.
        """
        about = to_integer("axis", axis)
        return self._collective(
            ops.AllGatherOp, {"buffer": buffer}, about, group, after, algorithm, direction
        )

    def reduce_scatter(
        self,
        buffer: Buffer,
        *,
        reduction: str = "sum",
        axis: int = 0,
        group: Sequence[int] | None = None,
        after: Iterable[Token] = (),
        algorithm: str | None = None,
        direction: str | None = None,
        realization: str | None = None,
    ) -> Token:
        """Adds a reduce-scatter: afterwards member i has in its block i what all members had there, combined.

        Args:
            buffer: The buffer, which every member holds, reduced in place; what becomes of other blocks is undefined.
            reduction: sum, max or min.
            axis: Dimension that is cut.
            group: Members; all ranks by default.
            after: Transfers that have to be complete before.
            algorithm: As of `all_gather`.
            direction: As of `all_gather`.
            realization: nccl makes it calls of the library, if the strategy is not to choose.

        Raises:
            PlanError: A rule of `chunk.reduce_scatter` is broken.
        """
        about = to_integer("axis", axis)
        kind, buffers = ops.ReduceScatterOp, {"buffer": buffer}
        return self._collective(
            kind,
            buffers,
            about,
            group,
            after,
            algorithm,
            direction,
            reduction,
            realization=realization,
        )

    def all_reduce(
        self,
        buffer: Buffer,
        *,
        reduction: str = "sum",
        axis: int = 0,
        group: Sequence[int] | None = None,
        after: Iterable[Token] = (),
        algorithm: str | None = None,
        direction: str | None = None,
        realization: str | None = None,
    ) -> Token:
        """Adds an all-reduce: afterwards every member has everywhere what all members had there, combined.

        Arguments and errors are those of `reduce_scatter`; the axis says how the buffer is cut on the way.
        """
        about = to_integer("axis", axis)
        kind, buffers = ops.AllReduceOp, {"buffer": buffer}
        return self._collective(
            kind,
            buffers,
            about,
            group,
            after,
            algorithm,
            direction,
            reduction,
            realization=realization,
        )

    def all_to_all(
        self,
        src: Buffer,
        dst: Buffer,
        *,
        axis: int = 0,
        group: Sequence[int] | None = None,
        after: Iterable[Token] = (),
        algorithm: str | None = None,
        direction: str | None = None,
        realization: str | None = None,
    ) -> Token:
        """Adds an all-to-all: afterwards block j of member i is in block i of member j.

        Args:
            src: The buffer that is read, which every member holds.
            dst: Another one that is written. Its shape is that of `src`, but for members * ceil(size / members) rows
                along `axis`.
            axis: Dimension that is cut.
            group: Members; all ranks by default.
            after: Transfers that have to be complete before.
            algorithm: direct, if the strategy is not to choose; there is no other.
            direction: As of `all_gather`.
            realization: As of `reduce_scatter`.

        Raises:
            PlanError: A rule of `chunk.all_to_all` is broken.
        """
        about = to_integer("axis", axis)
        buffers = {"src": src, "dst": dst}
        return self._collective(
            ops.AllToAllOp,
            buffers,
            about,
            group,
            after,
            algorithm,
            direction,
            realization=realization,
        )

    def broadcast(
        self,
        buffer: Buffer,
        *,
        root: int,
        group: Sequence[int] | None = None,
        after: Iterable[Token] = (),
        algorithm: str | None = None,
        direction: str | None = None,
    ) -> Token:
        """Adds a broadcast: afterwards every member holds what the root did.

        Args:
            buffer: The buffer, all of which the root holds.
            root: A rank of the group.
            group: Members; all ranks by default.
            after: Transfers that have to be complete before.
            algorithm: As of `all_gather`.
            direction: As of `all_gather`.

        Raises:
            PlanError: A rule of `chunk.broadcast` is broken.
        """
        about = to_integer("root", root)
        return self._collective(
            ops.BroadcastOp, {"buffer": buffer}, about, group, after, algorithm, direction
        )

    def _collective(
        self,
        kind: Any,
        buffers: Mapping[str, Buffer],
        about: int,
        group: Sequence[int] | None,
        after: Iterable[Token],
        algorithm: str | None,
        direction: str | None,
        *reduction: str,
        realization: str | None = None,
    ) -> Token:
        """Adds a collective; `about` is the number that stands before its group."""
        values = [self._own_buffer(name, buffer).value for name, buffer in buffers.items()]
        members = range(self.world_size) if group is None else to_integers("group", group)
        tokens = self._own_tokens(after)
        with self._here():
            op = kind(
                *values,
                *(to_enum("reduction", word, ops.Reduction) for word in reduction),
                about,
                list(members),
                tokens,
                algorithm=to_enum("algorithm", algorithm, ops.Algorithm),
                direction=to_enum("direction", direction, ops.Direction),
                realization=to_enum("realization", realization, ops.Realization),
            )
            return self._checked_token(op, realization)
