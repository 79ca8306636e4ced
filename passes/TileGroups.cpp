//===- TileGroups.cpp - tiles by the transfers that wait for them ---------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileGroups.h"
#include "passes/KernelDependence.h"
#include "passes/LibraryCalls.h"

#include <map>
#include <set>

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

/// True if a tile hands the transfer over, which needs no group for that.
static bool isHandedOver(PlanGraph &graph, unsigned id, int64_t rank,
                         int64_t tile) {
  TransferOpInterface transfer = graph.getTransfer(id);
  return transfer.getExecutor() == rank &&
         transfer.getTile() == static_cast<uint64_t>(tile);
}

/// By rank and tile, the library call that takes it; empty where no collective
/// is library calls, or tiles have not been grouped.
static std::vector<std::vector<int64_t>> findCalls(PlanOp plan) {
  std::vector<std::vector<int64_t>> calls(plan.getNumRanks());
  if (!findLibraryCall(plan))
    return calls;
  for (ScheduleOp schedule : plan.getBody().getOps<ScheduleOp>())
    if (auto table = schedule.getSlots();
        table && table->getColumn("call") >= 0)
      for (int64_t row = 0; row < table->getNumRows(); ++row)
        calls[schedule.getRank()].push_back(
            table->getRow(row)[table->getColumn("call")]);
  return calls;
}

namespace {

/// The transfers that touch what tiles compute at a place and come after that.
class Touching {
public:
  Touching(PlanGraph &graph, Place place)
      : graph(graph), place(place),
        indices{&graph.getReaders(place), &graph.getWriters(place),
                &graph.getProducedIndex(place)} {}

  /// Those that touch `region`. Neighbours mostly have the same.
  ArrayRef<unsigned> findAfter(const Box &region) {
    SmallVector<unsigned> overlaps;
    for (BoxIndex *index : indices) {
      index->forEachOverlap(region,
                            [&](unsigned id) { overlaps.push_back(id); });
      overlaps.push_back(~0u);
    }
    if (overlaps == last)
      return after;
    last = std::move(overlaps);
    after.clear();
    for (BoxIndex *index : ArrayRef(indices).drop_back())
      index->forEachOverlap(region, [&](unsigned id) {
        if (!graph.isBeforeTiles(id, place, region))
          after.push_back(id);
      });
    return after;
  }

private:
  PlanGraph &graph;
  Place place;
  std::array<BoxIndex *, 3> indices;
  SmallVector<unsigned> last, after;
};

} // namespace

TileGroups::TileGroups(PlanGraph &graph) {
  PlanOp plan = graph.getPlan();
  std::vector<std::vector<int64_t>> calls = findCalls(plan);
  int64_t ranks = plan.getNumRanks();
  groupsOfTransfer.resize(graph.size());
  groupOfTile.resize(ranks);
  auto kernels = plan.getBody().getOps<KernelOp>();
  KernelOp kernel = kernels.empty() ? KernelOp() : *kernels.begin();
  for (int64_t rank = 0; rank < ranks; ++rank) {
    firstOfRank.push_back(groups.size());
    if (!kernel)
      continue;
    SmallVector<std::pair<FootprintOp, TypedValue<BufferType>>> writes;
    for (FootprintOp footprint : kernel.getFootprints()) {
      auto buffer = kernel.getBoundBuffer(footprint.getArg());
      if (footprint.getAccess() == Access::Write &&
          !graph.getProduced({rank, buffer}).empty())
        writes.emplace_back(footprint, buffer);
    }
    if (writes.empty())
      continue;
    // Of those that a library call takes, nobody else waits for any.
    std::map<std::pair<SmallVector<unsigned>, int64_t>, int64_t> numbers;
    std::vector<Touching> touching;
    for (auto [footprint, buffer] : writes)
      touching.emplace_back(graph, Place{rank, buffer});
    groupOfTile[rank].reserve(kernel.getNumTiles());
    for (int64_t tile = 0, e = kernel.getNumTiles(); tile < e; ++tile) {
      auto coordinates = KernelDependence::getCoordinates(kernel, tile);
      SmallVector<unsigned> waiting;
      for (auto [write, touch] : llvm::zip(writes, touching)) {
        Box region =
            getAccessedBox(write.first, write.second.getType(), coordinates);
        if (region.isEmpty())
          continue;
        for (unsigned id : touch.findAfter(region))
          if (!isHandedOver(graph, id, rank, tile))
            waiting.push_back(id);
      }
      groupOfTile[rank].push_back(-1);
      std::optional<int64_t> call;
      if (tile < static_cast<int64_t>(calls[rank].size()))
        call = calls[rank][tile];
      if (waiting.empty() && !call)
        continue;
      llvm::sort(waiting);
      waiting.erase(llvm::unique(waiting), waiting.end());
      auto [it, isNew] =
          numbers.try_emplace({waiting, call.value_or(-1)}, groups.size());
      if (isNew) {
        for (unsigned id : waiting)
          groupsOfTransfer[id].push_back(groups.size());
        groups.push_back({rank, std::move(waiting), 0, call});
      }
      ++groups[it->second].tiles;
      groupOfTile[rank].back() = it->second;
    }
  }
  firstOfRank.push_back(groups.size());
}

int64_t TileGroups::getGroupOfCall(int64_t rank, int64_t call) const {
  for (int64_t group = getFirst(rank); group < getFirst(rank + 1); ++group)
    if (groups[group].call == call)
      return group;
  llvm_unreachable("a call that takes no tile of the rank");
}

SmallVector<int64_t> TileGroups::getReaders(PlanGraph &graph,
                                            int64_t group) const {
  std::set<int64_t> readers;
  for (unsigned id : groups[group].transfers) {
    int64_t reader = graph.getReadingRank(id);
    if (reader != groups[group].rank &&
        graph.getSrcPlace(id).first == groups[group].rank)
      readers.insert(reader);
  }
  return {readers.begin(), readers.end()};
}
