//===- ChunkCollectiveOps.td - collectives of the chunk dialect -----------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_DIALECT_CHUNKCOLLECTIVEOPS_TD
#define SYNCOPATE_DIALECT_CHUNKCOLLECTIVEOPS_TD

include "dialect/ChunkPlanOps.td"

/// A collective, of a plan or of what a plan claims to be. `about` are its
/// buffers and what else it is about, `words` and `types` how they are written.
class Chunk_CollectiveOp<string opMnemonic, dag about, string words,
                         string types>
    : Chunk_Op<opMnemonic, [
        ParentOneOf<["PlanOp", "ClaimOp"]>,
        DeclareOpInterfaceMethods<Chunk_CollectiveOpInterface>]> {
  let arguments = !con(about,
                       (ins DenseI64ArrayAttr:$group,
                            Variadic<Chunk_TokenType>:$dependencies,
                            OptionalAttr<Chunk_AlgorithmAttr>:$algorithm,
                            OptionalAttr<Chunk_DirectionAttr>:$direction,
                            OptionalAttr<Chunk_RealizationAttr>:$realization));
  let results = (outs Chunk_TokenType:$token);
  let assemblyFormat = words # [{
    `group` $group (`after` `(` $dependencies^ `)`)?
    custom<Algorithm>($algorithm, $direction)
    (`realize` `` $realization^)? attr-dict `:`
  }] # types;
}

/// A collective on the blocks of one buffer, in place.
class Chunk_InPlaceCollectiveOp<string opMnemonic, dag more = (ins),
                                string words = "">
    : Chunk_CollectiveOp<opMnemonic,
        !con((ins Chunk_BufferType:$buffer), more, (ins I64Attr:$axis)),
        "$buffer " # words # " `axis` $axis ", "type($buffer)"> {
  let extraClassDefinition = [{
    TypedValue<BufferType> $cppClass::getSrc() { return getBuffer(); }
    TypedValue<BufferType> $cppClass::getDst() { return getBuffer(); }
    std::optional<int64_t> $cppClass::getCutAxis() { return getAxis(); }
  }];
}

def Chunk_AllGatherOp : Chunk_InPlaceCollectiveOp<"all_gather"> {
  let summary = "gather the members' blocks of a buffer at all members";
  let description = [{
    Member i holds block i; afterwards every member holds all blocks.

    The constraints are those of `CollectiveOpInterface`.

    Example:
    `%t = chunk.all_gather %a axis 0 group [0, 1] : !chunk.buffer<4x4xf32>`.
  }];
}

def Chunk_ReduceScatterOp : Chunk_InPlaceCollectiveOp<"reduce_scatter",
    (ins Chunk_ReductionAttr:$reduction), "`reduce` `` $reduction"> {
  let summary = "reduce the members' buffers, each member one block";
  let description = [{
    Every member holds all blocks; afterwards block i of member i is the sum,
    maximum or minimum of all members' blocks i. What becomes of the other
    blocks is undefined.

    The constraints are those of `CollectiveOpInterface`.

    Example: `%t = chunk.reduce_scatter %a reduce sum axis 0 group [0, 1] : !chunk.buffer<4x4xf32>`.
  }];
}

def Chunk_AllReduceOp : Chunk_InPlaceCollectiveOp<"all_reduce",
    (ins Chunk_ReductionAttr:$reduction), "`reduce` `` $reduction"> {
  let summary = "reduce the members' buffers, at all members";
  let description = [{
    Every member holds all blocks; afterwards every block of every member is
    the sum, maximum or minimum of all members'. It is a reduce_scatter and
    an all_gather of the same blocks.

    The constraints are those of `CollectiveOpInterface`.

    Example: `%t = chunk.all_reduce %a reduce sum axis 0 group [0, 1] : !chunk.buffer<4x4xf32>`.
  }];
}

