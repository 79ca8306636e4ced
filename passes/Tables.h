//===- Tables.h - rows and columns of a schedule's tables -------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_TABLES_H
#define SYNCOPATE_PASSES_TABLES_H

#include "dialect/Chunk.h"

#include <array>

namespace syncopate {

/// How a flag is raised.
enum SignalKind : int64_t { StoreEpoch = 0, StoreOne = 1, AddOne = 2 };

/// What stands for a transfer in the command that stages a rank's input.
constexpr int64_t kStaging = -1;

/// What stands for a transfer in the command that is a library call: a number
/// below that of staging for each collective.
enum LibraryCall : int64_t {
  CallAllReduce = -2,
  CallReduceScatter = -3,
  CallAllToAll = -4
};

constexpr bool isLibraryCall(int64_t transfer) { return transfer < kStaging; }

constexpr llvm::StringRef kTileColumns[] = {"c0", "c1", "c2", "wait_begin",
                                            "wait_end"};
constexpr llvm::StringRef kWaitColumns[] = {"signal", "count"};
constexpr llvm::StringRef kSignalColumns[] = {"rank", "signal", "kind"};
constexpr llvm::StringRef kCommandColumns[] = {
    "transfer",    "src_rank",     "src_buffer",  "src_offset",   "dst_rank",
    "dst_buffer",  "dst_offset",   "rows",        "row_bytes",    "src_stride",
    "dst_stride",  "wait_begin",   "wait_end",    "signal_begin", "signal_end",
    "realization", "reduction",    "pause",       "parts",        "part_stride",
    "behind",      "count_buffer", "count_index", "count_past",   "exchange"};
constexpr llvm::StringRef kCallColumns[] = {
    "open_begin",         "open_end",         "guard_begin",
    "guard_end",          "close_wait_begin", "close_wait_end",
    "close_signal_begin", "close_signal_end", "before_tiles",
    "needs_buffer",       "needs_index"};
constexpr llvm::StringRef kGroupColumns[] = {"count", "signal_begin",
                                             "signal_end"};
constexpr llvm::StringRef kSlotColumns[] = {"call", "slot", "begin", "end"};
constexpr llvm::StringRef kSlotPartColumns[] = {"row", "rows", "slot"};
constexpr llvm::StringRef kOutputColumns[] = {"row", "rows", "column", "slot"};
/// Of a plan, for each buffer that holds slots.
constexpr llvm::StringRef kSlotBufferColumns[] = {"buffer", "rows", "columns",
                                                  "count"};
/// What stands for the slot of a tile that is stored in parts.
constexpr int64_t kNoSlot = -1;
constexpr llvm::StringRef kTileGroupColumns[] = {
    "group",    "accumulates",   "wait_begin",
    "wait_end", "command_begin", "command_end"};

constexpr llvm::StringRef kStepColumns[] = {"step", "wait_begin", "wait_end"};
constexpr llvm::StringRef kTileStepColumns[] = {"begin", "end"};

/// What stands for the reduction of a command that copies; those that reduce
/// have one more than the number of their \c chunk::Reduction, but for sums by
/// atomic operations.
constexpr int64_t kNoReduction = 0;
constexpr int64_t kUnorderedSum =
    2 + static_cast<int64_t>(chunk::getMaxEnumValForReduction());

/// How a command combines what it moves, in its columns of these names.
struct Combination {
  int64_t reduction = kNoReduction, parts = 1, partStride = 0, behind = 0;

