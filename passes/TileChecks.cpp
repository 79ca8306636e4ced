//===- TileChecks.cpp - what tiles wait for, in the tables ----------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TableChecker.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

LogicalResult TableChecker::checkNeeds(const ScheduleTables &mine) {
  int64_t buffer = kNoBuffer, index = 0;
  if (kernel.getNeeds()) {
    buffer = graph.getBufferIndex(kernel.getNeeds());
    index = static_cast<int64_t>(*kernel.getNeedsAt());
  }
  const CallRow &call = mine.getCall();
  if (call.needsBuffer != buffer || call.needsIndex != index)
    return mine.getSchedule().emitOpError()
           << "expects what tiles need to be read from element " << index
           << " of buffer " << buffer << ", but got " << call.needsIndex
           << " of " << call.needsBuffer;
  if (buffer == kNoBuffer)
    return success();
  int64_t before = 0;
  for (const TileRow &tile : mine.getTiles()) {
    if (tile.coordinates.front() < before)
      return mine.getSchedule().emitOpError()
             << "expects tiles in the order of their first coordinate, by "
                "which what they need is read, but tile ["
             << ArrayRef(tile.coordinates).take_front(kernel.getTiles().size())
             << "] comes behind one of " << before;
    before = tile.coordinates.front();
    if (tile.waits.begin != mine.getTiles().front().waits.begin ||
        tile.waits.end != mine.getTiles().front().waits.end)
      return mine.getSchedule().emitOpError()
             << "expects all tiles to name the same waits if what they need "
                "is read at run time, but tile ["
             << ArrayRef(tile.coordinates).take_front(kernel.getTiles().size())
             << "] names [" << tile.waits.begin << ", " << tile.waits.end
             << ")";
  }
  return success();
}

LogicalResult TableChecker::checkTiles(const ScheduleTables &mine) {
  int64_t rank = mine.getRank();
  FailureOr<SmallVector<int64_t>> tiles =
      readTileOrder(kernel, mine.getSchedule());
  if (failed(tiles))
    return failure();
  KernelDependence dependence(graph, kernel, rank);
  if (!dependence.isValid())
    return failure();
  // Of the transfers of a queue, the last one stands for the others.
  SmallVector<SmallVector<unsigned>> lastOfSet;
  for (ArrayRef<unsigned> set : dependence.getSets()) {
    std::map<CallOrder::QueueId, unsigned> byQueue;
    for (unsigned id : set) {
      auto [it, isNew] = byQueue.try_emplace(last[id].queue, id);
      if (!isNew && last[it->second].index < last[id].index)
        it->second = id;
    }
    auto &ids = lastOfSet.emplace_back();
    for (auto [queue, id] : byQueue)
      ids.push_back(id);
  }
  for (auto [position, tile] : llvm::enumerate(*tiles)) {
    for (unsigned id : lastOfSet[dependence.getSet(tile)])
      if (!CallOrder::isComplete(last[id], order.atTile(rank, position)))
        return reportTile(mine, position,
                          "starts without a wait for a transfer that brings "
                          "what it reads",
                          id);
    if (failed(checkSteps(mine, position, tile, dependence, lastOfSet)))
      return failure();
    for (unsigned id : lastOfSet[dependence.getSummedSet(tile)])
      if (!CallOrder::isComplete(last[id], order.atStore(rank, position)))
        return reportTile(mine, position,
                          "stores without a wait for a transfer that brings "
                          "what it adds to",
                          id);
  }
  return success();
}

LogicalResult
TableChecker::checkSteps(const ScheduleTables &mine, int64_t position,
                         int64_t tile, KernelDependence &dependence,
                         ArrayRef<SmallVector<unsigned>> lastOfSet) {
  ArrayRef<StepRow> steps = mine.getSteps(position);
  if (steps.empty())
    return success();
  ArrayRef<unsigned> sets =
      dependence.getStepSets(dependence.getSteps(tile).list);
  Seen seen = order.atTile(mine.getRank(), position);
  auto waiting = order.atSteps(mine.getRank(), position);
  llvm::BitVector found(lastOfSet.size());
  for (auto [number, step] : llvm::enumerate(steps)) {
    if (!waiting.empty() &&
        waiting.front().step == static_cast<int64_t>(number)) {
      seen = waiting.front().seen;
      waiting = waiting.drop_front();
    }
    unsigned set = sets[step.step];
    if (found.test(set))
      continue;
    found.set(set);
    for (unsigned id : lastOfSet[set])
      if (!CallOrder::isComplete(last[id], seen))
        return reportTile(mine, position,
                          "starts step " + Twine(step.step) +
                              " without a wait for a transfer that brings "
                              "what it reads",
                          id);
  }
  return success();
}

