//===- ChunkTransferOps.td - puts and gets of the chunk dialect -----------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_DIALECT_CHUNKTRANSFEROPS_TD
#define SYNCOPATE_DIALECT_CHUNKTRANSFEROPS_TD

include "dialect/ChunkPlanOps.td"

class Chunk_TransferOp<string opMnemonic>
    : Chunk_PlanBodyOp<opMnemonic, [
        AttrSizedOperandSegments,
        DeclareOpInterfaceMethods<Chunk_TransferOpInterface>]> {
  let arguments = (ins Chunk_BufferType:$src,
                       DenseI64ArrayAttr:$src_offsets,
                       Chunk_BufferType:$dst,
                       DenseI64ArrayAttr:$dst_offsets,
                       DenseI64ArrayAttr:$sizes,
                       I64Attr:$src_rank,
                       I64Attr:$dst_rank,
                       OptionalAttr<Chunk_ReductionAttr>:$reduction,
                       UnitAttr:$unordered,
                       DefaultValuedOptionalAttr<I64Attr, "1">:$parts,
                       OptionalAttr<DenseI64ArrayAttr>:$step,
                       DefaultValuedOptionalAttr<I64Attr, "0">:$behind,
                       Optional<Chunk_BufferType>:$counts,
                       OptionalAttr<DenseI64ArrayAttr>:$count_at,
                       Variadic<Chunk_TokenType>:$dependencies,
                       OptionalAttr<Chunk_RealizationAttr>:$realization,
                       OptionalAttr<I64Attr>:$tile,
                       OptionalAttr<I64Attr>:$signal);
  let results = (outs Chunk_TokenType:$token);
  let builders = [
    /// A transfer of one part, in order.
    OpBuilder<(ins "::mlir::Value":$src,
                   "::llvm::ArrayRef<int64_t>":$srcOffsets,
                   "::mlir::Value":$dst,
                   "::llvm::ArrayRef<int64_t>":$dstOffsets,
                   "::llvm::ArrayRef<int64_t>":$sizes, "int64_t":$srcRank,
                   "int64_t":$dstRank, "ReductionAttr":$reduction,
                   "::mlir::ValueRange":$dependencies,
                   CArg<"RealizationAttr", "{}">:$realization), [{
      build($_builder, $_state, TokenType::get($_builder.getContext()), src,
            $_builder.getDenseI64ArrayAttr(srcOffsets), dst,
            $_builder.getDenseI64ArrayAttr(dstOffsets),
            $_builder.getDenseI64ArrayAttr(sizes),
            $_builder.getI64IntegerAttr(srcRank),
            $_builder.getI64IntegerAttr(dstRank), reduction,
            /*unordered=*/nullptr, /*parts=*/nullptr, /*step=*/nullptr,
            /*behind=*/nullptr, /*counts=*/::mlir::Value(),
            /*count_at=*/nullptr, dependencies, realization, /*tile=*/nullptr,
            /*signal=*/nullptr);
    }]>
  ];
  let assemblyFormat = [{
    $src `` $src_offsets (`parts` $parts^ `step` $step)?
    `to` $dst `` $dst_offsets `sizes` $sizes
    `from` $src_rank `to` $dst_rank (`reduce` `` $reduction^)?
    (`unordered` $unordered^)? (`behind` $behind^)?
    (`rows` $counts^ `` $count_at `:` type($counts))?
    (`after` `(` $dependencies^ `)`)?
    (`realize` `` $realization^)?
    (`tile` $tile^)?
    (`signal` $signal^)?
    attr-dict `:` type($src) `to` type($dst)
  }];
}

def Chunk_PutOp : Chunk_TransferOp<"put"> {
  let summary = "push a chunk to another rank";
  let description = [{
    Rank `from` copies the region of `src` to the region of `dst` on rank
    `to`. It is executed by rank `from`, after all tokens in `after`; its
    token says that the bytes are visible at the destination. Transfers of one
    rank start in the order in which they stand in the plan, but for those with
    a `tile`: such a one starts when that tile, of its rank, row-major in the
    grid, is done, and is carried out beside the warps that have computed it.

    With `reduce`, the bytes at the destination become the sum, maximum or
    minimum of what is there and what arrives, element by element. Floating
    point numbers of less than 32 bits are combined in float32, and rounded
    once, when the result is stored.

    `parts` chunks of the source may be combined at once, the first one at its
    offsets and each next one a `step` further. They are combined in this order,
    what is at the destination first, or `behind` so many of them.

    An `unordered` sum is added by atomic operations, each of which rounds: no
    other one on the same elements has to come before or after it, and which of
    them comes first may differ from call to call.

    With `rows %n[i, past]`, how many rows are moved is read when the transfer
    starts, from element i of the executor's own instance of `n`: the first
    `n[i] - past` rows of the chunk along its first dimension, none if that is
    negative, and all if it is more than `sizes` has. The token then says that
    those rows are there. `sizes` is the capacity: everything that is checked
    or allocated goes by it.

    The constraints are those of `TransferOpInterface`.

    Example:

    ```mlir
    %t = chunk.put %a[0, 0] to %a[0, 0] sizes [128, 64] from 0 to 1
      : !chunk.buffer<256x64xbf16> to !chunk.buffer<256x64xbf16>
    %u = chunk.put %a[128, 0] to %a[128, 0] sizes [128, 64] from 0 to 1
      rows %n[1, 0] : !chunk.buffer<2xi32>
      : !chunk.buffer<256x64xbf16> to !chunk.buffer<256x64xbf16>
    %s = chunk.put %a[0, 0] parts 3 step [32, 0] to %b[0, 0] sizes [32, 64]
      from 1 to 1 reduce sum behind 1
      : !chunk.buffer<256x64xbf16> to !chunk.buffer<32x64xbf16>
    %u = chunk.put %a[0, 0] to %b[0, 0] sizes [32, 64] from 0 to 1
      reduce sum unordered
      : !chunk.buffer<256x64xbf16> to !chunk.buffer<32x64xbf16>
    ```
  }];
  let extraClassDefinition = [{
    int64_t $cppClass::getExecutor() { return getSrcRank(); }
  }];
}

def Chunk_GetOp : Chunk_TransferOp<"get"> {
  let summary = "pull a chunk from another rank";
  let description = [{
    Like `chunk.put`, but executed by rank `to`, which reads the source
    remotely.

    Example:

    ```mlir
    %t = chunk.get %a[0, 0] to %a[0, 0] sizes [128, 64] from 0 to 1
      : !chunk.buffer<256x64xbf16> to !chunk.buffer<256x64xbf16>
    ```
  }];
  let extraClassDefinition = [{
    int64_t $cppClass::getExecutor() { return getDstRank(); }
  }];
}

#endif // SYNCOPATE_DIALECT_CHUNKTRANSFEROPS_TD
