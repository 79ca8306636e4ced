//===- Passes.td - passes over plans --------------------------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In the order in which `syncopate-plan-pipeline` runs them. Those that need a
// kernel's IR or build the tables are in lowering/Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_PASSES_TD
#define SYNCOPATE_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

def ExpandSpmdPass : Pass<"chunk-expand-spmd", "::syncopate::chunk::PlanOp"> {
  let summary = "Rewrite what every member of a group transfers into puts and gets";
  let description = [{
    Why: passes look at all ranks at once, and know only transfers between two
    of them.

    For one `chunk.transfer` after another, each member of the `chunk.spmd` puts
    or gets its own chunk. A member whose chunk lies outside of the buffers does
    nothing; what comes after that comes after what it comes after.

    Ensures: no `chunk.spmd` is left; users of its token come after all of its
    transfers. Example: test/passes/expand-spmd.mlir.
  }];
}

def DecomposeCollectivesPass
    : Pass<"chunk-decompose-collectives", "::syncopate::chunk::PlanOp"> {
  let summary = "Rewrite collectives into puts and gets";
  let description = [{
    Why: a schedule knows only transfers between two ranks; a collective can be
    carried out by several algorithms.

    Algorithm and direction are those that the collective names with `by`, else
    the options, else the strategy of the plan. With `push`, transfers are puts,
    carried out by those who have the data; with `pull`, gets. Algorithms:
    * `direct`: each member with every other, the next one first, so that no
      destination is hit by all at once. In a reduction, what the others have
      goes into each member's block, one after another.
    * `ring`: blocks travel around the ring in (members - 1) steps, each after
      the one that brought it. In a reduction they grow on the way, and end
      where they belong.
    * `bidirectional_ring`: halves of blocks do so, the first ones forwards, the
      second ones backwards.
    * `hierarchical`: the group is a grid in the mesh; ranks that differ in its
      last dimension only form a node. Gathers and broadcasts go to the other
      nodes first, then on within each; reductions within the node first. So
      each node gets, or gives, a block once. Within a level it is direct.
    * `recursive_doubling`: in each step members exchange all that they have
      with a partner, at twice the distance of the step before. In a reduction
      the distance is halved, and so is what they exchange. The group's size is
      a power of two, but for a broadcast.

    An all_reduce is a reduce_scatter and an all_gather, block by block. An
    all_to_all is always `direct`: blocks would need room at members that pass
    them on. The order in which contributions are combined does not depend on
    time.

    An all_reduce, a reduce_scatter or an all_to_all of what tiles compute whose
    realization is `nccl`, which it names or else the option or the strategy, is
    to be calls of a library, and stays. It is along rows, of a buffer of two
    dimensions that tiles of all ranks compute; no transfer touches it, and
    nothing but the kernel comes after it. A plan has one at most. Other
    collectives that name `nccl` become transfers that name it.

    Ensures: no collective is left but in a `chunk.claim` behind its transfers,
    or as library calls; users of its token come after all of them.
    Errors: an algorithm that there is not for a collective or its group; a
    collective that cannot be library calls.
    Example: test/passes/decompose-collectives.mlir.
  }];
  let options = [
    Option<"algorithm", "algorithm", "std::string", "\"\"",
           "algorithm of collectives that name none (default: the strategy's)">,
    Option<"direction", "direction", "std::string", "\"\"",
           "direction of collectives that name none (default: the strategy's)">,
    Option<"realization", "realization", "std::string", "\"\"",
           "nccl: collectives of what tiles compute become library calls "
           "(default: the strategy's)">
  ];
}

def SplitTransfersPass
    : Pass<"chunk-split-transfers", "::syncopate::chunk::PlanOp"> {
  let summary = "Cut transfers into smaller chunks";
  let description = [{
    Why: a tile may start when its piece has arrived, and a chain of transfers
    can be pipelined.

    Each transfer becomes up to `splits` transfers along its first dimension
    of more than one row, or as many as its size asks for. Where a transfer forwards exactly what its
    predecessor brought, piece i comes after piece i; otherwise after all.

    Pieces of a transfer whose number of rows is read at run time read the same
    number, and leave out the rows of those before them.

    Requires: no collective.
    Errors: more than one piece, if the kernel has `needs`, which counts
    transfers as the plan has them.
    Example: test/passes/split-transfers.mlir, test/passes/split-counted.mlir.
  }];
  let options = [
    Option<"splits", "splits", "int64_t", "0",
           "pieces per transfer (default: the strategy's)">
  ];
}

