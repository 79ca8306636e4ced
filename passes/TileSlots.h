//===- TileSlots.h - where tiles are stored for library calls ---*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_TILESLOTS_H
#define SYNCOPATE_PASSES_TILESLOTS_H

#include "passes/Tables.h"

#include <optional>
#include <vector>

namespace syncopate {

/// How the tiles of a kernel are stored where a collective is library calls.
///
/// A *unit* is a tile, or all tiles of a row of them, as the strategy says.
/// Each has a *slot* of its own in the buffer, which holds slots one below the
/// other instead of rows. The units of one call have adjacent slots, so that
/// what it reads is contiguous; among them, those of each rank's block are
/// adjacent too, as many slots for each, the last ones empty where blocks do
/// not have as many units.
///
/// If some tile has rows of several blocks, or an all_to_all says by rows what
/// goes where, a slot is a row instead: a unit in one block has as many
/// adjacent slots as it has rows, and any other one is stored in *pieces*, the
/// rows of each block in slots of their own.
class TileSlots {
public:
  /// Looks at the kernel's footprints. Emits an error unless every tile writes
  /// a rectangle of the same size, at a multiple of it.
  static mlir::FailureOr<TileSlots>
  find(chunk::KernelOp kernel, chunk::CollectiveOpInterface collective);

  /// Whether a slot holds all tiles of a row of them, or one.
  bool areRows() const { return shape == chunk::SlotShape::Rows; }
  /// Rows of a slot.
  int64_t getRows() const { return storesRows() ? 1 : sizes[0]; }
  int64_t getSlotBytes() const;
  /// Ranks whose blocks a call keeps apart; one for an all-reduce.
  int64_t getNumParts() const { return parts; }
  /// The rank whose block a tile is in, the first of them; 0 for an all-reduce.
  int64_t getPart(int64_t tile) const { return partOfTile[tile].first; }
  /// Likewise, the last of them.
  int64_t getLastPart(int64_t tile) const { return partOfTile[tile].second; }
  /// Whether a slot is a row.
  bool storesRows() const { return hasSplit || isRouted(); }
  /// Whether ranks have slots of their own, since they send rows as they like.
  bool isRouted() const { return !placeOf.empty(); }
  /// Adjacent rows of a tile, from its first one on, that are in the block of
  /// one rank, or in none.
  struct Piece {
    int64_t part;
    RowRange rows;
    bool isSent() const { return part >= 0; }
    int64_t size() const { return rows.end - rows.begin; }
  };
  /// All rows of a tile that a rank computes; but for those beyond the buffer,
  /// where slots are tiles.
  llvm::SmallVector<Piece> getPieces(int64_t tile, int64_t rank) const;
  /// Whether a tile is stored at once and not by its pieces.
  bool isWhole(int64_t tile) const;
  /// How many slots a tile of a rank has in a block.
  int64_t countSlots(int64_t tile, int64_t part, int64_t rank) const;
  /// Where among the units of its block a tile has to be taken, if its rows
  /// come where the plan says; nothing if they stay in slots.
  std::optional<int64_t> getPlaceInBlock(int64_t tile) const;
  /// The number of a tile's unit.
  int64_t getUnit(int64_t tile) const { return unitOfTile[tile]; }
  /// The offsets at which the kernel's code has a tile begin, by dimension, as
  /// expressions of its coordinates.
  llvm::ArrayRef<mlir::AffineExpr> getOrigin() const { return origin; }

  /// How many slots, and units, of each part so many waves of tiles are, one
  /// at least.
  int64_t countSlots(int64_t waves) const;
  int64_t countUnits(int64_t waves) const {
    return llvm::divideCeilSigned(countSlots(waves), getHeight());
  }
  /// The waves of each call, the last number for all further ones: those that
  /// are given, or those of at most eight calls.
  llvm::SmallVector<int64_t> chooseWaves(mlir::DenseI64ArrayAttr given) const;
  /// Calls and slots of all tiles of a rank, row-major in the grid.
  struct Assignment {
    std::vector<SlotRow> tiles;
    std::vector<SlotPartRow> parts;
  };
  /// Assigns them. The tiles come in `order`. Ranks have the same calls, and
  /// the same slots unless they are routed.
  Assignment assign(llvm::ArrayRef<int64_t> order,
                    llvm::ArrayRef<int64_t> waves, int64_t rank) const;

  /// The slots of one call: the first, and how many each part has.
  struct Call {
    int64_t begin, slots;
  };
  std::vector<Call> getCalls(llvm::ArrayRef<SlotRow> rows) const;

  /// Where a call leaves what it brings to a rank: a byte of the collective's
  /// destination, and from there to what comes from the next rank. It is in
  /// place but for rows of a reduce_scatter, which stand in front of all slots,
  /// and of an all_to_all, which come where the plan says, if blocks end where
  /// units do. `before` are the slots of each part in the calls before.
  struct Target {
    int64_t offset, stride;
  };
  Target getTarget(Call call, int64_t before, int64_t rank) const;

  /// The buffers that hold slots: the collective's source, and its destination
  /// if what comes there stays in slots. Their rows and columns are a slot's.
  llvm::SmallVector<std::pair<mlir::Value, SlotBufferRow>>
  getBuffers(llvm::ArrayRef<Call> calls) const;
  /// What `assign` has given, as tables have it.
  struct Slots {
    llvm::ArrayRef<SlotRow> tiles;
    llvm::ArrayRef<SlotPartRow> parts;
  };
  /// Where the calls leave what they bring to a rank, in slots of the
  /// destination, block by block; nothing if that has rows. By rank, `slots`
  /// are those of all tiles.
  std::vector<OutputRow> getOutputs(llvm::ArrayRef<Slots> slots,
                                    llvm::ArrayRef<Call> calls,
                                    int64_t rank) const;

private:
  /// Whether an all_to_all's blocks come where the plan says, row by row.
  bool leavesRows() const;
  /// Slots of a unit that is stored whole.
  int64_t getHeight() const { return storesRows() ? sizes[0] : 1; }
  /// A row of a rank's buffer and those behind it that are in the same block.
  Piece findRun(int64_t row, int64_t rank) const;
  /// How many ranks have slots of their own.
  int64_t countKinds() const { return isRouted() ? parts : 1; }

  chunk::KernelOp kernel;
  mutable chunk::CollectiveOpInterface collective;
  chunk::SlotShape shape;
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<mlir::AffineExpr> origin;
  int64_t parts = 1, blockRows = 0, units = 0;
  bool hasSplit = false;
  std::vector<std::pair<int64_t, int64_t>> partOfTile;
  /// Row and column of each tile among those of the buffer.
  std::vector<std::pair<int64_t, int64_t>> places;
  std::vector<int64_t> unitOfTile;
  /// If rows say what goes where: by rank and row of the source, the row of the
  /// blocks of all ranks, one below the other, or -1.
  std::vector<std::vector<int64_t>> placeOf;
};

} // namespace syncopate

#endif // SYNCOPATE_PASSES_TILESLOTS_H
