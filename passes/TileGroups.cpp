//===- TileGroups.cpp - tiles by the transfers that wait for them ---------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileGroups.h"
#include "passes/LibraryCalls.h"

#include <map>
#include <set>

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

/// By rank and tile, the transfers that the tile hands over, which need no
/// group for that.
static std::vector<std::map<int64_t, SmallVector<unsigned>>>
findHandedOver(PlanGraph &graph, int64_t ranks) {
  std::vector<std::map<int64_t, SmallVector<unsigned>>> handed(ranks);
  for (unsigned id = 0; id < graph.size(); ++id) {
    TransferOpInterface transfer = graph.getTransfer(id);
    if (std::optional<uint64_t> tile = transfer.getTile())
      handed[transfer.getExecutor()][*tile].push_back(id);
  }
  return handed;
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

/// The transfers that touch what a tile of a rank computes by a footprint and
/// come after that.
class Touching {
public:
  Touching(PlanGraph &graph, int64_t rank, const TileBoxes &boxes)
      : graph(graph), boxes(boxes), place(rank, boxes.getBuffer()),
        indices{&graph.getReaders(place), &graph.getWriters(place),
                &graph.getProducedIndex(place)},
        isLinear(llvm::none_of(
            boxes.getFootprint().getMap().getResults(), [](AffineExpr offset) {
              bool found = false;
              offset.walk([&](AffineExpr part) {
                found |= part.getKind() == AffineExprKind::Mod ||
                         part.getKind() == AffineExprKind::FloorDiv ||
                         part.getKind() == AffineExprKind::CeilDiv;
              });
              return found;
            })) {}

  /// Whether the transfers of all tiles from one to another, which differ in
  /// one coordinate, are those of the tile before. If regions move by the same
  /// from each tile to the next, the first and the last of them tell.
  bool staysUntil(const Coordinates &first, const Coordinates &last) const {
    if (!isLinear || state != State::Inside)
      return false;
    for (const Coordinates &tile : {first, last}) {
      const Box &region = boxes[boxes.getNumber(tile)];
      if (region.isEmpty() || !cell.contains(region))
        return false;
    }
    return true;
  }

  /// Goes on to another tile. Returns whether its transfers are those of the
  /// tile before, as they mostly are.
  bool move(const Coordinates &tile) {
    const Box &region = boxes[boxes.getNumber(tile)];
    if (region.isEmpty()) {
      bool isSame = std::exchange(state, State::Outside) == State::Outside;
      after.clear();
      return isSame;
    }
    if (state == State::Inside && cell.contains(region))
      return true;
    state = State::Inside;
    cell.surround(region, {indices[0], indices[1], indices[2]});
    after.clear();
    for (BoxIndex *index : ArrayRef(indices).drop_back())
      index->forEachOverlap(region, [&](unsigned id) {
        if (!graph.isBeforeTiles(id, place, region))
          after.push_back(id);
      });
    return false;
  }

  ArrayRef<unsigned> getTransfers() const { return after; }

private:
  enum class State { Unknown, Outside, Inside };

  PlanGraph &graph;
  const TileBoxes &boxes;
  Place place;
  std::array<BoxIndex *, 3> indices;
  /// Whether the offsets of regions are sums of multiples of coordinates.
  bool isLinear;
  State state = State::Unknown;
  /// The regions that the same transfers touch.
  BoxCell cell;
  SmallVector<unsigned> after;
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
  auto handedOver = findHandedOver(graph, ranks);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    firstOfRank.push_back(groups.size());
    if (!kernel)
      continue;
    std::vector<Touching> writes;
    for (FootprintOp footprint : kernel.getFootprints())
      if (footprint.getAccess() == Access::Write &&
          !graph.getProduced({rank, kernel.getBoundBuffer(footprint.getArg())})
               .empty())
        writes.emplace_back(graph, rank, graph.getTileBoxes(footprint));
    if (writes.empty())
      continue;
    const auto &handed = handedOver[rank];
    ArrayRef<int64_t> callOfTile = calls[rank];
    // Of those that a library call takes, nobody else waits for any.
    std::map<std::pair<SmallVector<unsigned>, int64_t>, int64_t> numbers;
    auto findGroup = [&](SmallVector<unsigned> waiting,
                         std::optional<int64_t> call) -> int64_t {
      if (waiting.empty() && !call)
        return -1;
      llvm::sort(waiting);
      waiting.erase(llvm::unique(waiting), waiting.end());
      auto [it, isNew] =
          numbers.try_emplace({waiting, call.value_or(-1)}, groups.size());
      if (isNew) {
        for (unsigned id : waiting)
          groupsOfTransfer[id].push_back(groups.size());
        groups.push_back({rank, std::move(waiting), 0, call});
      }
      return it->second;
    };
    std::vector<int64_t> &groupOfRank = groupOfTile[rank];
    groupOfRank.reserve(kernel.getNumTiles());
    // What the tile before was in a group for, if it is one to go by.
    bool isKnown = false;
    std::optional<int64_t> lastCall;
    auto addTile = [&](const Coordinates &coordinates) {
      int64_t tile = groupOfRank.size();
      for (Touching &write : writes)
        isKnown &= write.move(coordinates);
      std::optional<int64_t> call;
      if (tile < static_cast<int64_t>(callOfTile.size()))
        call = callOfTile[tile];
      auto mine = handed.find(tile);
      int64_t group;
      if (isKnown && call == lastCall && mine == handed.end()) {
        group = groupOfRank.back();
      } else {
        SmallVector<unsigned> waiting;
        for (Touching &write : writes)
          for (unsigned id : write.getTransfers())
            if (mine == handed.end() || !llvm::is_contained(mine->second, id))
              waiting.push_back(id);
        group = findGroup(std::move(waiting), call);
      }
      isKnown = mine == handed.end();
      lastCall = call;
      groupOfRank.push_back(group);
      if (group >= 0)
        ++groups[group].tiles;
    };
    Coordinates rows = getGrid(kernel);
    size_t inner = kernel.getTiles().size() - 1;
    int64_t length = std::exchange(rows[inner], 1);
    forEachTile(rows, [&](Coordinates coordinates) {
      Coordinates last = coordinates;
      last[inner] = length - 1;
      // Most rows of tiles are in one group.
      if (isKnown && handed.empty() && callOfTile.empty() &&
          llvm::all_of(writes, [&](const Touching &write) {
            return write.staysUntil(coordinates, last);
          })) {
        int64_t group = groupOfRank.back();
        groupOfRank.insert(groupOfRank.end(), length, group);
        if (group >= 0)
          groups[group].tiles += length;
        return true;
      }
      for (; coordinates[inner] < length; ++coordinates[inner])
        addTile(coordinates);
      return true;
    });
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
