//===- CheckCalls.cpp - library calls take what tiles compute -------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/CheckCalls.h"
#include "passes/KernelDependence.h"
#include "passes/LibraryCalls.h"
#include "passes/TileSlots.h"

#include <set>

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

namespace {

/// Goes through the library calls of one rank.
class Checker {
public:
  Checker(PlanGraph &graph, KernelOp kernel, CollectiveOpInterface collective,
          const TileSlots &slots, const ScheduleTables &tables,
          const CallOrder &order)
      : graph(graph), kernel(kernel), collective(collective), slots(slots),
        tables(tables), order(order), rank(tables.getRank()) {}

  /// `first` are the tables of rank 0, whose calls the others join.
  LogicalResult check(const ScheduleTables &first) {
    for (auto [row, command] : llvm::enumerate(tables.getCommands()))
      if (isLibraryCall(command.transfer))
        rows.push_back(row);
    for (auto [number, row] : llvm::enumerate(rows))
      if (failed(checkCommand(number, row)))
        return failure();
    if (slots.areRows() && isa<ReduceScatterOp>(*collective) &&
        !begins.empty() && begins.front() < before)
      return reportCommand(rows.front())
             << "reads slot " << begins.front()
             << ", but expects slots behind the first " << before
             << ", where results stand";
    if (tables.getSlots().size() != static_cast<size_t>(kernel.getNumTiles()))
      return tables.getSchedule().emitOpError()
             << "expects slots to have a row for each of "
             << kernel.getNumTiles() << " tiles, but got "
             << tables.getSlots().size();
    for (auto [tile, row] : llvm::enumerate(tables.getSlots())) {
      const SlotRow &other = first.getSlots()[tile];
      if (row.call != other.call)
        return reportTile(tile) << "is in call " << row.call
                                << ", but on rank 0 in call " << other.call;
      if (!slots.isRouted() &&
          (row.slot != other.slot || getValues(getParts(tables, row)) !=
                                         getValues(getParts(first, other))))
        return reportTile(tile) << "is not in the slots that it has on rank 0";
    }
    return checkTiles();
  }

  /// The host looks for results where the commands leave them. The slots of all
  /// ranks have been checked.
  LogicalResult checkOutputs(ArrayRef<TileSlots::Slots> ofRanks) {
    std::vector<TileSlots::Call> calls;
    for (auto [begin, count] : llvm::zip(begins, perPart))
      calls.push_back({begin, count});
    ScheduleOp schedule = tables.getSchedule();
    ArrayRef<int64_t> said = schedule.getOutputs()
                                 ? schedule.getOutputs()->getValues()
                                 : ArrayRef<int64_t>();
    auto expected = slots.getOutputs(ofRanks, calls, rank);
    if (said != getValues<OutputRow>(expected))
      return schedule.emitOpError()
             << "expects outputs to say in which slots its " << calls.size()
             << " library calls leave what they bring to rank " << rank;
    SmallVector<SlotBufferRow> buffers;
    for (auto [buffer, row] : slots.getBuffers(calls)) {
      buffers.push_back(row);
      buffers.back().buffer = graph.getBufferIndex(buffer);
    }
    PlanOp plan = graph.getPlan();
    if (!plan.getSlots() ||
        plan.getSlots()->getValues() != getValues<SlotBufferRow>(buffers))
      return plan.emitOpError("expects slots to say which buffers hold the "
                              "slots of its library calls, and how many");
    return success();
  }

private:
  InFlightDiagnostic reportTile(int64_t tile) {
    auto coordinates = KernelDependence::getCoordinates(kernel, tile);
    return tables.getSchedule().emitOpError()
           << "tile ["
           << ArrayRef(coordinates).take_front(kernel.getTiles().size())
           << "] of rank " << rank << " ";
  }

  InFlightDiagnostic reportCommand(int64_t row) {
    return collective->emitOpError()
           << "is not what command " << row << " of rank " << rank
           << " carries out: it ";
  }

