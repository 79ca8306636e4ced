//===- Tables.cpp - rows and columns of a schedule's tables ---------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Tables.h"
#include "passes/Realizations.h"
#include "passes/TileSteps.h"

#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

Combination syncopate::getCombination(TransferOpInterface transfer) {
  Combination result;
  if (std::optional<Reduction> kind = transfer.getReduction())
    result.reduction = transfer.getUnordered()
                           ? kUnorderedSum
                           : 1 + static_cast<int64_t>(*kind);
  result.parts = transfer.getParts();
  result.behind = transfer.getBehind();
  if (std::optional<ArrayRef<int64_t>> step = transfer.getStep()) {
    BufferType type = transfer.getSrc().getType();
    int64_t stride = type.getElementBytes();
    for (size_t dim = step->size(); dim-- > 0;) {
      result.partStride += (*step)[dim] * stride;
      stride *= type.getShape()[dim];
    }
  }
  return result;
}

/// The values of a table. Emits an error if it is missing or has other columns.
static FailureOr<ArrayRef<int64_t>> readTable(ScheduleOp schedule,
                                              StringRef name,
                                              std::optional<TableAttr> table,
                                              ArrayRef<StringRef> columns) {
  if (!table)
    return schedule.emitOpError()
           << "has no table of " << name << "; run chunk-build-tables first";
  if (!llvm::equal(table->getColumns(), columns,
                   [](StringAttr column, StringRef expected) {
                     return column.getValue() == expected;
                   }))
    return schedule.emitOpError()
           << "expects " << name << " to have the columns " << columns
           << ", but got " << *table;
  return table->getValues();
}

/// Every tile is in a group that is there, and every group counts its tiles.
static LogicalResult checkTileGroups(const ScheduleTables &tables,
                                     KernelOp kernel, bool produces) {
  ScheduleOp schedule = tables.getSchedule();
  ArrayRef<GroupRow> groups = tables.getGroups();
  ArrayRef<TileGroupRow> tileGroups = tables.getTileGroups();
  auto tiles = static_cast<size_t>(kernel.getNumTiles());
  if (tileGroups.size() != (produces ? tiles : 0))
    return schedule.emitOpError() << "expects tile_groups to have a row for "
                                     "each tile if tiles compute "
                                     "chunks, and else none, but got "
                                  << tileGroups.size();
  SmallVector<int64_t> counts(groups.size());
  for (auto [tile, row] : llvm::enumerate(tileGroups)) {
    if (row.group == kNoGroup)
      continue;
    if (row.group < 0 || row.group >= static_cast<int64_t>(groups.size()))
      return schedule.emitOpError()
             << "expects row " << tile
             << " of tile_groups to name a row of groups in [0, "
             << groups.size() << "), or -1, but got " << row.group;
    ++counts[row.group];
  }
  for (auto [number, group] : llvm::enumerate(groups))
    if (group.count != counts[number] || group.count == 0)
      return schedule.emitOpError()
             << "expects row " << number << " of groups to count "
             << counts[number] << " tiles, as many as are in it, but got "
             << group.count;
  return success();
}

/// A tile that several CTAs compute hands nothing over.
static LogicalResult checkShared(const ScheduleTables &tables,
                                 KernelOp kernel) {
  ScheduleOp schedule = tables.getSchedule();
  ArrayRef<TileGroupRow> rows = tables.getTileGroups();
  if (kernel.getParts() == 1 || rows.empty())
    return success();
  FailureOr<SmallVector<int64_t>> order = readTileOrder(kernel, schedule);
  if (failed(order))
    return failure();
  for (int64_t tile : ArrayRef(*order).drop_front(kernel.getNumWholeTiles()))
    if (rows[tile].commands.begin < rows[tile].commands.end)
      return schedule.emitOpError()
             << "expects tile " << tile
             << " to hand nothing over, since several CTAs compute it, and the "
                "role beside one has to know how often it is handed something";
  return success();
}