LogicalResult TableChecker::reportTile(const ScheduleTables &mine,
                                       int64_t position, const Twine &what,
                                       unsigned id) {
  InFlightDiagnostic diag = kernel.emitOpError();
  diag << "tile ["
       << ArrayRef(mine.getTiles()[position].coordinates)
              .take_front(kernel.getTiles().size())
       << "] of rank " << mine.getRank() << " " << what;
  diag.attachNote(graph.getTransfer(id).getLoc()) << "the transfer";
  return diag;
}

LogicalResult TableChecker::checkWrittenTiles() {
  for (const ScheduleTables &mine : tables) {
    int64_t rank = mine.getRank();
    auto tiles = readTileOrder(kernel, mine.getSchedule());
    if (failed(tiles))
      return failure();
    for (FootprintOp footprint : kernel.getFootprints()) {
      auto buffer = kernel.getBoundBuffer(footprint.getArg());
      Place place{rank, buffer};
      if (footprint.getAccess() != Access::Write ||
          graph.getProduced(place).empty())
        continue;
      Touching touching;
      const TileBoxes &boxes = graph.getTileBoxes(footprint);
      for (auto [position, tile] : llvm::enumerate(*tiles)) {
        const Box &region = boxes[boxes.getNumber(
            KernelDependence::getCoordinates(kernel, tile))];
        if (region.isEmpty())
          continue;
        if (!touching.cell.contains(region))
          touching = findTouching(place, region);
        if (failed(checkWrittenTile(mine, position, tile, touching)))
          return failure();
      }
    }
  }
  return success();
}

TableChecker::Touching TableChecker::findTouching(Place place,
                                                  const Box &region) {
  Touching result;
  Reuse &reuse = getReuse(place);
  BoxIndex &readers = graph.getReaders(place);
  BoxIndex &writers = graph.getWriters(place);
  result.cell.surround(region,
                       {&readers, &writers, &reuse.readers, &reuse.writers,
                        &graph.getProducedIndex(place)});
  for (BoxIndex *index : {&readers, &writers})
    index->forEachOverlap(region, [&](unsigned id) {
      if (!graph.isBeforeTiles(id, place, region))
        result.after.emplace_back(id, index == &readers ? getFirstRead(id)
                                                        : first[id]);
    });
  for (BoxIndex *index : {&reuse.readers, &reuse.writers})
    index->forEachOverlap(region, [&](unsigned id) {
      result.before.emplace_back(id, index == &reuse.readers ? getLastRead(id)
                                                             : last[id]);
    });
  result.accumulated = graph.isAccumulated(place, region);
  return result;
}

LogicalResult TableChecker::checkWrittenTile(const ScheduleTables &mine,
                                             int64_t position, int64_t number,
                                             const Touching &touching) {
  int64_t rank = mine.getRank();
  ArrayRef<int64_t> coordinates =
      ArrayRef(mine.getTiles()[position].coordinates)
          .take_front(kernel.getTiles().size());
  std::optional<unsigned> early, late;
  for (auto [id, start] : touching.after)
    if (!order.isTileDone(rank, position, order.atStart(start)))
      early = id;
  for (auto [id, end] : touching.before)
    if (!order.wasComplete(end, order.atStore(rank, position)))
      late = id;
  if (mine.getTileGroups()[number].accumulates != touching.accumulated)
    return mine.getSchedule().emitOpError()
           << "expects tile_groups to say of tile [" << coordinates
           << "] whether it adds to what is there, as the plan does";
  if (!early && !late)
    return success();
  InFlightDiagnostic diag =
      early ? report(*early) << "without a wait for "
            : static_cast<InFlightDiagnostic>(kernel.emitOpError());
  diag << "tile [" << coordinates << "] of rank " << rank;
  if (early) {
    diag << ", which computes what it touches";
    diag.attachNote(kernel.getLoc()) << "the kernel";
    return diag;
  }
  diag << " starts without a wait for a transfer of the call before, which "
          "touches what it writes";
  diag.attachNote(graph.getTransfer(*late).getLoc()) << "the transfer";
  return diag;
}