  /// A call is of the collective's kind, and reads whole slots that no call
  /// before it has read.
  LogicalResult checkCommand(int64_t number, int64_t row) {
    const CommandRow &command = tables.getCommands()[row];
    LibraryCall kind = getLibraryCall(collective);
    int64_t reduction = kNoReduction, bytes = slots.getSlotBytes();
    if (auto op = dyn_cast<AllReduceOp>(*collective))
      reduction = 1 + static_cast<int64_t>(op.getReduction());
    if (auto op = dyn_cast<ReduceScatterOp>(*collective))
      reduction = 1 + static_cast<int64_t>(op.getReduction());
    if (command.transfer != kind || command.reduction != reduction)
      return reportCommand(row)
             << "has transfer " << command.transfer << " and reduction "
             << command.reduction << ", but expects "
             << static_cast<int64_t>(kind) << " and " << reduction;
    int64_t parts = slots.getNumParts();
    bool scatters = kind == CallReduceScatter, exchanges = kind == CallAllToAll;
    if (command.rows != (exchanges ? parts : 1) ||
        command.parts != (scatters ? parts : 1) || command.rowBytes <= 0 ||
        command.rowBytes % bytes || command.srcStride != command.rowBytes ||
        (scatters && command.partStride != command.rowBytes))
      return reportCommand(row)
             << "moves " << command.parts << " parts of " << command.rows
             << " rows of " << command.rowBytes
             << " bytes, but expects whole slots of " << bytes
             << " bytes, one behind the other, for each of " << parts
             << " parts";
    int64_t count = command.rowBytes / bytes;
    auto [target, stride] =
        slots.getTarget({command.src.offset / bytes, count}, before, rank);
    if (command.src.rank != rank || command.dst.rank != rank ||
        command.src.buffer != graph.getBufferIndex(collective.getSrc()) ||
        command.dst.buffer != graph.getBufferIndex(collective.getDst()) ||
        command.src.offset % bytes ||
        (number && command.src.offset < ends.back() * bytes) ||
        command.dst.offset != target || command.dstStride != stride)
      return reportCommand(row)
             << "goes from byte " << command.src.offset << " of buffer "
             << command.src.buffer << " of rank " << command.src.rank
             << " to byte " << command.dst.offset << " of buffer "
             << command.dst.buffer << " of rank " << command.dst.rank
             << " with stride " << command.dstStride
             << ", but expects slots behind those of the calls before, and "
                "byte "
             << target << " with stride " << stride;
    slotsBefore.push_back(before);
    before += count;
    begins.push_back(command.src.offset / bytes);
    perPart.push_back(count);
    ends.push_back(begins.back() + parts * count);
    return success();
  }

  LogicalResult checkTiles() {
    FailureOr<SmallVector<int64_t>> tiles =
        readTileOrder(kernel, tables.getSchedule());
    if (failed(tiles))
      return failure();
    std::vector<Claim> claims;
    for (auto [position, tile] : llvm::enumerate(*tiles)) {
      const SlotRow &row = tables.getSlots()[tile];
      if (row.call < 0 || row.call >= static_cast<int64_t>(rows.size()))
        return reportTile(tile) << "is in call " << row.call
                                << ", but the rank has " << rows.size();
      if (failed(checkSlots(tile, row, claims)))
        return failure();
      CallOrder::Position call = order.getPosition(rank, rows[row.call]);
      if (!order.isTileDone(rank, position, order.atStart(call)))
        return reportTile(tile) << "is not done when call " << row.call
                                << " starts, which takes it";
      if (!order.wasComplete(call, order.atStore(rank, position)))
        return reportTile(tile)
               << "is stored without a wait for the call before, which may "
                  "still read what is in its slot";
    }
    llvm::sort(claims);
    claims.erase(llvm::unique(claims), claims.end());
    for (auto [claim, next] : llvm::zip(claims, llvm::drop_begin(claims)))
      if (next.slot < claim.slot + claim.slots)
        return reportTile(next.tile)
               << "is in slot " << next.slot << ", where another tile is";
    std::set<std::pair<int64_t, int64_t>> seen;
    for (const Claim &claim : claims)
      if (!seen.insert({claim.unit, claim.row}).second)
        return reportTile(claim.tile)
               << "is in slot " << claim.slot
               << ", but another tile of its row in another one";
    return success();
  }

  /// The slots of a unit: those of a tile of it and of another one are alike.
  struct Claim {
    int64_t slot, slots, unit, row, tile;
    auto key() const { return std::tie(slot, slots, unit, row); }
    bool operator<(const Claim &other) const { return key() < other.key(); }
    bool operator==(const Claim &other) const { return key() == other.key(); }
  };

  static ArrayRef<SlotPartRow> getParts(const ScheduleTables &of,
                                        const SlotRow &row) {
    return of.getSlotParts().slice(row.parts.begin,
                                   row.parts.end - row.parts.begin);
  }

