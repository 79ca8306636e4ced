//===- Passes.td - passes over plans together with Triton's IR ------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// These work on a module that holds, beside the plan, modules called `ttir`
// (the kernel before TritonGPU's passes), `ttgir` (the same after them: what
// becomes the fused kernel) and `device` (the device library).
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_PASSES_TD
#define SYNCOPATE_LOWERING_PASSES_TD

include "mlir/Pass/PassBase.td"

def InferTileFootprintsPass
    : Pass<"chunk-infer-tile-footprints", "::mlir::ModuleOp"> {
  let summary = "Find out which region of each argument a tile accesses";
  let description = [{
    Why: which chunks a tile waits for follows from what it reads.

    Looks at every access by a bound argument in `@ttir`: loads and stores by
    pointers, by descriptors, and by descriptors that the kernel makes of
    pointers. Their addresses have to be sums of tile coordinates, lanes of
    tensors and loops inside the tile, with constant factors; `integers` of
    `chunk.kernel` gives the values of arguments. Divisions and remainders of
    coordinates by constants are kept; `x % c` of lanes, `min`, `max` and `select`
    make several footprints, of which those that a tile does not take lie outside
    the buffer. Masks, branches and the bounds of loops narrow a region.

    What a tile reads lies in its footprints, which may be more: all of a
    dimension whose offset runs on without a bound that is understood. What it
    writes is exactly the region of its footprints: a store that might leave out
    part of it is an error. Atomics are not inferred.

    What is read and what is written of an argument is inferred each for itself,
    unless a `chunk.footprint` says it already.

    Where tiles walk steps, by markers of their own, `chunk.steps` is inferred of
    what the marker takes, unless it is there, and a step is one more coordinate
    of what is read. Loops over steps go over all of them, by what the markers
    give alone; no address follows the order of their turns.

    Schedules assume that CTA c computes the tiles at positions c, c + `ctas`,
    c + 2 `ctas` and so on, and that it reads nothing before it has waited. So,
    wherever `@ttir` has the kernel, this pass checks that
    * each tile marker stands in the body of a loop from the program's number by
      `ctas` to the number of tiles, and takes its variable for the position; or,
      where each program computes one tile, takes the program's number;
    * each access by a bound argument stands behind a tile marker, in the body
      that holds the marker, and can be seen: a pointer is not turned into an
      integer, stored, or handed to a function or to assembly;
    * no address, of whatever memory, is made of the position in the order;
    * stores to one argument stand behind one marker.

    Errors: what breaks one of these, with what was expected; an access that is
    not understood, with the access, the value, and the annotation to write; a
    plan inside another module than the pass runs on. Examples:
    test/lowering/infer-tile-footprints.mlir,
    test/lowering/infer-tile-footprints-pointers.mlir,
    test/lowering/infer-tile-footprints-loops.mlir,
    test/lowering/infer-tile-footprints-steps.mlir.
  }];
}

def BuildTablesPass
    : Pass<"chunk-build-tables", "::syncopate::chunk::PlanOp"> {
  let summary = "Write the command, signal and call tables of each rank";
  let description = [{
    Requires: `chunk-place-waits`. Ensures: every table of every
    `chunk.schedule`; run again, it replaces them.

    Beside what tokens ask for, it adds what keeps one call apart from the
    next, without a barrier: a transfer into a rank waits until all that read
    the place there have ended the call before; a transfer from an input waits
    until the input is in place. Examples: test/lowering/build-tables.mlir,
    test/lowering/build-tables-tiles.mlir.
  }];
  let options = [
    Option<"pause", "pause", "int64_t", "-1",
           "nanoseconds that a co-located role rests after each block that "
           "it stores to another rank (default: the strategy's)">
  ];
}

def LocalizeInputsPass : Pass<"chunk-localize-inputs", "::mlir::ModuleOp"> {
  let summary = "Let tiles read the rank's own input where the caller keeps it";
  let description = [{
    Why: copying the input into the symmetric buffer first costs the time of a
    copy at every call, and only other ranks need it there.

    For a bound argument `x`, a descriptor, of which the kernel has a companion
    `sy_input_x` that describes the rank's own input, every bulk load of `x`
    chooses between the two by its row: rows of the input come from the
    companion, at rows counted from the begin of the input. For an input that no
    argument is bound to, nothing is to be rewritten.

    The code is the same whether the plan lets the input lie elsewhere or not:
    where it is not `separate`, the host says that no rows are the rank's own.

    Requires: `chunk-separate-inputs`. Ensures: `localized` on the kernel names
    the buffer, if it was done; it is not where no rank has an input in it, where
    another argument is bound to the same buffer, or where a use of the
    descriptor is not understood. Of a buffer without an argument, the input has
    to be `separate`.
    Example: test/lowering/localize-inputs.mlir.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def SpliceKernelPass : Pass<"chunk-splice-kernel", "::mlir::ModuleOp"> {
  let summary = "Put the device operations into the kernel";
  let description = [{
    Replaces every tile marker of `@ttgir` by a `chunk.read_tile` and a
    `chunk.wait`, markers of steps by `chunk.tile_steps`, `chunk.read_step` and
    a `chunk.wait`, follows the stores of chunks that the plan says tiles compute
    by a `chunk.finish_tile`, lets those that are to add do so, by TMA or in
    float32, and puts the body of the kernel into a `chunk.roles` beside a role
    for each device realization that transfers of the plan have.
    Where CTAs in front are dedicated to some, the kernel's own code sees the
    others only: both its program's number and the number of programs are less
    by `comm_ctas`. The result does not depend on the schedule, only on that and
    on the roles.

    Errors: a kernel without a marker, or whose warps Triton has specialized;
    stores of which it cannot be told what tile they belong to, or which is its
    last. Examples: test/lowering/splice-kernel-invalid.mlir,
    test/lowering/splice-kernel.mlir, test/lowering/finish-tile.mlir,
    test/lowering/finish-tile-pointers.mlir.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
}

def ConvertChunkToTritonGPUPass
    : Pass<"convert-chunk-to-triton-gpu", "::mlir::ModuleOp"> {
  let summary = "Replace device operations by the device library's code";
  let description = [{
    Each device operation of `@ttgir` becomes the body of the function of
    `@device` that has its name, and `chunk.roles` the outline given there.
    A part of the outline may hold pieces of code, each between a marker that
    names it and a yield; they are what that part alone can say, since it sees
    the shared memory of the outline. A copy of a piece takes the place of every
    marker in that part that uses it. The modules `@ttir` and `@device` are
    erased.

    Ensures: `@ttgir` holds no chunk operation, and is what Triton takes.
    Examples: test/lowering/convert-chunk-to-triton-gpu.mlir,
    test/lowering/convert-chunk-to-triton-gpu-pieces.mlir.
  }];
}

#endif // SYNCOPATE_LOWERING_PASSES_TD