/// What tiles hand over is commands of one co-located realization, each handed
/// over by one tile; and the others of that are as many as are carried out
/// before them, or more.
static LogicalResult checkHandedOver(const ScheduleTables &tables) {
  ScheduleOp schedule = tables.getSchedule();
  ArrayRef<CommandRow> commands = tables.getCommands();
  llvm::BitVector seen(commands.size());
  std::optional<int64_t> role;
  for (auto [tile, row] : llvm::enumerate(tables.getTileGroups()))
    for (int64_t number = row.commands.begin; number < row.commands.end;
         ++number) {
      int64_t realization = commands[number].realization;
      if (!isColocated(static_cast<Realization>(realization)) ||
          role.value_or(realization) != realization)
        return schedule.emitOpError()
               << "expects tiles to hand over commands of one co-located "
                  "realization, but row "
               << tile << " of tile_groups names one of realization "
               << realization;
      role = realization;
      if (seen.test(number))
        return schedule.emitOpError() << "expects command " << number
                                      << " to be handed over by one tile, but "
                                         "got another one in row "
                                      << tile << " of tile_groups";
      seen.set(number);
    }
  int64_t queued = 0;
  for (auto [number, command] : llvm::enumerate(commands))
    queued += role && command.realization == *role && !seen.test(number);
  int64_t before = tables.getCall().beforeTiles;
  if (before < 0 || before > queued)
    return schedule.emitOpError()
           << "expects before_tiles to be in [0, " << queued
           << "], the commands that the role beside the tiles has besides, but "
              "got "
           << before;
  return success();
}

FailureOr<ScheduleTables>
ScheduleTables::read(KernelOp kernel, ScheduleOp schedule, bool produces) {
  ScheduleTables tables;
  tables.schedule = schedule;
  tables.rank = schedule.getRank();
  using Entry = std::tuple<StringRef, std::optional<TableAttr>,
                           ArrayRef<StringRef>, ArrayRef<int64_t> *>;
  for (auto &[name, table, columns, values] :
       {Entry{"tiles", schedule.getTiles(), kTileColumns, &tables.tiles},
        Entry{"waits", schedule.getWaits(), kWaitColumns, &tables.waits},
        Entry{"commands", schedule.getCommands(), kCommandColumns,
              &tables.commands},
        Entry{"signals", schedule.getSignals(), kSignalColumns,
              &tables.signals},
        Entry{"calls", schedule.getCalls(), kCallColumns, &tables.calls},
        Entry{"groups", schedule.getGroups(), kGroupColumns, &tables.groups},
        Entry{"tile_groups", schedule.getTileGroups(), kTileGroupColumns,
              &tables.tileGroups}}) {
    FailureOr<ArrayRef<int64_t>> read =
        readTable(schedule, name, table, columns);
    if (failed(read))
      return failure();
    *values = *read;
  }
  if (schedule.getSlots()) {
    auto read = readTable(schedule, "slots", schedule.getSlots(), kSlotColumns);
    if (failed(read))
      return failure();
    tables.slots = *read;
    read = readTable(schedule, "slot_parts", schedule.getSlotParts(),
                     kSlotPartColumns);
    if (failed(read))
      return failure();
    tables.slotParts = *read;
  }
  if (schedule.getOutputs() &&
      failed(readTable(schedule, "outputs", schedule.getOutputs(),
                       kOutputColumns)))
    return failure();
  if (schedule.getSteps() || schedule.getTileSteps()) {
    auto steps =
        readTable(schedule, "steps", schedule.getSteps(), kStepColumns);
    auto tileSteps = readTable(schedule, "tile_steps", schedule.getTileSteps(),
                               kTileStepColumns);
    if (failed(steps) || failed(tileSteps))
      return failure();
    tables.steps = *steps;
    tables.tileSteps = *tileSteps;
  }
  if (tables.calls.size() != std::size(kCallColumns))
    return schedule.emitOpError() << "expects calls to have one row, but got "
                                  << schedule.getCalls()->getNumRows();
  auto check = [&](StringRef name, int64_t row, RowRange range, StringRef of,
                   TableAttr table) -> LogicalResult {
    if (range.begin >= 0 && range.begin <= range.end &&
        range.end <= table.getNumRows())
      return success();
    return schedule.emitOpError()
           << "expects row " << row << " of " << name << " to name rows of "
           << of << " in [0, " << table.getNumRows() << "], but got ["
           << range.begin << ", " << range.end << ")";
  };
  TableAttr waits = *schedule.getWaits(), signals = *schedule.getSignals();
  for (auto [row, tile] : llvm::enumerate(tables.getTiles()))
    if (failed(check("tiles", row, tile.waits, "waits", waits)))
      return failure();
  for (auto [row, step] : llvm::enumerate(getRows<StepRow>(tables.steps)))
    if (failed(check("steps", row, step.waits, "waits", waits)))
      return failure();
  for (auto [row, command] : llvm::enumerate(tables.getCommands()))
    if (failed(check("commands", row, command.waits, "waits", waits)) ||
        failed(check("commands", row, command.signals, "signals", signals)))
      return failure();
  for (auto [row, group] : llvm::enumerate(tables.getGroups()))
    if (failed(check("groups", row, group.signals, "signals", signals)))
      return failure();
  for (auto [row, tile] : llvm::enumerate(tables.getTileGroups()))
    if (failed(check("tile_groups", row, tile.waits, "waits", waits)) ||
        failed(check("tile_groups", row, tile.commands, "commands",
                     *schedule.getCommands())))
      return failure();
  for (auto [row, tile] : llvm::enumerate(tables.getSlots()))
    if (failed(check("slots", row, tile.parts, "slot_parts",
                     *schedule.getSlotParts())))
      return failure();
  FailureOr<SmallVector<int64_t>> order = readTileOrder(kernel, schedule);
  if (failed(order) || failed(readStepOrder(kernel, schedule, *order)))
    return failure();
  if (failed(checkTileGroups(tables, kernel, produces)) ||
      failed(checkHandedOver(tables)) || failed(checkShared(tables, kernel)))
    return failure();
  const CallRow &call = tables.getCall();
  if (failed(check("calls", 0, call.open, "signals", signals)) ||
      failed(check("calls", 0, call.guard, "waits", waits)) ||
      failed(check("calls", 0, call.closeWaits, "waits", waits)) ||
      failed(check("calls", 0, call.closeSignals, "signals", signals)))
    return failure();
  return tables;
}