  /// A tile in one block is whole in slots of that; of any other, the rows of
  /// each block are, and those of none nowhere.
  LogicalResult checkSlots(int64_t tile, const SlotRow &row,
                           std::vector<Claim> &claims) {
    bool isWhole = slots.isWhole(tile);
    SmallVector<TileSlots::Piece> pieces = slots.getPieces(tile, rank);
    SmallVector<SlotPartRow> parts(getParts(tables, row));
    bool isRight = isWhole == (row.slot != kNoSlot) &&
                   parts.size() == (isWhole ? 0 : pieces.size());
    for (auto [found, piece] : llvm::zip(parts, pieces))
      isRight &= found.row == piece.rows.begin && found.rows == piece.size();
    if (!isRight)
      return reportTile(tile)
             << (isWhole ? "is in parts, but lies in the block of one rank"
                         : "is not in parts that are its rows in the block of "
                           "each rank");
    if (isWhole)
      parts.push_back({0, 0, row.slot});
    for (auto [found, piece] : llvm::zip(parts, pieces)) {
      int64_t count = slots.storesRows() ? piece.size() : 1;
      int64_t first = begins[row.call] + piece.part * perPart[row.call];
      int64_t end = first + perPart[row.call];
      if (!piece.isSent())
        std::tie(first, end, count) = std::tuple(kNoSlot, kNoSlot + 1, 1);
      if (found.slot < first || found.slot + count > end)
        return reportTile(tile)
               << "is in slot " << found.slot << ", but expects one in ["
               << first << ", " << end << "), where call " << row.call
               << " has its part";
      if (std::optional<int64_t> place = slots.getPlaceInBlock(tile);
          place && slotsBefore[row.call] + found.slot - first != *place)
        return reportTile(tile)
               << "is taken as row "
               << slotsBefore[row.call] + found.slot - first
               << " of the tiles of its block, but expects row " << *place;
      if (piece.isSent())
        claims.push_back(
            {found.slot, count, slots.getUnit(tile), found.row, tile});
    }
    return success();
  }

  PlanGraph &graph;
  KernelOp kernel;
  CollectiveOpInterface collective;
  const TileSlots &slots;
  const ScheduleTables &tables;
  const CallOrder &order;
  int64_t rank;
  /// By call, its row of the commands, its slots, and how many each part has.
  SmallVector<int64_t> rows, begins, ends, perPart, slotsBefore;
  /// Slots of each part in the calls so far.
  int64_t before = 0;
};

} // namespace

LogicalResult syncopate::checkLibraryCalls(PlanGraph &graph, KernelOp kernel,
                                           ArrayRef<ScheduleTables> tables,
                                           const CallOrder &order) {
  CollectiveOpInterface collective = findLibraryCall(graph.getPlan());
  if (!collective) {
    for (const ScheduleTables &mine : tables)
      for (auto [row, command] : llvm::enumerate(mine.getCommands()))
        if (isLibraryCall(command.transfer))
          return mine.getSchedule().emitOpError()
                 << "has a library call as command " << row
                 << ", but no collective of the plan is to be one";
    return success();
  }
  FailureOr<TileSlots> slots = TileSlots::find(kernel, collective);
  if (failed(slots))
    return failure();
  std::vector<Checker> checkers;
  std::vector<TileSlots::Slots> ofRanks;
  for (const ScheduleTables &mine : tables) {
    checkers.emplace_back(graph, kernel, collective, *slots, mine, order);
    if (failed(checkers.back().check(tables.front())))
      return failure();
    ofRanks.push_back({mine.getSlots(), mine.getSlotParts()});
  }
  for (Checker &checker : checkers)
    if (failed(checker.checkOutputs(ofRanks)))
      return failure();
  // That ranks agree on how many tiles each call has follows from their slots,
  // which are alike; but not that of slots nobody has.
  auto getSizes = [](const ScheduleTables &mine) {
    SmallVector<int64_t> sizes;
    for (const CommandRow &command : mine.getCommands())
      if (isLibraryCall(command.transfer))
        sizes.push_back(command.rowBytes);
    return sizes;
  };
  for (const ScheduleTables &mine : tables)
    if (getSizes(mine) != getSizes(tables.front()))
      return mine.getSchedule().emitOpError()
             << "expects library calls of [" << getSizes(tables.front())
             << "] bytes, as on rank 0, but got [" << getSizes(mine) << "]";
  return success();
}
