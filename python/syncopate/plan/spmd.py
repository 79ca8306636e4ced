"""The builder of the rank-affine form: what every member of a group transfers, written once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from syncopate.errors import PlanError
from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk as ops
from syncopate.plan.arguments import describe, to_enum, to_integers
from syncopate.plan.body import Chunk, PlanBody, Token, to_expression

__all__ = ["Spmd", "SpmdPlan"]

After = Token | tuple[Token, Any]


class Spmd:
    """What `Plan.spmd` gives: adds transfers that every member carries out.

    Attributes:
        member: The member's position in the group, to calculate with by `+`, `-`, and `*` and `%` with integers.
            Offsets of chunks, peers and members to come after may depend on it.
        size: The number of members.
    """

    def __init__(self, plan: SpmdPlan, member: ir.AffineExpr, size: int) -> None:
        self.member, self.size = member, size
        self._plan = plan
        self._token: Token | None = None

    @property
    def token(self) -> Token:
        """That of all transfers, for what comes after the `with` block.

        Raises:
            PlanError: The block has not ended yet, or was left by an error.
        """
        if self._token is None:
            raise PlanError("spmd: expects its token to be used behind its with block")
        return self._token

    def put(
        self,
        src: Chunk,
        dst: Chunk,
        *,
        peer: Any,
        reduction: str | None = None,
        after: Iterable[After] = (),
        realization: str | None = None,
    ) -> Token:
        """Adds a put of every member.

        Args:
            src: What each member reads of its own. What lies outside of its buffer at the end is left out, so the last
                members may put less, or nothing.
            dst: Where it goes, on the peer; of the same sizes.
            peer: The position of the member that receives.
            reduction: sum, max or min, if what arrives is combined with what is there.
            after: Transfers of this block that have to be complete before, each the same member's, or with the position
                of the member whose it is.
            realization: How it is carried out, if the strategy is not to choose.

        Raises:
            PlanError: A rule of `chunk.transfer` is broken, for some member; the message names it.
        """
        return self._plan._each(self, "push", src, dst, peer, reduction, after, realization)

    def get(
        self,
        src: Chunk,
        dst: Chunk,
        *,
        peer: Any,
        reduction: str | None = None,
        after: Iterable[After] = (),
        realization: str | None = None,
    ) -> Token:
        """Adds a get of every member: `src` is what it reads of the peer, `dst` its own; otherwise like `put`."""
        return self._plan._each(self, "pull", src, dst, peer, reduction, after, realization)


class SpmdPlan(PlanBody):
    """The part of a plan's builder that adds the rank-affine form."""

    @contextmanager
    def spmd(
        self, group: Sequence[int] | None = None, *, after: Iterable[Token] = ()
    ) -> Iterator[Spmd]:
        """Adds transfers that all members carry out alike, each with its own chunks and peers.

            with plan.spmd() as ring:
                own, following = ring.member * 4, (ring.member + 1) % ring.size
                ring.put(a[own : own + 4], a[own : own + 4], peer=following)

        Args:
            group: Members; all ranks by default.
            after: Transfers that have to be complete before any of them.

        Raises:
            PlanError: Something else is added inside, or nothing, or a rule of `chunk.spmd` is broken.
        """
        members = range(self.world_size) if group is None else to_integers("group", group)
        if not members:
            raise PlanError("group: expects at least one rank, but got none")
        tokens = self._own_tokens(after)
        if self._inner is not None:
            raise PlanError(
                "spmd: expects to stand in a plan, but stands in a claim or another spmd"
            )
        with self._here():
            op = ops.SpmdOp(ops.TokenType.get(), list(members), tokens)
            body = op.regions[0].blocks.append()
            each = Spmd(self, ir.AffineExpr.get_dim(0), len(members))
        self._inner, self._spmd = body, each
        try:
            yield each
        except BaseException:
            op.erase()
            raise
        finally:
            self._inner, self._spmd = None, None
        self._checked(op)
        each._token = Token(op.token, self)
        self.tokens.append(each._token)

    def _each(
        self,
        each: Spmd,
        direction: str,
        src: Chunk,
        dst: Chunk,
        peer: Any,
        reduction: str | None,
        after: Iterable[After],
        realization: str | None,
    ) -> Token:
        if each is not self._spmd:
            raise PlanError("spmd: expects transfers inside of its with block, but it has ended")
        self._own_chunk("src", src)
        self._own_chunk("dst", dst)
        if src.sizes != dst.sizes:
            raise PlanError(
                f"dst: expects sizes {list(src.sizes)}, those of src, but got {list(dst.sizes)}"
            )
        if isinstance(after, Token):
            raise PlanError(
                "after: expects a sequence of tokens, but got a single one; write [token]"
            )
        try:
            pairs = [entry if isinstance(entry, tuple) else (entry, None) for entry in after]
        except TypeError:
            raise PlanError(
                f"after: expects a sequence of tokens, but got {describe(after)}"
            ) from None
        for pair in pairs:
            if len(pair) != 2:
                raise PlanError(
                    f"after: expects a token, or a token and a position, but got {describe(pair)}"
                )
        tokens = self._own_tokens(pair[0] for pair in pairs)
        with self._here():
            identity = ir.AffineExpr.get_dim(0)
            positions = [identity if pair[1] is None else pair[1] for pair in pairs]
            op = ops.TransferOp(
                to_enum("direction", direction, ops.Direction),
                src.buffer.value,
                _map("src", src.offsets),
                dst.buffer.value,
                _map("dst", dst.offsets),
                list(src.sizes),
                _map("peer", [peer]),
                tokens,
                ir.ArrayAttr.get([_map("after", [position]) for position in positions]),
                reduction=to_enum("reduction", reduction, ops.Reduction),
                realization=to_enum("realization", realization, ops.Realization),
            )
            self._checked(op, realization)
        return Token(op.token, self, each)


def _map(name: str, values: Sequence[Any]) -> ir.Attribute:
    """The map from a position to these values."""
    results = [to_expression(name, value) for value in values]
    constants = [
        ir.AffineExpr.get_constant(value) if isinstance(value, int) else value for value in results
    ]
    return ir.AffineMapAttr.get(ir.AffineMap.get(1, 0, constants))