def Chunk_AllToAllOp : Chunk_CollectiveOp<"all_to_all",
    (ins Chunk_BufferType:$src, Chunk_BufferType:$dst, I64Attr:$axis,
         OptionalAttr<DenseI64ArrayAttr>:$rows),
    "$src `to` $dst `axis` $axis (`rows` $rows^)? ",
    "type($src) `to` type($dst)"> {
  let summary = "send each member's blocks to all members";
  let description = [{
    Every member holds all blocks of `src`; afterwards block j of member i is in
    block i of `dst` at member j, the member's own block included. A block of
    `dst` has as many rows as the first one of `src`. Where the blocks of `src`
    are not all of one size, what comes to member j takes the first rows of
    each block of `dst`, and the others stay as they are.

    It is never in place: each block would have to leave its place before, and
    after, another one comes there.

    The constraints are those of `CollectiveOpInterface`, and:
    * (all_to_all_c1) `src` and `dst` are two buffers.
    * (all_to_all_c2) both have the same element type.
    * (all_to_all_c3) both have the same shape, but that along the axis `dst`
      has the number of members times ceil(dimension of `src` / members) rows;
      with `rows`, any multiple of the number of members.
    * (all_to_all_c4) `rows` has an element for each member and row of `dst`,
      a row of `src` or -1; of a member none twice.

    With `rows`, members send rows instead of blocks: for member after member,
    it has as many elements as `dst` has rows, each the row of `src` that is
    sent, block by block as the member's own rows would lie in `src`. What
    stands at j times the rows of a block plus k goes to member j, and is row k
    of the member's block of `dst` there. For -1 nothing is sent, and the row of
    `dst` stays as it is.

    Examples: `%t = chunk.all_to_all %a to %b axis 0 group [0, 1] : !chunk.buffer<3x4xf32> to !chunk.buffer<4x4xf32>`,
    `%t = chunk.all_to_all %a to %b axis 0 rows [2, 0, 1, -1, 0, -1, 1, 2] group [0, 1] : !chunk.buffer<3x4xf32> to !chunk.buffer<4x4xf32>`.
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// A rectangle of `src` and where it comes to lie in `dst`.
    struct Piece {
      ::llvm::SmallVector<int64_t, 4> srcOffsets, dstOffsets, sizes;
    };
    /// What one member sends to another.
    ::llvm::SmallVector<Piece> getPieces(int64_t from, int64_t to);
    /// The same as rows of `src`, or -1, if it is said by rows.
    ::llvm::ArrayRef<int64_t> getRowsOf(int64_t from, int64_t to);
  }];
  let extraClassDefinition = [{
    std::optional<int64_t> $cppClass::getCutAxis() { return getAxis(); }
  }];
}

def Chunk_BroadcastOp : Chunk_CollectiveOp<"broadcast",
    (ins Chunk_BufferType:$buffer, I64Attr:$root), "$buffer `root` $root ",
    "type($buffer)"> {
  let summary = "bring one member's buffer to all members";
  let description = [{
    Rank `root` holds the buffer; afterwards every member does.

    The constraints are those of `CollectiveOpInterface`, and:
    * (broadcast_c1) the root is a rank of the group.

    Example:
    `%t = chunk.broadcast %a root 1 group [0, 1] : !chunk.buffer<4x4xf32>`.
  }];
  let hasVerifier = 1;
  let extraClassDefinition = [{
    TypedValue<BufferType> $cppClass::getSrc() { return getBuffer(); }
    TypedValue<BufferType> $cppClass::getDst() { return getBuffer(); }
    std::optional<int64_t> $cppClass::getCutAxis() { return std::nullopt; }
  }];
}

def Chunk_ClaimOp : Chunk_PlanBodyOp<"claim", [
    NoRegionArguments, NoTerminator, SingleBlock]> {
  let summary = "what transfers amount to";
  let description = [{
    Says that once the transfers in `after`, and all that they come after, are
    complete, the collective in the body has been carried out. It is executed by
    nobody; `chunk-check-claims` proves it. `chunk-decompose-collectives` leaves
    one behind for every collective, and a plan that was written out by hand or
    brought from elsewhere says with it what it is.

    Constraints:
    * (claim_c1) the body holds one collective, whose token nobody uses.

    Example:

    ```mlir
    chunk.claim after(%t0, %t1) {
      %t = chunk.all_gather %a axis 0 group [0, 1] : !chunk.buffer<4x4xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Chunk_TokenType>:$dependencies);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`after` `(` $dependencies^ `)`)? attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
}

#endif // SYNCOPATE_DIALECT_CHUNKCOLLECTIVEOPS_TD