  bool operator==(const Combination &other) const {
    return reduction == other.reduction && parts == other.parts &&
           partStride == other.partStride && behind == other.behind;
  }
};

/// How the commands of a transfer combine what they move.
Combination getCombination(chunk::TransferOpInterface transfer);

/// What stands for the buffer of a number of rows that is not read.
constexpr int64_t kNoBuffer = -1;

/// What stands for the group of a tile that nobody waits for.
constexpr int64_t kNoGroup = -1;

/// A range of rows of another table.
struct RowRange {
  int64_t begin, end;
};

/// Rows of the tables, field by field in the order of the columns.
struct TileRow {
  std::array<int64_t, 3> coordinates;
  RowRange waits;
};
struct WaitRow {
  int64_t signal, count;
};
struct SignalRow {
  int64_t rank, signal, kind;
};
struct CommandEnd {
  int64_t rank, buffer, offset;
};
struct CommandRow {
  int64_t transfer;
  CommandEnd src, dst;
  int64_t rows, rowBytes, srcStride, dstStride;
  RowRange waits, signals;
  int64_t realization, reduction, pause;
  int64_t parts, partStride, behind;
  /// Where its number of rows is read, and the rows before its first one; no
  /// buffer if it moves all of them.
  int64_t countBuffer, countIndex, countPast;
  /// The number of the exchange that its transfer belongs to, or none.
  int64_t exchange;
};
struct CallRow {
  RowRange open, guard, closeWaits, closeSignals;
  /// How many commands of its queue a role that tiles hand commands over to
  /// carries out before the first of those.
  int64_t beforeTiles;
  /// Where what tiles need is read; no buffer if they need all that they name.
  int64_t needsBuffer, needsIndex;
};
struct GroupRow {
  int64_t count;
  RowRange signals;
};
struct SlotRow {
  int64_t call, slot;
  /// Of a tile that has no slot, its parts.
  RowRange parts;
};
/// So many rows of a tile, and the first of the slots that hold a row each.
struct SlotPartRow {
  int64_t row, rows, slot;
};
/// So many rows of what library calls bring to a rank, in a column of slots:
/// where they begin there, and from which slot on they lie.
struct OutputRow {
  int64_t row, rows, column, slot;
};
struct SlotBufferRow {
  int64_t buffer, rows, columns, count;
};
struct StepRow {
  int64_t step;
  RowRange waits;
};
struct TileGroupRow {
  int64_t group;
  /// 1 if the tile adds to what is there, else 0.
  int64_t accumulates;
  /// What it then waits for before it stores.
  RowRange waits;
  /// What it hands over to the role beside it.
  RowRange commands;
};

/// Rows are read in place, so their fields are the columns, and nothing else.
template <typename Row, size_t N>
constexpr bool hasColumns(const llvm::StringRef (&)[N]) {
  return sizeof(Row) == N * sizeof(int64_t);
}
static_assert(hasColumns<TileRow>(kTileColumns) &&
              hasColumns<WaitRow>(kWaitColumns) &&
              hasColumns<SignalRow>(kSignalColumns) &&
              hasColumns<CommandRow>(kCommandColumns) &&
              hasColumns<CallRow>(kCallColumns) &&
              hasColumns<GroupRow>(kGroupColumns) &&
              hasColumns<SlotRow>(kSlotColumns) &&
              hasColumns<SlotPartRow>(kSlotPartColumns) &&
              hasColumns<OutputRow>(kOutputColumns) &&
              hasColumns<SlotBufferRow>(kSlotBufferColumns) &&
              hasColumns<StepRow>(kStepColumns) &&
              hasColumns<RowRange>(kTileStepColumns) &&
              hasColumns<TileGroupRow>(kTileGroupColumns));

/// The values of a table as rows, and back.
template <typename Row>
llvm::ArrayRef<Row> getRows(llvm::ArrayRef<int64_t> values) {
  return {reinterpret_cast<const Row *>(values.data()),
          values.size() * sizeof(int64_t) / sizeof(Row)};
}
template <typename Row>
llvm::ArrayRef<int64_t> getValues(llvm::ArrayRef<Row> rows) {
  return {reinterpret_cast<const int64_t *>(rows.data()),
          rows.size() * sizeof(Row) / sizeof(int64_t)};
}

/// The complete tables of one rank, as rows.
class ScheduleTables {
public:
  /// Emits an error at the schedule if a table is missing, has other columns,
  /// or names rows that are not there. `produces` is whether tiles of any rank
  /// compute chunks.
  static mlir::FailureOr<ScheduleTables>
  read(chunk::KernelOp kernel, chunk::ScheduleOp schedule, bool produces);

  int64_t getRank() const { return rank; }
  chunk::ScheduleOp getSchedule() const { return schedule; }
  llvm::ArrayRef<TileRow> getTiles() const { return getRows<TileRow>(tiles); }
  llvm::ArrayRef<CommandRow> getCommands() const {
    return getRows<CommandRow>(commands);
  }
  llvm::ArrayRef<GroupRow> getGroups() const {
    return getRows<GroupRow>(groups);
  }
  /// The group of each tile, row-major in the grid.
  llvm::ArrayRef<TileGroupRow> getTileGroups() const {
    return getRows<TileGroupRow>(tileGroups);
  }
  /// The call and the slot of each tile, row-major in the grid; none if no
  /// collective is library calls.
  llvm::ArrayRef<SlotRow> getSlots() const { return getRows<SlotRow>(slots); }
  /// Where the rows are of tiles that have no slot.
  llvm::ArrayRef<SlotPartRow> getSlotParts() const {
    return getRows<SlotPartRow>(slotParts);
  }
  /// The steps that the tile at a position of the order takes, in their order;
  /// none if tiles walk no steps.
  llvm::ArrayRef<StepRow> getSteps(int64_t position) const {
    if (tileSteps.empty())
      return {};
    RowRange range = getRows<RowRange>(tileSteps)[position];
    return getRows<StepRow>(steps).slice(range.begin, range.end - range.begin);
  }
  const CallRow &getCall() const { return getRows<CallRow>(calls).front(); }
  llvm::ArrayRef<WaitRow> getWaits(RowRange range) const {
    return getRows<WaitRow>(waits).slice(range.begin, range.end - range.begin);
  }
  llvm::ArrayRef<SignalRow> getSignals(RowRange range) const {
    return getRows<SignalRow>(signals).slice(range.begin,
                                             range.end - range.begin);
  }

private:
  chunk::ScheduleOp schedule;
  int64_t rank = 0;
  llvm::ArrayRef<int64_t> tiles, waits, commands, signals, calls, groups,
      tileGroups, slots, slotParts, steps, tileSteps;
};

/// The tiles of a schedule by their numbers, row-major in the grid of its
/// kernel, at each position of the order. Emits an error unless each tile of
/// the grid is ordered once, in parts where the kernel computes it in parts.
mlir::FailureOr<llvm::SmallVector<int64_t>>
readTileOrder(chunk::KernelOp kernel, chunk::ScheduleOp schedule);

} // namespace syncopate

#endif // SYNCOPATE_PASSES_TABLES_H
