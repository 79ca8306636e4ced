//===- LibraryCalls.h - a collective as calls of a library ------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_LIBRARYCALLS_H
#define SYNCOPATE_PASSES_LIBRARYCALLS_H

#include "passes/Tables.h"

#include <vector>

namespace syncopate {

/// The collective of a plan that is to be library calls; null if there is none.
chunk::CollectiveOpInterface findLibraryCall(chunk::PlanOp plan);

/// Emits an error unless a collective can be library calls: of all ranks, of
/// rows of what their tiles compute and nobody else touches, and the last that
/// happens in its plan.
mlir::LogicalResult verifyLibraryCall(chunk::CollectiveOpInterface collective);

/// The number that stands for such a collective in the tables.
LibraryCall getLibraryCall(chunk::CollectiveOpInterface collective);

/// How the tiles of a kernel are stored where a collective is library calls.
///
/// Each tile has a *slot* of its own in the buffer, which holds slots one below
/// the other instead of rows. The tiles of one call have adjacent slots, so
/// that what it reads is contiguous; among them, those of each rank's block are
/// adjacent too, as many slots for each, the last ones empty where blocks do
/// not have as many tiles. A tile that lies in two blocks is stored twice, once
/// for each of them, and either rank ignores the rows of the other.
class TileSlots {
public:
  /// Looks at the kernel's footprints. Emits an error unless every tile writes
  /// a rectangle of the same size, at a multiple of it, in two blocks at most.
  static mlir::FailureOr<TileSlots>
  find(chunk::KernelOp kernel, chunk::CollectiveOpInterface collective);

  /// Rows and columns of a tile.
  llvm::ArrayRef<int64_t> getSizes() const { return sizes; }
  int64_t getSlotBytes() const;
  /// Ranks whose blocks a call keeps apart; one for an all-reduce.
  int64_t getNumParts() const { return parts; }
  /// The rank whose block a tile is in, the first of them; 0 for an all-reduce.
  int64_t getPart(int64_t tile) const { return partOfTile[tile].first; }
  /// Likewise, the last of them.
  int64_t getLastPart(int64_t tile) const { return partOfTile[tile].second; }
  /// Whether some tile lies in two blocks.
  bool hasSecond() const {
    return llvm::any_of(partOfTile,
                        [](auto ends) { return ends.first != ends.second; });
  }
  /// The offsets at which the kernel's code has a tile begin, by dimension, as
  /// expressions of its coordinates.
  llvm::ArrayRef<mlir::AffineExpr> getOrigin() const { return origin; }

  /// Assigns calls and slots, as many waves of tiles to each call as `waves`
  /// says, the last number for all further ones. The tiles come in `order`.
  std::vector<SlotRow> assign(llvm::ArrayRef<int64_t> order,
                              llvm::ArrayRef<int64_t> waves) const;

  /// The slots of one call: the first, and how many each part has.
  struct Call {
    int64_t begin, slots;
  };
  std::vector<Call> getCalls(llvm::ArrayRef<SlotRow> rows) const;

private:
  chunk::KernelOp kernel;
  chunk::CollectiveOpInterface collective;
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<mlir::AffineExpr> origin;
  int64_t parts = 1;
  std::vector<std::pair<int64_t, int64_t>> partOfTile;
};

} // namespace syncopate

#endif // SYNCOPATE_PASSES_LIBRARYCALLS_H