FailureOr<SmallVector<int64_t>> syncopate::readTileOrder(KernelOp kernel,
                                                         ScheduleOp schedule) {
  std::optional<TableAttr> tiles = schedule.getTiles();
  if (!tiles || tiles->getColumn("c2") != 2)
    return schedule.emitOpError(
        "has no ordered tiles; run chunk-order-tiles first");
  if (tiles->getNumRows() != kernel.getNumPositions())
    return schedule.emitOpError()
           << "expects to order " << kernel.getNumPositions()
           << (kernel.getParts() > 1
                   ? " tiles and parts of tiles, as many as its kernel computes"
                   : " tiles, as many as the grid of its kernel has")
           << ", but got " << tiles->getNumRows();
  SmallVector<int64_t> order;
  order.reserve(kernel.getNumTiles());
  llvm::BitVector seen(kernel.getNumTiles());
  std::array<int64_t, 3> grid{1, 1, 1};
  llvm::copy(kernel.getTiles(), grid.begin());
  int64_t whole = kernel.getNumWholeTiles();
  for (int64_t position = 0, e = tiles->getNumRows(); position < e;
       ++position) {
    ArrayRef<int64_t> row = tiles->getRow(position).take_front(3);
    std::optional<int64_t> part;
    if (position >= whole)
      part = kernel.getPartAt(position);
    int64_t tile = 0;
    bool inside = true;
    for (auto [i, coordinate] : llvm::enumerate(row)) {
      if (part && i == 2)
        continue;
      int64_t size = grid[i];
      inside &= coordinate >= 0 && coordinate < size;
      tile = tile * size + (inside ? coordinate : 0);
    }
    if (!inside)
      return schedule.emitOpError() << "orders tile [" << row << "] in row "
                                    << position << ", outside the grid";
    if (part && (row.back() != *part || (*part > 0 && order.back() != tile)))
      return schedule.emitOpError()
             << "expects part " << *part << " of "
             << (*part > 0 ? "the tile before" : "a tile") << " in row "
             << position << ", but got [" << row << "]";
    if (part && *part > 0) {
      order.push_back(tile);
      continue;
    }
    if (seen.test(tile))
      return schedule.emitOpError()
             << "orders tile [" << row << "] twice, again in row " << position;
    seen.set(tile);
    order.push_back(tile);
  }
  return order;
}
