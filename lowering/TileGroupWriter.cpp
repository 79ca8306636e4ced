//===- TileGroupWriter.cpp - the groups of one rank's tiles ---------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/TableWriter.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

void TableWriter::writeGroups() {
  const TileGroups &tileGroups = sources.tileGroups;
  int64_t first = tileGroups.getFirst(rank);
  int64_t end = tileGroups.getFirst(rank + 1);
  for (int64_t group = first; group < end; ++group) {
    std::set<std::pair<int64_t, bool>> listeners;
    for (unsigned id : tileGroups[group].transfers)
      listeners.insert(exchanges[id] == kNoExchange
                           ? std::pair(sources.queues[id].first,
                                       isEngine(sources.queues[id].second))
                           : std::pair(rank, true));
    if (tileGroups[group].call)
      listeners.insert({rank, true});
    int64_t begin = numSignals();
    for (auto [to, engine] : listeners)
      engine ? addSignal(to, layout.groupTwin(group), StoreOne)
             : addSignal(to, layout.group(group), StoreEpoch);
    groups.push_back({tileGroups[group].tiles, {begin, numSignals()}});
  }
}

void TableWriter::writeTileGroups() {
  // The kernel looks at every tile, whether its rank has groups or not.
  if (!sources.produces)
    return;
  KernelOp kernel = sources.kernel;
  const TileGroups &tileGroups = sources.tileGroups;
  KernelDependence &dependence = sources.analysis.getDependence(kernel, rank);
  std::vector<RowRange> storeWaits = addStoreWaits(dependence);
  int64_t first = tileGroups.getFirst(rank), count = kernel.getNumTiles();
  tileGroupRows.resize(count);
  for (auto [tile, row] : llvm::enumerate(tileGroupRows)) {
    int64_t group = tileGroups.getGroup(rank, tile);
    row.group = group < 0 ? kNoGroup : group - first;
    if (!dependence.hasSums())
      continue;
    row.accumulates =
        !dependence.getSets()[dependence.getSummedSet(tile)].empty();
    row.waits = storeWaits[tile];
  }
  for (auto [tile, handedOver] : commandsOfTile)
    tileGroupRows[tile].commands = handedOver;
}

std::vector<RowRange> TableWriter::addStoreWaits(KernelDependence &dependence) {
  if (!dependence.hasSums())
    return {};
  std::vector<RowRange> ranges(sources.kernel.getNumTiles(), RowRange{0, 0});
  std::map<SmallVector<unsigned>, RowRange> shared;
  std::map<std::pair<int64_t, Queue>, unsigned> waited;
  for (auto [position, tile] :
       llvm::enumerate(*sources.analysis.getOrder(sources.kernel, schedule))) {
    std::map<Queue, unsigned> last;
    for (unsigned id : dependence.getSets()[dependence.getSummedSet(tile)])
      last[sources.queues[id]] = id;
    SmallVector<unsigned> needed;
    // Which CTA stores a tile that several compute is not known, and so not
    // what it has waited for. It computes no other one after that.
    bool isShared = sources.kernel.getPartAt(position).has_value();
    for (auto [queue, id] : last) {
      if (isShared) {
        needed.push_back(id);
        continue;
      }
      auto [it, isNew] = waited.try_emplace(
          {static_cast<int64_t>(position % sources.kernel.getCtas()), queue},
          id);
      if (!isNew && it->second >= id)
        continue;
      it->second = id;
      needed.push_back(id);
    }
    if (needed.empty())
      continue;
    auto [it, isNew] =
        shared.try_emplace(needed, RowRange{numWaits(), numWaits()});
    if (isNew) {
      for (unsigned id : needed)
        addWait(layout.data(id), 1);
      it->second.end = numWaits();
    }
    ranges[tile] = it->second;
  }
  return ranges;
}
