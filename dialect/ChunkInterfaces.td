//===- ChunkInterfaces.td - interfaces of the chunk dialect ---------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_DIALECT_CHUNKINTERFACES_TD
#define SYNCOPATE_DIALECT_CHUNKINTERFACES_TD

include "mlir/IR/OpBase.td"

def Chunk_TransferOpInterface : OpInterface<"TransferOpInterface"> {
  let cppNamespace = "::syncopate::chunk";
  let description = [{
    A transfer of one chunk from one rank to one other: `chunk.put` and
    `chunk.get`. Passes handle both through this interface; they differ in who
    executes the transfer.

    Constraints (checked once, for every implementation):
    * (transfer_c1) both ranks are in [0, number of ranks of the plan).
    * (transfer_c2) offsets and sizes have as many entries as the buffer has
      dimensions.
    * (transfer_c3) sizes are positive, and the region lies inside the buffer
      on both sides; in a dynamic dimension it ends before 2^48, and all of it
      has fewer than 2^48 bytes.
    * (transfer_c4) both buffers have the same element type.
    * (transfer_c5) a transfer within one rank and one buffer does not overlap
      itself.
    * (transfer_c6) the region is at most 2^16 slices, each of which is rows
      with one stride on both sides: what one command can move.
    * (transfer_c7) there are 1 to 4096 `parts`; several of them are combined,
      so there is a reduction, and come with a `step`, which has as many entries
      as the buffer has dimensions, none negative, and which keeps each part
      apart from the next one.
    * (transfer_c8) `behind` is in [0, `parts`], and 0 without a reduction.
    * (transfer_c9) an `unordered` reduction is a sum of one part, of elements
      of f32, f16, bf16 or i32.
    * (transfer_c10) what its number of rows is read from is a buffer of i32 of
      one dimension, an element of it, and a number of rows to leave out that
      is not negative and below 2^31.
    * (transfer_c11) if its number of rows is read, these are at most 2^31 - 1,
      and each is contiguous on both sides.
  }];
  let methods = [
    InterfaceMethod<"Buffer the bytes come from.",
      "::mlir::TypedValue<::syncopate::chunk::BufferType>", "getSrc">,
    InterfaceMethod<"Buffer the bytes go to.",
      "::mlir::TypedValue<::syncopate::chunk::BufferType>", "getDst">,
    InterfaceMethod<"Offsets of the chunk in the source.",
      "::llvm::ArrayRef<int64_t>", "getSrcOffsets">,
    InterfaceMethod<"Offsets of the chunk in the destination.",
      "::llvm::ArrayRef<int64_t>", "getDstOffsets">,
    InterfaceMethod<"Sizes of the chunk.",
      "::llvm::ArrayRef<int64_t>", "getSizes">,
    InterfaceMethod<"How many chunks of the source are combined.", "int64_t",
                    "getParts">,
    InterfaceMethod<"Distance of their offsets from one to the next, if there "
                    "are several.",
      "::std::optional<::llvm::ArrayRef<int64_t>>", "getStep">,
    InterfaceMethod<"Offsets of one of the chunks that are combined.",
      "::llvm::SmallVector<int64_t, 4>", "getPartOffsets",
      (ins "int64_t":$part), [{
        ::llvm::SmallVector<int64_t, 4> offsets($_op.getSrcOffsets());
        if (part > 0)
          for (auto [offset, distance] : ::llvm::zip(offsets, *$_op.getStep()))
            offset += part * distance;
        return offsets;
      }]>,
    InterfaceMethod<"Rank that holds the source.", "int64_t", "getSrcRank">,
    InterfaceMethod<"Rank that holds the destination.", "int64_t",
                    "getDstRank">,
    InterfaceMethod<"How it is combined with what is at the destination, if it "
                    "does not overwrite that.",
      "::std::optional<::syncopate::chunk::Reduction>", "getReduction">,
    InterfaceMethod<"Whether others may combine theirs with the same elements "
                    "at the same time.", "bool", "getUnordered">,
    InterfaceMethod<"How many of the parts stand before what is there.",
      "int64_t", "getBehind">,
    InterfaceMethod<"The buffer that its number of rows is read from, or null.",
      "::mlir::TypedValue<::syncopate::chunk::BufferType>", "getCounts">,
    InterfaceMethod<"The element that is read, and the rows that come before "
                    "the chunk's.",
      "::std::optional<::llvm::ArrayRef<int64_t>>", "getCountAt">,
    InterfaceMethod<"Tokens that the transfer comes after.",
      "::mlir::Operation::operand_range", "getDependencies">,
    InterfaceMethod<"Token of its completion.",
      "::mlir::TypedValue<::syncopate::chunk::TokenType>", "getToken">,
    InterfaceMethod<"Realization, if one was assigned.",
      "::std::optional<::syncopate::chunk::Realization>", "getRealization">,
    InterfaceMethod<"Assigns a realization.", "void", "setRealization",
      (ins "::std::optional<::syncopate::chunk::Realization>":$realization)>,
    InterfaceMethod<"The tile of the executor that hands the transfer over to "
                    "the role beside it, if one does.",
      "::std::optional<uint64_t>", "getTile">,
    InterfaceMethod<"Lets a tile do so.", "void", "setTile",
      (ins "::std::optional<uint64_t>":$tile)>,
    InterfaceMethod<"Flag that says the transfer is complete, if allocated.",
      "::std::optional<uint64_t>", "getSignal">,
    InterfaceMethod<"Allocates the flag.", "void", "setSignal",
      (ins "::std::optional<uint64_t>":$signal)>,
    InterfaceMethod<"Rank that carries the transfer out.", "int64_t",
                    "getExecutor">,
  ];
  let verify = [{ return verifyTransfer($_op); }];
}

