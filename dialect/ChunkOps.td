//===- ChunkOps.td - plan operations of the chunk dialect -----------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_DIALECT_CHUNKOPS_TD
#define SYNCOPATE_DIALECT_CHUNKOPS_TD

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

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

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
    flags, written by `chunk-allocate-signals`.

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
                       OptionalAttr<Chunk_TableAttr>:$signals);
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

//===----------------------------------------------------------------------===//
// Transfers
//===----------------------------------------------------------------------===//

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
    (ins Chunk_BufferType:$src, Chunk_BufferType:$dst, I64Attr:$axis),
    "$src `to` $dst `axis` $axis ", "type($src) `to` type($dst)"> {
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
      has the number of members times ceil(dimension of `src` / members) rows.

    Example: `%t = chunk.all_to_all %a to %b axis 0 group [0, 1] : !chunk.buffer<3x4xf32> to !chunk.buffer<4x4xf32>`.
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Offsets in `dst` at which what comes from a member begins.
    ::llvm::SmallVector<int64_t, 4> getSlot(int64_t member);
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

//===----------------------------------------------------------------------===//
// Rank-affine form
//===----------------------------------------------------------------------===//

def Chunk_SpmdOp : Chunk_PlanBodyOp<"spmd", [
    NoRegionArguments, NoTerminator, SingleBlock]> {
  let summary = "what every member of a group transfers, written once";
  let description = [{
    Each `chunk.transfer` in the body is carried out by every member of the
    group, which differ only in their position in it: offsets and peers are
    affine in that. All of it comes after the tokens in `after`; the token is
    that of all transfers.

    It means what `chunk-expand-spmd` makes of it: for one transfer after
    another, a put or get of each member.

    Constraints:
    * (spmd_c1) the group has at least one member, all of them ranks of the
      plan, none twice.
    * (spmd_c2) the body holds transfers only, at least one.

    Example: an all_gather around a ring of three.

    ```mlir
    %t = chunk.spmd group [0, 1, 2] {
      %0 = chunk.transfer push %a at affine_map<(i) -> (i * 2, 0)>
        to %a at affine_map<(i) -> (i * 2, 0)> sizes [2, 4]
        peer affine_map<(i) -> ((i + 1) mod 3)>
        : !chunk.buffer<6x4xf32> to !chunk.buffer<6x4xf32>
      %1 = chunk.transfer push %a at affine_map<(i) -> ((i - 1) mod 3 * 2, 0)>
        to %a at affine_map<(i) -> ((i - 1) mod 3 * 2, 0)> sizes [2, 4]
        peer affine_map<(i) -> ((i + 1) mod 3)>
        after(%0 at affine_map<(i) -> ((i - 1) mod 3)>)
        : !chunk.buffer<6x4xf32> to !chunk.buffer<6x4xf32>
    }
    ```
  }];
  let arguments = (ins DenseI64ArrayAttr:$group,
                       Variadic<Chunk_TokenType>:$dependencies);
  let results = (outs Chunk_TokenType:$token);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `group` $group (`after` `(` $dependencies^ `)`)? attr-dict-with-keyword
    $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Chunk_TransferOp : Chunk_Op<"transfer", [HasParent<"SpmdOp">]> {
  let summary = "a transfer of every member of a group";
  let description = [{
    With `push`, member i puts the chunk at `src` to `dst` at the member whose
    position is given by `peer`; with `pull`, it gets it from there. The maps
    take i. What lies outside of either buffer at its end is left out, so that
    the last blocks may be shorter, or empty: then nothing is transferred, and
    what comes after this comes after what this comes after.

    `after(%t at map)` comes after the transfer `%t` of the member whose
    position the map gives; without a map, after the same member's.

    Constraints:
    * (spmd_transfer_c1) the maps take one dimension, give as many offsets as
      the buffers have dimensions, or one position, and are affine as those of
      footprints are.
    * (spmd_transfer_c2) for every member, peers and those in `after` are
      positions in the group.
    * (spmd_transfer_c3) for every member, offsets are not negative.
    * (spmd_transfer_c4) tokens in `after` are those of transfers of the same
      body.
    * (spmd_transfer_c5) some member transfers something; what each does keeps
      the constraints of `TransferOpInterface`.
  }];
  let arguments = (ins Chunk_DirectionAttr:$direction,
                       Chunk_BufferType:$src,
                       AffineMapAttr:$src_offsets,
                       Chunk_BufferType:$dst,
                       AffineMapAttr:$dst_offsets,
                       DenseI64ArrayAttr:$sizes,
                       AffineMapAttr:$peer,
                       OptionalAttr<Chunk_ReductionAttr>:$reduction,
                       Variadic<Chunk_TokenType>:$dependencies,
                       AffineMapArrayAttr:$members,
                       OptionalAttr<Chunk_RealizationAttr>:$realization);
  let results = (outs Chunk_TokenType:$token);
  let assemblyFormat = [{
    `` $direction $src `at` $src_offsets `to` $dst `at` $dst_offsets
    `sizes` $sizes `peer` $peer (`reduce` `` $reduction^)?
    custom<MemberTokens>($dependencies, $members)
    (`realize` `` $realization^)? attr-dict `:` type($src) `to` type($dst)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// What a member transfers, if anything is left of it. Requires that the
    /// constraints up to the third hold.
    std::optional<Route> getRoute(int64_t member);
    /// The position of the member whose transfer a member's comes after, for
    /// one of the tokens.
    int64_t getMember(unsigned token, int64_t member);
  }];
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

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
    * (kernel_c2) `ctas` is in [1, 2^31), and so is its sum with `comm_ctas`,
      which is not negative.
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
    * `slots`, by `chunk-group-tiles`, if a collective is library calls: of each
      tile, row-major in the grid, in which `call` it is, the `slot` in which it
      is stored, alone or in a row of tiles, and the `second` one of a tile of two ranks' blocks, or -1.
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
                       OptionalAttr<Chunk_TableAttr>:$steps,
                       OptionalAttr<Chunk_TableAttr>:$tile_steps);
  let assemblyFormat = "$kernel `rank` $rank attr-dict";
  let hasVerifier = 1;
  let builders = [
    /// The order of a rank's tiles alone.
    OpBuilder<(ins "::mlir::FlatSymbolRefAttr":$kernel, "int64_t":$rank,
                   "TableAttr":$tiles), [{
      build($_builder, $_state, kernel, $_builder.getI64IntegerAttr(rank),
            tiles, TableAttr{}, TableAttr{}, TableAttr{}, TableAttr{},
            TableAttr{}, TableAttr{}, TableAttr{}, TableAttr{}, TableAttr{});
    }]>
  ];
}

include "dialect/ChunkDeviceOps.td"

#endif // SYNCOPATE_DIALECT_CHUNKOPS_TD