def AssignRealizationPass
    : Pass<"chunk-assign-realization", "::syncopate::chunk::PlanOp"> {
  let summary = "Choose how each transfer is carried out";
  let description = [{
    Gives a realization to every transfer that has none: between nodes the
    strategy's `between`, if there is one; the option, else the strategy's; and
    if that cannot make its reduction, or is `nccl` within a rank,
    `ldst_dedicated` beside `tma_dedicated`, and else `ldst_colocated`. Nodes
    are ranks that differ in the last dimension of the mesh only.

    By `nccl` one rank sends and another receives. Such a transfer becomes a
    `chunk.get`, for who receives tells all others of it, and of all rows that
    there may be, if their number is read at run time. Transfers of one *exchange*
    come to stand together: a rank sends and receives all of it at the same time.
    Of the transfers from one rank to another each is of an exchange of its own,
    one after another, and behind those of what it comes after.

    If some transfer is carried out by dedicated CTAs, the kernel
    gets `comm_ctas` of them.

    Errors: a realization named by a transfer whose reduction it cannot make, or
    that a copy engine carries out though rows are counted at run time; a rank
    that is to send to itself; fewer dedicated CTAs than dedicated realizations.
    Example: test/passes/assign-realization.mlir.
  }];
  let options = [
    Option<"realization", "realization", "std::string", "\"\"",
           "realization of transfers that name none (default: the strategy's)">,
    Option<"commCtas", "comm_ctas", "int64_t", "0",
           "CTAs that dedicated realizations have (default: the strategy's)">
  ];
}

def CheckPlanPass : Pass<"chunk-check-plan", "::syncopate::chunk::PlanOp"> {
  let summary = "Check that transfers read what is there and do not collide";
  let description = [{
    A pure check. Every byte that a transfer reads is an input of its source
    rank or was brought there by a transfer that it comes after; no two
    transfers that are not ordered write the same bytes, unless both are
    unordered sums, and none writes what
    another that is not ordered with it reads. A transfer that reduces reads its
    destination too. Nothing is read, or given back by a call, that a
    reduce_scatter has left undefined, by what its `chunk.claim` says. (Of tiles
    that is not asked: what they read is said for all ranks alike, and may be
    more than they use.) That an input is overwritten is no mistake of a plan, but
    `chunk-build-tables` refuses it. All that an operation uses stands before it
    in the plan, also where MLIR's verifier, which says so too, is off.
    Kernels are looked at by `chunk-check-kernel`, once it is known what their
    tiles access.

    Requires: no collective. Errors name both transfers.
    Example: test/passes/check-plan-invalid.mlir.
  }];
}

def CheckClaimsPass : Pass<"chunk-check-claims", "::syncopate::chunk::PlanOp"> {
  let summary = "Check that transfers amount to the collectives they claim to be";
  let description = [{
    A pure check. The transfers are carried out on names instead of bytes: of
    every element of every rank it is known of whose inputs it is made. At each
    `chunk.claim` the ranks of the collective have to hold what it says, every
    contribution once, brought by transfers that the claim comes after.

    Requires: no collective outside of a claim; `chunk-check-plan` has passed,
    so that the order of the plan stands for every other. Errors name the rank,
    the block, what is there instead, and the transfer that brought it.
    Example: test/passes/check-claims-invalid.mlir.
  }];
}

def CheckKernelPass : Pass<"chunk-check-kernel", "::syncopate::chunk::PlanOp"> {
  let summary = "Check that tiles read what is there and do not collide";
  let description = [{
    A pure check. Every byte that a tile reads is an input of its rank or was
    brought there by a transfer that the kernel comes after, and no transfer
    that the kernel does not come after writes it: such a transfer could
    overwrite it at any time.

    A tile may write to a buffer of the plan only what is no input and what no
    transfer reads or writes: no transfer waits for tiles yet.

    Requires: no collective; footprints. Errors name the tile, the footprint and
    the transfer. Example: test/passes/check-kernel-invalid.mlir.
  }];
}

def SeparateInputsPass
    : Pass<"chunk-separate-inputs", "::syncopate::chunk::PlanOp"> {
  let summary = "Find the inputs that nothing reads together with other bytes";
  let description = [{
    Why: such an input may lie anywhere else than in its buffer.

    Names on each kernel the buffers of which every rank's input is one block of
    whole rows, or nothing, if neither a tile nor a transfer that the rank
    carries out reads rows of it together with others.

    Requires: no collective; footprints. Ensures: `separate` on the kernel.
    Example: test/lowering/localize-inputs.mlir.
  }];
}

