//===- ChunkKernelOps.td - kernels and schedules of the chunk dialect -----===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_DIALECT_CHUNKKERNELOPS_TD
#define SYNCOPATE_DIALECT_CHUNKKERNELOPS_TD

include "dialect/ChunkPlanOps.td"

def Chunk_KernelOp : Chunk_PlanBodyOp<"kernel", [
    AttrSizedOperandSegments, NoRegionArguments, NoTerminator,
    SingleBlock]> {
  let summary = "the binding of a local kernel to the buffers of the plan";
  let description = [{
    Every rank runs the kernel called `kernel` with `ctas` persistent CTAs.
    It computes the tiles of the grid `tiles`. In front of them, a launch has
    `comm_ctas` more, set by `chunk-assign-realization`, which carry out the
    transfers of dedicated realizations. `args` says which of its arguments is which buffer; a tile waits for those of the transfers in
    `after` (and of those they come after) that bring what it reads.

    CTA c computes what stands at positions c, c + `ctas`, … of its rank's
    order. With `parts` above 1, each of the tiles that are left for a last
    round that they do not fill is computed by so many CTAs, a part by each: the
    last tiles of the order stand at `parts` positions one behind the other. The
    CTA that comes to the end of its part last stores the tile.

    `separate`, set by `chunk-separate-inputs`, names buffers whose input on a
    rank nothing reads together with what is beside it.

    `localized`, set by `chunk-localize-inputs`, names one of them. Tiles, and
    transfers that the rank carries out, read the rank's own input to it where
    the caller keeps it, so it need not be copied into the buffer for them.

    `integers` holds the values of integer arguments, by name: those that every
    launch passes. What the kernel computes of them is known to passes.

    With `needs(%n[i])`, how many of those transfers a tile waits for is read
    at run time, from element i + c of the rank's own instance of `n` for the
    first coordinate c of the tile: the first so many, in the order of the plan.
    Footprints then say what tiles may read at most. That a tile reads no more
    than these transfers bring is up to whoever fills the buffer.

    The body holds `chunk.footprint`s of bound arguments, and `chunk.steps` if
    tiles walk steps that the schedule orders: written by hand, or by
    `chunk-infer-tile-footprints`.

    Constraints:
    * (kernel_c1) `tiles` has one to three entries, all positive, of fewer
      than 2^22 tiles in all.
    * (kernel_c2) `ctas` is in [1, 2^20), and so is its sum with `comm_ctas`,
      which is not negative: more than any GPU holds at once, few enough for
      tables.
    * (kernel_c3) argument names are unique and as many as the buffers.
    * (kernel_c4) the body holds footprints and steps only; steps are said once
      for all ranks, or once for each.
    * (kernel_c5) `integers` holds 64-bit integers.
    * (kernel_c6) the buffer of `needs` is one of i32 of one dimension, and has
      an entry for each first coordinate behind its first one.
    * (kernel_c7) a kernel with `needs` computes no chunks: its plan has no
      `chunk.produce`.
    * (kernel_c8) `parts` is positive. If it is above 1, the grid has one or two
      dimensions, all parts of the last round have a CTA of their own, and there
      are no `needs`.
    * (kernel_c9) a kernel whose tiles walk steps has neither `needs` nor `parts`.

    Example:

    ```mlir
    chunk.kernel @gemm tiles [4, 2] ctas 8 args(%a as "a_desc")
      after(%t) : !chunk.buffer<512x512xbf16> {
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel,
                       DenseI64ArrayAttr:$tiles,
                       I64Attr:$ctas,
                       DefaultValuedAttr<I64Attr, "0">:$comm_ctas,
                       DefaultValuedAttr<I64Attr, "1">:$parts,
                       Variadic<Chunk_BufferType>:$buffers,
                       StrArrayAttr:$arg_names,
                       Optional<Chunk_BufferType>:$needs,
                       OptionalAttr<I64Attr>:$needs_at,
                       Variadic<Chunk_TokenType>:$dependencies,
                       OptionalAttr<StrArrayAttr>:$separate,
                       OptionalAttr<StrAttr>:$localized,
                       OptionalAttr<DictionaryAttr>:$integers);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    static constexpr int64_t kMaxTiles = int64_t(1) << 22;
    static constexpr int64_t kMaxCtas = int64_t(1) << 20;
    /// Number of tiles of the grid.
    int64_t getNumTiles();
    /// How many tiles of an order, the first ones, a CTA computes alone.
    int64_t getNumWholeTiles();
    /// How many positions an order has.
    int64_t getNumPositions();
    /// Where the tile at a position of the order stands among all of them.
    int64_t getTileAt(int64_t position);
    /// Which part of its tile a position is; none if it is a whole tile.
    ::std::optional<int64_t> getPartAt(int64_t position);
    /// The buffer bound to the argument called `name`, or null.
    ::mlir::TypedValue<BufferType> getBoundBuffer(::llvm::StringRef name);
    /// The footprint ops of the body.
    ::llvm::SmallVector<FootprintOp> getFootprints();
    /// What says which steps the tiles of a rank have; null if nothing does.
    StepsOp getSteps(int64_t rank);
    /// The value of the integer argument called `name`, if it is known.
    ::std::optional<int64_t> getInteger(::llvm::StringRef name);
  }];
}

def Chunk_FootprintOp : Chunk_Op<"footprint", [HasParent<"KernelOp">]> {
  let summary = "the region of an argument that one tile accesses";
  let description = [{
    Tile (m, n, ...) accesses the region of these sizes at the offsets given
    by the map, clipped to the buffer. A map that takes one dimension more is
    that of a read at a step of the tile, whose number is the last one.

    Constraints:
    * (footprint_c1) the argument is bound by the kernel.
    * (footprint_c2) the map takes as many dimensions as the tile grid has, or,
      for a read, one more, gives as many results as the buffer has dimensions,
      and is affine: products and divisions are by constants, divisors are
      positive, and constants are above -2^63.
    * (footprint_c3) there are as many sizes as dimensions, all in [1, 2^48).

    Example:
    `chunk.footprint read "a" at affine_map<(m, n) -> (m * 128, 0)> sizes [128, 512]`.
  }];
  let arguments = (ins Chunk_AccessAttr:$access,
                       StrAttr:$arg,
                       AffineMapAttr:$map,
                       DenseI64ArrayAttr:$sizes);
  let assemblyFormat = [{
    `` $access $arg `at` $map `sizes` $sizes attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether it is accessed at a step of the tile.
    bool takesStep();
  }];
}

def Chunk_StepsOp : Chunk_Op<"steps", [HasParent<"KernelOp">]> {
  let summary = "the steps that each tile walks";
  let description = [{
    Tile (m, n, ...) takes each step from `begin`, the greatest of what that map
    gives, to before `end`, the least of what that one gives, once; none if that
    is empty. In which order is up to the schedule, unless they are `ordered`.
    With `on`, this is so on one rank.

    Constraints:
    * (steps_c1) both maps take as many dimensions as the tile grid has, give at
      least one result, and are affine as those of footprints are.
    * (steps_c2) the rank is in [0, number of ranks).

    Example: causal attention, of tiles of 128 rows and steps of 64.

    ```mlir
    chunk.steps from affine_map<(m, h) -> (0)>
      to affine_map<(m, h) -> (m * 2 + 2, 100)>
    ```
  }];
  let arguments = (ins AffineMapAttr:$begin,
                       AffineMapAttr:$end,
                       OptionalAttr<I64Attr>:$rank,
                       UnitAttr:$ordered);
  let assemblyFormat = [{
    (`on` $rank^)? `from` $begin `to` $end (`ordered` $ordered^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// What a tile's first step and the one behind its last can be.
    static constexpr int64_t kMaxStep = int64_t(1) << 24;
    /// The first step of the tile at these coordinates and the one behind its
    /// last, if both are in [0, kMaxStep].
    ::std::optional<::std::pair<int64_t, int64_t>>
    getRange(::llvm::ArrayRef<int64_t> coordinates);
  }];
}

def Chunk_ScheduleOp : Chunk_PlanBodyOp<"schedule"> {
  let summary = "the schedule tables of one rank";
  let description = [{
    What the fused kernel and the host runner of `rank` read. Passes fill the
    tables one after another:

    * `tiles`, by `chunk-order-tiles`: the tiles in execution order, columns
      `c0, c1, c2`; `chunk-place-waits` adds `wait_begin, wait_end`.
    * `waits`, by `chunk-place-waits` and `chunk-build-tables`: `signal,
      count`; satisfied when the flag has reached `count` times the epoch
      (count 0: when it has reached the epoch before).
    * `commands`, by `chunk-build-tables`: the transfers that this rank
      executes, in order, by their signals' numbers; before them, with number
      -1, those that stage the rank's input for others.
    * `signals`: the flags to raise, `rank, signal, kind` (0: store the
      epoch, 1: store one, 2: add one).
    * `calls`: one row, the waits and signals at the start and end of a call,
      and how many commands of the role that has a ring of tiles come before
      the first tile.
    * `groups`, `tile_groups`, by `chunk-build-tables`: groups of tiles that
      the same transfers wait for, `count, signal_begin, signal_end`, and of
      each tile, row-major in the grid, its `group`, or -1, and the range of the
      commands that it hands over to the role beside it.
    * `slots`, by `chunk-assign-slots`, if a collective is library calls: of each
      tile, row-major in the grid, in which `call` it is, and the `slot` in which
      it is stored, alone or in a row of tiles, the first of several that are a
      row each; or -1 and `begin, end`, rows of `slot_parts`.
    * `slot_parts`, by the same: that many `rows` of a tile from its `row` on are
      stored in slots of a row each from `slot` on.
    * `outputs`, by `chunk-build-tables`, if library calls leave what they bring
      to the rank in slots: that many `rows` of it from `row` on, in the
      `column`-th column of slots, lie one below the other from `slot` on.
    * `steps`, `tile_steps`, if tiles walk steps: by `chunk-order-tiles`, lists of
      them, column `step`, and of each position of the order, which rows its tile
      takes, `begin, end`; `chunk-place-waits` adds `wait_begin, wait_end`.

    Constraints:
    * (schedule_c1) the rank is in [0, number of ranks).
    * (schedule_c2) the plan has a kernel of this name.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel,
                       I64Attr:$rank,
                       OptionalAttr<Chunk_TableAttr>:$tiles,
                       OptionalAttr<Chunk_TableAttr>:$waits,
                       OptionalAttr<Chunk_TableAttr>:$commands,
                       OptionalAttr<Chunk_TableAttr>:$signals,
                       OptionalAttr<Chunk_TableAttr>:$calls,
                       OptionalAttr<Chunk_TableAttr>:$groups,
                       OptionalAttr<Chunk_TableAttr>:$tile_groups,
                       OptionalAttr<Chunk_TableAttr>:$slots,
                       OptionalAttr<Chunk_TableAttr>:$slot_parts,
                       OptionalAttr<Chunk_TableAttr>:$outputs,
                       OptionalAttr<Chunk_TableAttr>:$steps,
                       OptionalAttr<Chunk_TableAttr>:$tile_steps);
  let assemblyFormat = "$kernel `rank` $rank attr-dict";
  let hasVerifier = 1;
}

#endif // SYNCOPATE_DIALECT_CHUNKKERNELOPS_TD
