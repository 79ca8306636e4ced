//===- decompose/Emitter.h - transfers of one collective -*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_DECOMPOSE_EMITTER_H
#define SYNCOPATE_PASSES_DECOMPOSE_EMITTER_H

#include "dialect/Chunk.h"
#include "passes/Boxes.h"

#include "mlir/IR/Builders.h"

#include <vector>

namespace syncopate {

/// Emits the transfers of one collective, or only counts them. Algorithms say
/// which part goes from which member to which, in an order in which it can be
/// done; what each transfer comes after follows from that.
class Emitter {
public:
  /// Emits with `builder`; counts without one.
  Emitter(chunk::CollectiveOpInterface op, chunk::Direction direction,
          mlir::OpBuilder *builder);

  chunk::CollectiveOpInterface getOp() { return op; }
  int64_t getNumMembers() const { return members; }
  bool isPull() const { return direction == chunk::Direction::Pull; }
  /// The position of a broadcast's root in the group; none for the others.
  std::optional<int64_t> getRoot();
  /// True of collectives that begin by bringing each block, reduced, to its
  /// member, and of those that end by bringing each member's block to all.
  bool isReducing() const { return static_cast<bool>(reduction); }
  bool isGathering();

  /// Cuts each block in so many parts, along its first dimension of more than
  /// one row; the last ones may be empty. Goes before everything else.
  void cutBlocks(int64_t parts);

  /// Copies what `from` has of a part of `count` blocks from `block` on to the
  /// same place at `to`. Comes after what brought it to `from`, or else after
  /// what the collective comes after.
  ///
  /// What is still to be read at `to` may not be overwritten, as nothing is
  /// here: before a block is copied to a member of a reduction, all that has
  /// been read there has become a part of it.
  void copy(int64_t block, int64_t from, int64_t to, int64_t part = 0,
            int64_t count = 1) {
    move(block, from, to, part, count, {});
  }
  /// Likewise, but combines it with what is at `to`, after what came there
  /// before.
  void reduce(int64_t block, int64_t from, int64_t to, int64_t part = 0,
              int64_t count = 1) {
    move(block, from, to, part, count, reduction);
  }
  /// Copies block `to` of the source of an all_to_all from one member to its
  /// place at the other one.
  void exchange(int64_t from, int64_t to);

  int64_t getNumTransfers() const { return transfers; }
  /// The tokens of all transfers.
  llvm::ArrayRef<mlir::Value> getTokens() const { return tokens; }

private:
  void move(int64_t block, int64_t from, int64_t to, int64_t part,
            int64_t count, chunk::ReductionAttr how);
  /// Counts a transfer, or emits it.
  mlir::Value emit(int64_t from, int64_t to, llvm::ArrayRef<int64_t> srcOffsets,
                   llvm::ArrayRef<int64_t> dstOffsets,
                   llvm::ArrayRef<int64_t> sizes, chunk::ReductionAttr how,
                   mlir::ValueRange after);
  /// The transfer that last wrote a part of a block at a member, if any did.
  mlir::Value &getWriter(int64_t member, int64_t block, int64_t part) {
    return writers[(member * blocks + block) * parts + part];
  }

  chunk::CollectiveOpInterface op;
  chunk::Direction direction;
  mlir::OpBuilder *builder;
  chunk::ReductionAttr reduction;
  int64_t members, blocks, parts = 1;
  /// Parts of blocks, block by block.
  std::vector<Box> boxes;
  std::vector<mlir::Value> writers;
  int64_t transfers = 0;
  llvm::SmallVector<mlir::Value> tokens;
};

/// Emits a collective by an algorithm; an error says where it does not apply.
mlir::LogicalResult decompose(Emitter &emitter, chunk::Algorithm algorithm);

/// The algorithms, each for the collectives that `decompose` lets it do.
void decomposeDirect(Emitter &emitter);
void decomposeRing(Emitter &emitter);
void decomposeBidirectionalRing(Emitter &emitter);
mlir::LogicalResult decomposeHierarchical(Emitter &emitter);
mlir::LogicalResult decomposeRecursiveDoubling(Emitter &emitter);

} // namespace syncopate

#endif // SYNCOPATE_PASSES_DECOMPOSE_EMITTER_H