def OrderTilesPass : Pass<"chunk-order-tiles", "::syncopate::chunk::PlanOp"> {
  let summary = "Order each rank's tiles by what they wait for and who waits for them";
  let description = [{
    Why: a CTA that waits computes nothing, and what leaves late is late. The
    policies:
    * `arrival` sorts tiles by the time at which the last chunk that they read
      arrives, in a model where each rank moves its chunks one after another at
      one rate; tiles that read only the rank's own input come first. Of those
      that can start at the same time, tiles that other ranks wait for come
      first, in the order of the transfers that move them. All others keep the
      locality of Triton's grouped order: `group_m` rows of tiles are walked
      column by column.
    * `grouped` ignores arrival and transfers.
    * `paced` interleaves tiles by the ranks that their results are for, or else
      by those that what they wait for comes from, so that every peer has about
      the same at any time: of as many tiles in a row as there are CTAs, each
      has an equal part, in whole columns of `group_m` rows (Entwine).
    * `wave` orders as `arrival` does, but lets what leaves together be complete
      together. CTAs compute positions in turn, so a *wave*, which is computed
      at the same time, is as many positions in a row as there are CTAs
      (FlashOverlap finds out its tiles of a wave by measuring). The tiles of
      one library call, or else those that the same transfers wait for, stand in
      a row, and so in as few waves as hold them. The rows of tiles that
      they lie in are cut into stripes of about the same height, `group_m` at
      most, which are walked column by column: no stripe reaches into what
      leaves later. `arrival` cuts the whole grid into stripes instead.
    * `given` keeps the tiles of the `chunk.schedule` operations that stand in
      the plan.

    The steps of a tile that walks them come by the arrival of what they read,
    and else as the kernel takes them; with `grouped`, or if they are `ordered`,
    all as the kernel takes them. With `given` they keep the order that stands in
    the plan, if it has one. Tiles that need not differ share a list.

    Tiles of a kernel with `needs` come by their first coordinate. If a
    reduce_scatter or an all_to_all is library calls, tiles of the blocks of all
    ranks take turns, since a call takes as many of each.

    Requires: realizations; a footprint for each bound argument.
    Ensures: one `chunk.schedule` per kernel and rank, with its `tiles`; no
    `tile` on transfers.
    Errors: a tile that reads what no input or transfer provides; an order that
    is to be given and is not there, or is not one of all tiles.
    Example: test/passes/order-tiles.mlir, test/passes/order-tiles-paced.mlir,
    test/passes/order-tiles-wave.mlir, test/passes/order-tiles-given.mlir.
  }];
  let options = [
    Option<"order", "order", "std::string", "\"\"",
           "arrival, grouped, paced, wave or given (default: the strategy's)">,
    Option<"groupM", "group_m", "int64_t", "0",
           "rows of tiles that stay together (default: the strategy's)">
  ];
}

def OrderTransfersPass
    : Pass<"chunk-order-transfers", "::syncopate::chunk::PlanOp"> {
  let summary = "Order each rank's transfers by when their tiles are done";
  let description = [{
    Why: what carries transfers out does so one by one in the order of the plan.
    One that waits for late tiles would hold up all behind it, whose tiles are
    done.

    Where some transfer that comes after no other waits for tiles that stand in
    the order before those that an earlier one of the same executor and
    realization waits for, all such transfers are sorted by the positions of the
    last tiles that they wait for, and take each other's places. What comes after
    other transfers keeps its place, if those stand before it, or else comes
    right behind them: it waits for other ranks as well, and would hold up what
    only waits for tiles. Where nothing has to move the plan stays as it is.

    Requires: `chunk-order-tiles`. Ensures: transfers come after what they come
    after. Example: test/passes/order-transfers.mlir.
  }];
}

def AssignSlotsPass : Pass<"chunk-assign-slots", "::syncopate::chunk::PlanOp"> {
  let summary = "Say which library call takes each tile, and where it is stored";
  let description = [{
    Why: a library moves one large message much faster than many small ones, and
    all of a call has to lie in one piece. So tiles that are done at about the
    same time, on all ranks, go together, and are stored side by side.

    A *wave* is as many tiles as the kernel has CTAs, and what a call takes at a
    time is a tile or a whole row of them, as `slots` of the strategy says. In
    the order in which the last rank completes them they are cut into calls of so
    many waves. Where ranks have blocks of their own, a call takes as many of
    each block; if one has fewer left, slots stay empty. A slot holds what a call
    takes at a time, or a row of it if some tile has rows of several blocks: such
    a tile is stored in parts, those of each rank in slots of their own. Slots
    are numbered call
    by call, and within a call part by part; in front of those of a
    reduce_scatter of rows there are as many as a rank's results take.

    Requires: `chunk-order-tiles`; footprints of what tiles write.
    Ensures: `slots` and `slot_parts`, the same ones on all ranks, if a
    collective is library calls.
    Errors: tiles that do not write rectangles of one size, at multiples of it.
    Example: test/passes/assign-slots.mlir.
  }];
}

