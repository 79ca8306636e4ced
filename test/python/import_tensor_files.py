"""Files of XLA with one collective and the product beside it, written here in the forms that jax and XLA print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
COMBINE = {"sum": np.add, "max": np.maximum, "min": np.minimum}
REGIONS = {"sum": "add", "max": "maximum", "min": "minimum"}


@dataclass(frozen=True)
class Case:
    """A collective of StableHLO.

    Attributes:
        kind: Its name there.
        shape: Of the operand of each rank.
        groups: Groups of ranks, or pairs of a source and a target.
        axis: What is gathered, scattered or split.
        concat: Where an all-to-all puts together what arrives.
        reduction: sum, max or min.
        product: None, "before" or "behind": where the product is.
        columns: Of the product's second factor, or its K.
    """

    kind: str
    shape: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    axis: int = 0
    concat: int = 0
    reduction: str = "sum"
    product: str | None = None
    columns: int = 32
    dtype: str = "f32"

    @property
    def ranks(self) -> int:
        return 1 + max(rank for group in self.groups for rank in group)

    @property
    def result(self) -> tuple[int, ...]:
        shape, width = list(self.shape), len(self.groups[0])
        if self.kind == "all_gather":
            shape[self.axis] *= width
        if self.kind in ("reduce_scatter", "all_to_all"):
            shape[self.axis] //= width
        if self.kind == "all_to_all":
            shape[self.concat] *= width
        return tuple(shape)

    def expect(self, operands: Sequence[Array]) -> list[Array]:
        """What ranks have behind it, as the specification of StableHLO says."""
        results: list[Array] = [np.zeros(self.result, operands[0].dtype)] * self.ranks
        for group in self.groups:
            given = [operands[rank] for rank in group]
            if self.kind == "collective_permute":
                results[group[1]] = given[0]
                continue
            for position, rank in enumerate(group):
                if self.kind == "all_gather":
                    results[rank] = np.concatenate(given, self.axis)
                elif self.kind == "collective_broadcast":
                    results[rank] = given[0]
                elif self.kind == "all_to_all":
                    parts = [np.split(part, len(group), self.axis)[position] for part in given]
                    results[rank] = np.concatenate(parts, self.concat)
                else:
                    total = COMBINE[self.reduction].reduce(given)
                    results[rank] = (
                        total
                        if self.kind == "all_reduce"
                        else np.split(total, len(group), self.axis)[position]
                    )
        return results


def stablehlo(case: Case, *, generic: bool = False) -> str:
    """The module as jax prints it for `shard_map`, with operations in generic form if asked for."""
    operand, result = (
        f"tensor<{'x'.join(map(str, shape))}x{case.dtype}>" for shape in (case.shape, case.result)
    )
    named = "source_target_pairs" if case.kind == "collective_permute" else "replica_groups"
    groups = str([list(group) for group in case.groups])
    attributes = [
        "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>",
        f"{named} = dense<{groups}> : tensor<{len(case.groups)}x{len(case.groups[0])}xi64>",
    ]
    attributes += {
        "all_gather": [f"all_gather_dim = {case.axis} : i64", "use_global_device_ids"],
        "all_reduce": ["use_global_device_ids"],
        "reduce_scatter": [f"scatter_dimension = {case.axis} : i64", "use_global_device_ids"],
        "all_to_all": [
            f"concat_dimension = {case.concat} : i64",
            f"split_count = {len(case.groups[0])} : i64",
            f"split_dimension = {case.axis} : i64",
        ],
    }.get(case.kind, [])
    region = ""
    if case.kind in ("all_reduce", "reduce_scatter"):
        scalar, word = f"tensor<{case.dtype}>", f"stablehlo.{REGIONS[case.reduction]}"
        step = f'"{word}"(%x, %y) : ({scalar}, {scalar}) -> {scalar}'
        region = (
            f" ({{\n    ^bb0(%x: {scalar}, %y: {scalar}):\n"
            f"      %z = {step if generic else f'{word} %x, %y : {scalar}'}\n"
            f"      stablehlo.return %z : {scalar}\n    }})"
        )
    a, moved = "%arg0", case.shape
    lines, more = [], operand
    if case.product == "before":
        more = f"tensor<{'x'.join(map(str, (*moved[:-1], case.columns)))}x{case.dtype}>"
        weight = f"tensor<{case.columns}x{moved[-1]}x{case.dtype}>"
        lines.append(f"    %0 = {_dot(generic, '%arg0', more, weight, operand)}")
        a = "%0"
    lines.append(
        f'    %1 = "stablehlo.{case.kind}"({a}) <{{{", ".join(sorted(attributes))}}}>{region} : ({operand}) -> {result}'
    )
    last = "%1", result
    if case.product == "behind":
        weight = f"tensor<{case.result[-1]}x{case.columns}x{case.dtype}>"
        out = f"tensor<{'x'.join(map(str, (*case.result[:-1], case.columns)))}x{case.dtype}>"
        lines.append(f"    %2 = {_dot(generic, '%1', result, weight, out)}")
        last = "%2", out
    if case.product is None:
        weight = f"tensor<{case.dtype}>"
    body = "\n".join([*lines, f"    return {last[0]} : {last[1]}"])
    return (
        f"module @jit_f attributes {{mhlo.num_partitions = {case.ranks} : i32, mhlo.num_replicas = 1 : i32}} {{\n"
        f'  func.func public @main(%arg0: {more}, %arg1: {weight}) -> ({last[1]} {{jax.result_info = "result"}}) {{\n'
        f"{body}\n  }}\n}}\n"
    )


def _dot(generic: bool, lhs: str, lhs_type: str, rhs_type: str, out: str) -> str:
    last = lhs_type.count("x", 0, lhs_type.rindex("x"))
    if generic:
        numbers = f"#stablehlo.dot<lhs_contracting_dimensions = [{last}], rhs_contracting_dimensions = [0]>"
        return (
            f'"stablehlo.dot_general"({lhs}, %arg1) <{{dot_dimension_numbers = {numbers}, precision_config = '
            f"[#stablehlo<precision DEFAULT>]}}> : ({lhs_type}, {rhs_type}) -> {out}"
        )
    return (
        f"stablehlo.dot_general {lhs}, %arg1, contracting_dims = [{last}] x [0], precision = [DEFAULT, DEFAULT] : "
        f"({lhs_type}, {rhs_type}) -> {out}"
    )


def hlo(case: Case) -> str:
    """The module as XLA prints it behind its partitioner."""

    def type_of(shape: Sequence[int]) -> str:
        order = ",".join(map(str, reversed(range(len(shape)))))
        return f"{case.dtype}[{','.join(map(str, shape))}]{{{order}}}"

    groups = ",".join("{" + ",".join(map(str, group)) + "}" for group in case.groups)
    about = {
        "collective_permute": f"source_target_pairs={{{groups}}}",
        "all_gather": f"replica_groups={{{groups}}}, dimensions={{{case.axis}}}, use_global_device_ids=true",
        "reduce_scatter": f"replica_groups={{{groups}}}, use_global_device_ids=true, dimensions={{{case.axis}}}, "
        "to_apply=%combine",
        "all_reduce": f"replica_groups={{{groups}}}, use_global_device_ids=true, to_apply=%combine",
        "all_to_all": f"replica_groups={{{groups}}}, dimensions={{{case.axis}}}",
        "collective_broadcast": f"replica_groups={{{groups}}}",
    }[case.kind]
    name = case.kind.replace("_", "-")
    contracting = "lhs_contracting_dims={%d}, rhs_contracting_dims={0}"
    metadata = 'metadata={op_name="jit(f)/step" stack_frame_id=2}'
    lines = []
    a, given, weight = "%param", case.shape, (1,)
    if case.product == "before":
        given, weight = (*case.shape[:-1], case.columns), (case.columns, case.shape[-1])
        dims = contracting % (len(given) - 1)
        lines.append(f"%dot = {type_of(case.shape)} dot(%param, %param.1), {dims}, {metadata}")
        a = "%dot"
    lines.append(
        f"%{name}.1 = {type_of(case.result)} {name}({a}), channel_id=1, {about}, {metadata}"
    )
    if case.product == "behind":
        weight = case.result[-1], case.columns
        out, dims = (*case.result[:-1], case.columns), contracting % (len(case.result) - 1)
        lines.append(f"%dot = {type_of(out)} dot(%{name}.1, %param.1), {dims}, {metadata}")
    lines[-1] = f"ROOT {lines[-1]}"
    header = "HloModule jit_f, entry_computation_layout={()->()}, allow_spmd_sharding_propagation_to_parameters={false}"
    body = "\n  ".join(
        [
            f"%param = {type_of(given)} parameter(0), sharding={{devices=[{case.ranks},1]<=[{case.ranks}]}}",
            f"%param.1 = {type_of(weight)} parameter(1), sharding={{replicated}}",
            *lines,
        ]
    )
    return (
        f'{header}, num_partitions={case.ranks}\n\nFileNames\n1 "f.py"\n\n'
        f"%combine (x: {case.dtype}[], y: {case.dtype}[]) -> {case.dtype}[] {{\n"
        f"  %x = {case.dtype}[] parameter(0)\n  %y = {case.dtype}[] parameter(1)\n"
        f"  ROOT %z = {case.dtype}[] {REGIONS[case.reduction]}(%x, %y)\n}}\n\n"
        f"ENTRY %main.0_spmd (param: {type_of(given)}, param.1: {type_of(weight)}) -> {type_of(case.result)} {{\n"
        f"  {body}\n}}\n"
    )


ALL2, ALL4, PAIRS = ((0, 1),), ((0, 1, 2, 3),), ((0, 2), (1, 3))
CASES = {
    "gather rows": Case("all_gather", (16, 32), ALL4, product="behind"),
    "gather columns": Case("all_gather", (16, 8), ALL4, 1, product="behind"),
    "gather in groups": Case("all_gather", (8, 32), PAIRS, product="behind"),
    "gather in another order": Case("all_gather", (8, 8), ((2, 0, 1),)),
    "gather the middle": Case("all_gather", (2, 3, 8), ALL4, 1),
    "gather rows of a batch": Case("all_gather", (2, 8, 32), ALL2, product="behind"),
    "scatter rows": Case("reduce_scatter", (16, 32), ALL4, product="before"),
    "scatter columns": Case("reduce_scatter", (8, 32), ALL4, 1, product="before"),
    "scatter in groups": Case("reduce_scatter", (16, 16), PAIRS, product="before"),
    "scatter and multiply": Case("reduce_scatter", (16, 32), ALL2, product="behind"),
    "sum": Case("all_reduce", (12, 32), ALL4, product="before"),
    "sum of a batch": Case("all_reduce", (2, 6, 32), ALL2, product="before"),
    "sum in groups": Case("all_reduce", (8, 16), PAIRS, product="before"),
    "maximum": Case("all_reduce", (5, 7), ALL4, reduction="max"),
    "minimum of blocks": Case("reduce_scatter", (8, 3), PAIRS, reduction="min"),
    "exchange before": Case("all_to_all", (16, 32), ALL4, product="behind"),
    "exchange behind": Case("all_to_all", (16, 32), ALL4, product="before"),
    "exchange in groups": Case("all_to_all", (8, 16), PAIRS, 1, 1),
    "columns to rows": Case("all_to_all", (8, 16), ALL4, 1, 0, product="before"),
    "rows to columns": Case("all_to_all", (8, 16), PAIRS, 0, 1),
    "shift": Case("collective_permute", (8, 32), ((0, 1), (1, 2), (2, 0)), product="behind"),
    "swap": Case("collective_permute", (6,), ((1, 0), (0, 1))),
    "broadcast": Case("collective_broadcast", (8, 32), ((1, 0, 2),), product="behind"),
    "broadcast in groups": Case("collective_broadcast", (5, 3), ((2, 0), (1, 3))),
}
