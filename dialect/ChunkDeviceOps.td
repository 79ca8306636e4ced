//===- ChunkDeviceOps.td - device operations of the chunk dialect ---------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operations that stand inside a TritonGPU kernel. `context` is the kernel's
// first argument, a pointer to the 64-bit words described in the device
// library; `input` is its second, a pointer to the rank's own input, wherever
// the caller keeps it. Their types belong to Triton, and are opaque here.
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_DIALECT_CHUNKDEVICEOPS_TD
#define SYNCOPATE_DIALECT_CHUNKDEVICEOPS_TD

include "dialect/ChunkPlanOps.td"

def Chunk_ReadTileOp : Chunk_Op<"read_tile"> {
  let summary = "read a row of the tile table";
  let description = [{
    The coordinates of the tile at `position` of this rank's order, and the
    range of the wait table that it waits for. Executed by all threads of the
    computing warps; reads memory that does not change during a call.

    Example:
    `%c:3, %begin, %end = chunk.read_tile %context[%t] : !tt.ptr<i64>`.
  }];
  let arguments = (ins AnyType:$context, I32:$position);
  let results = (outs I32:$c0, I32:$c1, I32:$c2, I32:$wait_begin,
                      I32:$wait_end);
  let assemblyFormat = "$context `[` $position `]` attr-dict `:` type($context)";
}

def Chunk_TileStepsOp : Chunk_Op<"tile_steps"> {
  let summary = "the rows of the step table that a tile walks";
  let description = [{
    The half-open range of rows of the tile at `position` of this rank's order.
    `own_begin` and `own_end` are the steps that the kernel itself would take
    there, as many as there are rows; only a simulator compares the two. Executed
    by all threads of the computing warps; reads memory that does not change
    during a call.

    Example:
    `%begin, %end = chunk.tile_steps %context[%t] own %from, %to : !tt.ptr<i64>`.
  }];
  let arguments = (ins AnyType:$context, I32:$position, I32:$own_begin,
                       I32:$own_end);
  let results = (outs I32:$begin, I32:$end);
  let assemblyFormat = [{
    $context `[` $position `]` `own` $own_begin `,` $own_end attr-dict
    `:` type($context)
  }];
}

def Chunk_ReadStepOp : Chunk_Op<"read_step"> {
  let summary = "read a row of the step table";
  let description = [{
    Which step row `row` says to take, and the range of the wait table that it
    waits for. Executed and read like a row of the tile table.

    Example:
    `%step, %begin, %end = chunk.read_step %context[%row] : !tt.ptr<i64>`.
  }];
  let arguments = (ins AnyType:$context, I32:$row);
  let results = (outs I32:$step, I32:$wait_begin, I32:$wait_end);
  let assemblyFormat = "$context `[` $row `]` attr-dict `:` type($context)";
}

def Chunk_TileNumberOp : Chunk_Op<"tile_number"> {
  let summary = "read the number of a tile in the tile table";
  let description = [{
    The number of the tile at `position` of this rank's order, row-major in the
    grid, by which the tables name it. Executed by all threads of the computing
    warps; reads memory that does not change during a call.

    Example: `%tile = chunk.tile_number %context[%t] : !tt.ptr<i64>`.
  }];
  let arguments = (ins AnyType:$context, I32:$position);
  let results = (outs I32:$number);
  let assemblyFormat = "$context `[` $position `]` attr-dict `:` type($context)";
}

def Chunk_InputRowsOp : Chunk_Op<"input_rows"> {
  let summary = "the rows of a buffer that are the rank's own input";
  let description = [{
    The half-open range of rows, the same during all calls; empty for a rank
    without input.

    Example: `%begin, %end = chunk.input_rows %context : !tt.ptr<i64>`.
  }];
  let arguments = (ins AnyType:$context);
  let results = (outs I32:$begin, I32:$end);
  let assemblyFormat = "$context attr-dict `:` type($context)";
}

def Chunk_WaitOp : Chunk_Op<"wait"> {
  let summary = "wait for a range of the wait table";
  let description = [{
    Returns when every flag of the range has its value, with acquire semantics
    at system scope, for ordinary and for bulk asynchronous (TMA) loads of the
    CTA that come after it. Executed by all threads of the computing warps. If
    the time limit passes, it records the fault and returns.
  }];
  let arguments = (ins AnyType:$context, I32:$begin, I32:$end);
  let assemblyFormat = [{
    $context `[` $begin `to` $end `]` attr-dict `:` type($context)
  }];
}

def Chunk_TileSumOp : Chunk_Op<"tile_sum"> {
  let summary = "whether a tile adds to what is there, and after what";
  let description = [{
    `adds` is 1 if tile `tile`, row-major in the grid, adds its values to what it
    finds at its place, 0 if it overwrites that. Before it adds, it waits for the
    range of the wait table. The same during all calls.

    Example:
    `%adds, %begin, %end = chunk.tile_sum %context[%tile] : !tt.ptr<i64>`.
  }];
  let arguments = (ins AnyType:$context, I32:$tile);
  let results = (outs I32:$adds, I32:$wait_begin, I32:$wait_end);
  let assemblyFormat = "$context `[` $tile `]` attr-dict `:` type($context)";
}

