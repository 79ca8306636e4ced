"""Tensor maps that a role makes itself, in the scratch memory of its CTA."""

from __future__ import annotations

from collections.abc import Sequence

from syncopate.sim.findings import Kind, SimulationError, Stop
from syncopate.sim.global_memory import Descriptor
from syncopate.sim.role_shared import SharedRole
from syncopate.sim.values import Element

__all__ = ["MapRole", "TensorMap"]


class TensorMap:
    """A place in scratch memory that holds one tensor map after the other.

    Attributes:
        name: Where it is.
        fenced: Whether a fence has come between its last change and what uses it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.fenced = self._nan = False
        self._bounds: tuple[int, tuple[int, ...], tuple[int, ...]] | None = None
        self._current: Descriptor | None = None

    @property
    def in_flight(self) -> int:
        """Bulk operations that still use what it holds."""
        return 0 if self._current is None else self._current.in_flight

    def write(
        self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], nan: bool
    ) -> None:
        """Replaces what it holds; strides are in bytes, and lack that of the last dimension."""
        self._nan = nan
        self._bounds, self._current, self.fenced = (address, shape, strides), None, False

    def describe(self, role: SharedRole, kind: Element) -> Descriptor:
        """What it holds, as a descriptor of elements of a type."""
        if self._current is None:
            if self._bounds is None:
                role.machine.report(
                    Kind.OUT_OF_BOUNDS,
                    f"{role.threads.name} uses {self.name}, which is not written",
                )
                raise Stop
            address, shape, strides = self._bounds
            last = sum((n - 1) * s for n, s in zip(shape[:-1], strides, strict=True))
            region, offset = role.memory.find_bytes(address, last + shape[-1] * kind.nbytes)
            elements = (*(stride // kind.nbytes for stride in strides), 1)
            self._current = Descriptor(region, offset, shape, elements, kind, nan=self._nan)
        return self._current


class MapRole(SharedRole):
    """A role that makes tensor maps."""

    def scratch_map(self, name: str) -> TensorMap:
        """The place that an allocation in scratch memory gives, the same each time it is executed."""
        return self.cta.tensor_maps.setdefault(
            name, TensorMap(f"a tensor map of {self.threads.name}")
        )

    def create_map(
        self,
        place: TensorMap,
        address: int,
        sizes: Sequence[int],
        strides: Sequence[int],
        steps: Sequence[int],
        fill: int,
    ) -> None:
        """Writes a tensor map; the innermost dimension comes first, strides are in bytes.

        What lies outside reads as zero, or as NaN if `fill` is 1.
        """
        if any(step != 1 for step in steps):
            raise SimulationError("a tensor map that skips elements is not simulated")
        if place.in_flight:
            self.machine.report(
                Kind.RACE,
                f"{self.threads.name} writes {place.name}, while {place.in_flight} bulk operations that use it are "
                f"under way",
            )
        if address % 16 or any(stride % 16 or stride <= 0 for stride in strides) or min(sizes) < 1:
            self.machine.report(
                Kind.OUT_OF_BOUNDS,
                f"{self.threads.name} makes a tensor map of address {address:#x}, sizes {list(sizes)} and strides "
                f"{list(strides)} bytes, which have to be positive and addresses and strides multiples of 16",
            )
            raise Stop
        place.write(address, tuple(reversed(sizes)), tuple(reversed(strides)), fill == 1)

    def use_map(self, place: TensorMap, kind: Element) -> Descriptor:
        """The descriptor that bulk operations take."""
        if not place.fenced:
            self.machine.report(
                Kind.RACE,
                f"{self.threads.name} uses {place.name} without a fence behind its change",
            )
        return place.describe(self, kind)
