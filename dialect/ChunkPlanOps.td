//===- ChunkPlanOps.td - plans and what stands in them --------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_DIALECT_CHUNKPLANOPS_TD
#define SYNCOPATE_DIALECT_CHUNKPLANOPS_TD

include "dialect/ChunkAttrs.td"
include "dialect/ChunkBase.td"
include "dialect/ChunkInterfaces.td"
include "dialect/ChunkTypes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Chunk_Op<string opMnemonic, list<Trait> traits = []>
    : Op<Chunk_Dialect, opMnemonic, traits>;

/// An operation that stands in the body of a plan.
class Chunk_PlanBodyOp<string opMnemonic, list<Trait> traits = []>
    : Chunk_Op<opMnemonic, !listconcat([HasParent<"PlanOp">], traits)>;

def Chunk_PlanOp : Chunk_Op<"plan", [
    IsolatedFromAbove, NoRegionArguments, NoTerminator, SingleBlock, Symbol,
    SymbolTable]> {
  let summary = "a communication plan of all ranks";
  let description = [{
    Holds buffers, the regions that ranks bring along, transfers in the order
    in which each rank carries its own out, and the kernels bound to them.

    `mesh` gives the ranks as an n-d grid in row-major order; their number is
    the product of its entries. `strategy` holds the choices that passes make
    where a transfer does not say otherwise. `signals` is the layout of the
    flags, written by `chunk-allocate-signals`. `slots`, by
    `chunk-build-tables`, has a row for each buffer that holds slots one below
    the other instead of rows: its number in the plan, `rows` and `columns` of a
    slot, and the `count` of slots.

    Constraints:
    * (plan_c1) `mesh` has at least one entry, all are positive, and there are
      at most 4096 ranks.
    * (plan_c2) buffer names are unique.
    * (plan_c3) there is at most one kernel.
    * (plan_c4) there is at most one schedule per rank.
    * (plan_c5) the body holds operations of plans only, so that every buffer
      and every token comes from one of them.
    * (plan_c6) there are at most 2^20 transfers.
    * (plan_c7) there are at most 2^23 tiles on all ranks together.
    * (plan_c8) names of plans, buffers, kernels and their arguments are valid
      UTF-8.

    Example:

    ```mlir
    chunk.plan @gather mesh [2] {
      %a = chunk.buffer "a" : !chunk.buffer<256x64xbf16>
      chunk.input %a[0, 0] sizes [128, 64] on 0 : !chunk.buffer<256x64xbf16>
      chunk.input %a[128, 0] sizes [128, 64] on 1 : !chunk.buffer<256x64xbf16>
      %t = chunk.all_gather %a axis 0 group [0, 1] : !chunk.buffer<256x64xbf16>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       DenseI64ArrayAttr:$mesh,
                       OptionalAttr<Chunk_StrategyAttr>:$strategy,
                       OptionalAttr<Chunk_TableAttr>:$signals,
                       OptionalAttr<Chunk_TableAttr>:$slots);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `mesh` $mesh (`strategy` $strategy^)? (`signals` $signals^)?
    attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    static constexpr int64_t kMaxRanks = 4096;
    /// What the passes can handle in seconds and in a few gigabytes.
    static constexpr int64_t kMaxTransfers = int64_t(1) << 20;
    static constexpr int64_t kMaxTilesOfRanks = int64_t(1) << 23;
    /// Number of ranks.
    int64_t getNumRanks();
    /// The strategy, or that of all defaults.
    StrategyAttr getStrategyOrDefault();
    /// Buffers in order of appearance; a buffer's index in tables is its
    /// position here.
    ::llvm::SmallVector<BufferOp> getBuffers();
  }];
}

def Chunk_BufferOp : Chunk_PlanBodyOp<"buffer"> {
  let summary = "a symmetric buffer";
  let description = [{
    One instance of the same shape on every rank, reachable from every rank.

    Example: `%a = chunk.buffer "a" : !chunk.buffer<512x512xbf16>`.
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs Chunk_BufferType:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
  let hasVerifier = 1;
}

/// A region of one rank's instance of a buffer.
class Chunk_RegionOp<string opMnemonic> : Chunk_PlanBodyOp<opMnemonic> {
  let arguments = (ins Chunk_BufferType:$buffer,
                       DenseI64ArrayAttr:$offsets,
                       DenseI64ArrayAttr:$sizes,
                       I64Attr:$rank);
  let assemblyFormat = [{
    $buffer `` $offsets `sizes` $sizes `on` $rank attr-dict `:` type($buffer)
  }];
  let hasVerifier = 1;
}

def Chunk_InputOp : Chunk_RegionOp<"input"> {
  let summary = "a region that a rank holds when a call starts";
  let description = [{
    What the caller of the program provides on that rank. Everything else in
    the buffer is undefined until a transfer brings it or a tile computes it.

    Constraints:
    * (input_c1) the rank is in [0, number of ranks).
    * (input_c2) the region lies inside the buffer, as a transfer's does.
    * (input_c3) the region is at most 2^16 slices, as a transfer's is.

    Example: `chunk.input %a[0, 0] sizes [2, 4] on 0 : !chunk.buffer<4x4xf32>`.
  }];
}

def Chunk_ProduceOp : Chunk_PlanBodyOp<"produce"> {
  let summary = "a region that a rank's tiles compute";
  let description = [{
    What the kernel that is bound to the plan writes on that rank in the course
    of a call. A transfer that reads the region, or writes to it, comes after
    the token, and then starts as soon as those tiles are done whose part of the
    region it touches.

    With `reduce`, tiles add to what is there. It is brought by transfers that
    the tokens in `after` come after; each tile waits for those that bring its
    part. Its stores are atomic then, rounded once in the buffer's type.

    Constraints:
    * (produce_c1) the rank is in [0, number of ranks).
    * (produce_c2) the region lies inside the buffer, as a transfer's does.
    * (produce_c3) the region is at most 2^16 slices, as a transfer's is.
    * (produce_c4) there are tokens to come after only with a reduction, which
      is `sum`.

    Example:

    ```mlir
    %t0 = chunk.produce %p[0, 0] sizes [2, 4] on 0 : !chunk.buffer<4x4xf32>
    %t1 = chunk.put %p[0, 0] to %p[0, 0] sizes [2, 4] from 0 to 1 after(%t0)
      : !chunk.buffer<4x4xf32> to !chunk.buffer<4x4xf32>
    %t2 = chunk.produce %p[0, 0] sizes [2, 4] on 1 reduce sum after(%t1)
      : !chunk.buffer<4x4xf32>
    ```
  }];
  let arguments = (ins Chunk_BufferType:$buffer,
                       DenseI64ArrayAttr:$offsets,
                       DenseI64ArrayAttr:$sizes,
                       I64Attr:$rank,
                       OptionalAttr<Chunk_ReductionAttr>:$reduction,
                       Variadic<Chunk_TokenType>:$dependencies);
  let results = (outs Chunk_TokenType:$token);
  let assemblyFormat = [{
    $buffer `` $offsets `sizes` $sizes `on` $rank (`reduce` `` $reduction^)?
    (`after` `(` $dependencies^ `)`)? attr-dict `:` type($buffer)
  }];
  let hasVerifier = 1;
}

def Chunk_OutputOp : Chunk_RegionOp<"output"> {
  let summary = "a region that a call gives back";
  let description = [{
    What the caller finds on that rank when the call is over: what transfers or
    tiles have left there.

    Constraints:
    * (output_c1) the rank is in [0, number of ranks).
    * (output_c2) the region lies inside the buffer, as a transfer's does.
    * (output_c3) the region is at most 2^16 slices, as a transfer's is.
    * (output_c4) a rank has at most one output in a buffer.

    Example:
    `chunk.output %p[2, 0] sizes [2, 4] on 1 : !chunk.buffer<4x4xf32>`.
  }];
}

def Chunk_JoinOp : Chunk_PlanBodyOp<"join", [Pure]> {
  let summary = "all of several tokens";
  let description = [{
    Constraints:
    * (join_c1) there is at least one token.

    Example: `%t = chunk.join %t0, %t1`.
  }];
  let arguments = (ins Variadic<Chunk_TokenType>:$dependencies);
  let results = (outs Chunk_TokenType:$token);
  let assemblyFormat = "$dependencies attr-dict";
  let hasVerifier = 1;
}

#endif // SYNCOPATE_DIALECT_CHUNKPLANOPS_TD