def Chunk_TileSlotOp : Chunk_Op<"tile_slot"> {
  let summary = "where a tile is stored";
  let description = [{
    The slot of tile `tile`, row-major in the grid, in a buffer that holds slots
    one below the other; and where the table of rows has those of a tile that is
    stored row by row, or -1. The same during all calls.

    Example: `%slot, %rows = chunk.tile_slot %context[%tile] : !tt.ptr<i64>`.
  }];
  let arguments = (ins AnyType:$context, I32:$tile);
  let results = (outs I32:$slot, I32:$rows);
  let assemblyFormat = "$context `[` $tile `]` attr-dict `:` type($context)";
}

def Chunk_StoreRowsOp : Chunk_Op<"store_rows"> {
  let summary = "store rows of a tile, each in a slot of its own";
  let description = [{
    Stores `src`, a block of shared memory, to the buffer that holds slots: each
    row in the slot that the table of rows says, and those to which it gives
    none, nowhere. `rows` is where the table has the first row of the tile, `row`
    and `column` where in the tile and in a slot the block begins. Columns
    beyond those of a slot are left out. Executed by all threads of the
    computing warps, with ordinary stores.

    Example:
    `chunk.store_rows %context[%rows] row %m column %n of %s : !tt.ptr<i64>, !ttg.mem`.
  }];
  let arguments = (ins AnyType:$context, I32:$rows, I32:$row, I32:$column,
                       AnyType:$src);
  let assemblyFormat = [{
    $context `[` $rows `]` `row` $row `column` $column `of` $src attr-dict
    `:` type($context) `,` type($src)
  }];
}

def Chunk_FinishTileOp : Chunk_Op<"finish_tile"> {
  let summary = "say that a tile's stores are issued";
  let description = [{
    Counts tile `tile`, row-major in the grid, as done in its group, once its
    stores are complete; whoever makes the group full raises its signals with
    release semantics at system scope. Executed by all threads of the computing
    warps. With `bulk`, some of the stores are bulk asynchronous (TMA) ones,
    which the threads that issued them wait for first.

    Example: `chunk.finish_tile %context[%tile] bulk : !tt.ptr<i64>`.
  }];
  // Printing a unit attribute takes `getContext` to be that of the operation.
  let arguments = (ins AnyType:$kernel_context, I32:$tile, UnitAttr:$bulk);
  let assemblyFormat = [{
    $kernel_context `[` $tile `]` (`bulk` $bulk^)? attr-dict
    `:` type($kernel_context)
  }];
}

def Chunk_RunCommandsOp : Chunk_Op<"run_commands"> {
  let summary = "carry out this rank's communication commands";
  let description = [{
    The body of a communication role: for each command in order, wait for its
    flags, move the bytes, and raise its signals with release semantics at
    system scope after the last byte. The CTAs that run the role share the
    bytes of each command.
  }];
  let arguments = (ins AnyType:$context, AnyType:$input,
                       Chunk_RealizationAttr:$realization);
  let assemblyFormat = [{
    $context `,` $input `realize` `` $realization attr-dict
    `:` type($context) `,` type($input)
  }];
}

def Chunk_RolesOp : Chunk_Op<"roles", [NoRegionArguments, NoTerminator]> {
  let summary = "one call of a fused kernel: open, run the roles, close";
  let description = [{
    `compute` runs on the kernel's own warps of the computing CTAs. Each
    `communicate` is the role of a realization: that of a co-located one runs
    beside the computation, on further warps of the same CTA; that of a
    dedicated one on CTAs in front of those that compute, which do nothing else.
    Before all of them the call is opened: CTA 0 raises the signals that say
    this rank's input is in place. After they have ended in every CTA, the last
    CTA closes it: it raises the signals that say this rank has finished the
    call, and advances the epoch.

    Constraints:
    * (roles_c1) there are as many realizations as roles that communicate, each
      another one.

    Example:

    ```mlir
    chunk.roles %context, %input : !tt.ptr<i64>, !tt.ptr<i64> compute {
    } communicate ldst_dedicated {
      chunk.run_commands %context, %input realize ldst_dedicated
        : !tt.ptr<i64>, !tt.ptr<i64>
    }
    ```
  }];
  let arguments = (ins AnyType:$context, AnyType:$input,
                       Chunk_RealizationArrayAttr:$realizations);
  let regions = (region AnyRegion:$compute,
                        VariadicRegion<AnyRegion>:$communicate);
  let assemblyFormat = [{
    $context `,` $input attr-dict `:` type($context) `,` type($input)
    `compute` $compute custom<CommunicationRoles>($realizations, $communicate)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The realization of a role.
    Realization getRealization(unsigned role) {
      return ::llvm::cast<RealizationAttr>(getRealizations()[role]).getValue();
    }
  }];
}

#endif // SYNCOPATE_DIALECT_CHUNKDEVICEOPS_TD