def Chunk_CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::syncopate::chunk";
  let description = [{
    What the members of a group do together. A buffer is cut along an axis into
    as many blocks as the group has members, each of ceil(dimension / members)
    rows, the last ones shorter or empty; block i belongs to member i. A
    `chunk.broadcast` has no axis: its one block is the buffer. All are in
    place but `chunk.all_to_all`.

    `by` names the algorithm, the direction, or both, as in `by ring pull`;
    what is not named is chosen by `chunk-decompose-collectives`, which also
    says which algorithm there is for which collective.

    Constraints (checked once, for every implementation):
    * (collective_c1) the axis is a dimension of the buffer.
    * (collective_c2) the group has at least two members, all of them ranks of
      the plan, none twice.
    * (collective_c3) every dimension of the buffer is static.
    * (collective_c4) a block is at most 2^16 slices, as a transfer's is.
    * (collective_c5) a realization that it names is `nccl`: it is to be library
      calls, or transfers by NCCL. Others are of transfers.
  }];
  let methods = [
    InterfaceMethod<"The buffer that is read.",
      "::mlir::TypedValue<::syncopate::chunk::BufferType>", "getSrc">,
    InterfaceMethod<"The buffer that is written.",
      "::mlir::TypedValue<::syncopate::chunk::BufferType>", "getDst">,
    InterfaceMethod<"The dimension that is cut, if one is.",
      "::std::optional<int64_t>", "getCutAxis">,
    InterfaceMethod<"The members' ranks.", "::llvm::ArrayRef<int64_t>",
                    "getGroup">,
    InterfaceMethod<"Tokens that the collective comes after.",
      "::mlir::Operation::operand_range", "getDependencies">,
    InterfaceMethod<"The algorithm, if it is named.",
      "::std::optional<::syncopate::chunk::Algorithm>", "getAlgorithm">,
    InterfaceMethod<"The direction, if it is named.",
      "::std::optional<::syncopate::chunk::Direction>", "getDirection">,
    InterfaceMethod<"The realization, if it is not to be decomposed.",
      "::std::optional<::syncopate::chunk::Realization>", "getRealization">,
    InterfaceMethod<"Says that it is not to be decomposed.", "void",
      "setRealization",
      (ins "::std::optional<::syncopate::chunk::Realization>":$realization)>,
    InterfaceMethod<"Token of its completion.",
      "::mlir::TypedValue<::syncopate::chunk::TokenType>", "getToken">,
    InterfaceMethod<"Offsets and sizes of a member's block of the source; the "
                    "size along the axis is zero if it is empty. All of the "
                    "buffer, for every member, if it is not cut.",
      "std::pair<::llvm::SmallVector<int64_t, 4>, "
      "::llvm::SmallVector<int64_t, 4>>",
      "getBlock", (ins "int64_t":$member), [{
        ::syncopate::chunk::BufferType type = $_op.getSrc().getType();
        if (::std::optional<int64_t> axis = $_op.getCutAxis())
          return ::syncopate::chunk::getBlock(type, *axis,
                                              $_op.getGroup().size(), member);
        return ::syncopate::chunk::getBlock(type, 0, 1, 0);
      }]>,
  ];
  let verify = [{ return verifyCollective($_op); }];
}

#endif // SYNCOPATE_DIALECT_CHUNKINTERFACES_TD