def UseTileRingPass : Pass<"chunk-use-tile-ring", "::syncopate::chunk::PlanOp"> {
  let summary = "Let tiles hand transfers over to the role beside them";
  let description = [{
    Why: a co-located role that moves what its own CTA has just computed need
    not hear of it through global memory. The computing warps tell it which tile
    is done through a ring of records in shared memory.

    A put of a co-located realization is handed over if it waits for nothing of
    this call but one tile of its rank, and for no other transfer. There is one
    ring in a CTA, of the realization that has most such transfers.

    Between the tiles of its CTA such a role looks at its queue without
    waiting. It waits for what stands in the queue only before its first tile,
    as far as that comes after no tile, and behind its last one. So if a tile
    of any rank needs what stands later in a role's queue, by way of whatever
    transfers, that rank has no ring, and its tiles announce by flags what they
    have computed. So do tiles that several CTAs compute, since none of these
    knows beforehand whether it will store the tile.

    Requires: realizations; footprints. Ensures: `tile` on the transfers that
    are handed over, and on no other. Example: test/passes/use-tile-ring.mlir.
  }];
}

def AllocateSignalsPass
    : Pass<"chunk-allocate-signals", "::syncopate::chunk::PlanOp"> {
  let summary = "Give every transfer a flag, and lay the flags out";
  let description = [{
    Flag i says that transfer i, counted in the order of the plan, is complete;
    it has the same number on every rank. Behind them stand per rank: its twin
    for streams, `ready`, `done` and their twins; see `SignalLayout`.

    Ensures: `signal` on every transfer, `signals` on the plan.
    Example: test/passes/allocate-signals.mlir.
  }];
}

def PlaceWaitsPass : Pass<"chunk-place-waits", "::syncopate::chunk::PlanOp"> {
  let summary = "Say which flags each tile waits for";
  let description = [{
    A tile waits for the transfers that bring what it reads, but no more often
    than needed: of several transfers that one rank carries out in order, only
    for the last; and not for what an earlier tile of the same CTA has waited
    for. What it reads at a step it waits for before that step, unless an earlier
    one has. Tile p of the order is computed by CTA p modulo `ctas`. Tiles of a
    kernel with `needs` all name the same transfers, one by one in the order of
    the plan, since each leaves out some at run time.

    Requires: `chunk-order-tiles`, `chunk-allocate-signals`.
    Ensures: columns `wait_begin`, `wait_end` in `tiles`, and in `steps` if tiles
    walk any, and `waits`; no table
    of `chunk-build-tables`, which would name rows of an earlier `waits`.
    Errors: a schedule that does not order each tile of the grid once; a signal
    that is not its transfer's number; tiles of a kernel with `needs` that do not
    read alike.
    Example: test/passes/place-waits.mlir, test/passes/counted.mlir,
    test/passes/steps.mlir.
  }];
}

def CheckTablesPass : Pass<"chunk-check-tables", "::syncopate::chunk::PlanOp"> {
  let summary = "Check that the schedule tables keep what the plan promises";
  let description = [{
    A pure check, of the tables alone: it knows the rules of a call, and nothing
    of how the tables were made. It carries out one call of all ranks
    symbolically, and notes for every command and tile what is known to be over
    when it starts: which commands of each queue, in this call and in the one
    before, and whose input is in place. So it finds what any interleaving
    could do, and also

    * a command that moves anything but its transfer's region, or no command;
    * a transfer that starts before one that it comes after is complete, or
      before the input that it reads is in place;
    * a tile, or a step of one, that starts before a transfer that writes what
      it reads is complete, and a tile that does not take each of its steps once;
    * a transfer of a call, or a new input, that may overwrite what is still
      read or written in the call before;
    * a call that ends while something is on its way to the rank's memory, or
      while the rank's stream is still at work;
    * a library call of another collective, of other slots than those of its
      tiles, before these are done, or unlike that of another rank; a tile that
      is stored while a call may still read its slot;
    * a flag that is raised twice, a twin that is raised again before it was
      taken down or that no stream takes down, a wait for what nobody raises, or
      for more than is raised;
    * ranks that wait for each other in a circle;
    * rows, flags, ranks and bytes that are not there.

    A pipelined loop may wait for a tile before it stores the one before, and a
    tile may wait until the role beside it has taken up what the one before has
    handed over: both are taken to be so always.

    Requires: `chunk-check-plan` and `chunk-check-kernel` have passed; complete
    tables. Errors name the rank, the transfer and the other side.
    Examples: test/passes/check-tables-invalid.mlir,
    test/passes/check-tables-tiles-invalid.mlir.
  }];
}

#endif // SYNCOPATE_PASSES_PASSES_TD
