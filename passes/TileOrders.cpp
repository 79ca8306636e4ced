//===- TileOrders.cpp - policies for the order of tiles -------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileOrders.h"

#include <numeric>

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

std::vector<int64_t> syncopate::walkGrid(KernelOp kernel, int64_t rows) {
  std::array<int64_t, 3> grid{1, 1, 1};
  llvm::copy(kernel.getTiles(), grid.begin());
  std::vector<int64_t> tiles;
  tiles.reserve(kernel.getNumTiles());
  for (int64_t first = 0; first < grid[0]; first += rows)
    for (int64_t column = 0, e = grid[1] * grid[2]; column < e; ++column)
      for (int64_t c0 = first, e0 = std::min(grid[0], first + rows); c0 < e0;
           ++c0)
        tiles.push_back(c0 * e + column);
  return tiles;
}

/// When each group of a rank's tiles should be done, from its first group on:
/// first those that other ranks wait for, in the order of the transfers that
/// do so here or there, then those that only stay.
static SmallVector<int64_t>
findDepartures(PlanGraph &graph, const TileGroups &groups, int64_t rank) {
  int64_t first = groups.getFirst(rank), end = groups.getFirst(rank + 1);
  SmallVector<int64_t> times;
  for (int64_t group = first; group < end; ++group) {
    int64_t time = 2 * graph.size();
    for (unsigned id : groups[group].transfers) {
      bool leaves = graph.getQueue(id).first != rank ||
                    (graph.getSrcPlace(id).first == rank &&
                     graph.getDstPlace(id).first != rank);
      time = std::min<int64_t>(time, leaves ? id : graph.size() + id);
    }
    times.push_back(time);
  }
  return times;
}

/// The other rank of a transfer.
static int64_t getPeer(PlanGraph &graph, unsigned id, int64_t rank) {
  int64_t src = graph.getSrcPlace(id).first;
  return src == rank ? graph.getDstPlace(id).first : src;
}

TileKinds syncopate::findTileKinds(ArrayRef<int64_t> tiles, PlanGraph &graph,
                                   KernelDependence &dependence,
                                   ArrayRef<int64_t> arrival,
                                   const TileGroups &groups, TileOrder policy) {
  int64_t rank = dependence.getRank();
  bool isGrouped = policy == TileOrder::Grouped;
  SmallVector<int64_t> departures = findDepartures(graph, groups, rank);
  // The last transfer of each set to arrive, and when it does.
  SmallVector<std::optional<unsigned>> latest;
  for (ArrayRef<unsigned> set : dependence.getSets()) {
    auto it = llvm::max_element(
        set, [&](unsigned a, unsigned b) { return arrival[a] < arrival[b]; });
    latest.push_back(it == set.end() ? std::nullopt : std::optional(*it));
  }
  TileKinds kinds;
  auto kind = kinds.end();
  // What the tile before needs and is in a group for; neighbours are mostly
  // alike, and then of one kind.
  unsigned lastSet = 0, lastSummed = 0;
  int64_t lastGroup = 0;
  for (int64_t tile : tiles) {
    int64_t group = groups.getGroup(rank, tile);
    unsigned set = dependence.getSet(tile);
    unsigned summed = dependence.getSummedSet(tile);
    if (kind != kinds.end() && set == lastSet && summed == lastSummed &&
        group == lastGroup) {
      kind->second.tiles.push_back(tile);
      continue;
    }
    lastSet = set;
    lastSummed = summed;
    lastGroup = group;
    int64_t departure = std::numeric_limits<int64_t>::max();
    if (group >= 0)
      departure = isGrouped ? 0 : departures[group - groups.getFirst(rank)];
    std::optional<unsigned> last = latest[set];
    // Tiles of other ranks, which may wait for none of this rank's that add,
    // make what those add to: they would wait for each other otherwise.
    bool adds = !dependence.getSets()[summed].empty();
    std::tuple key(!isGrouped && adds, last && !isGrouped ? arrival[*last] : 0,
                   departure);
    kind = kinds.try_emplace(key).first;
    kind->second.waits = last.has_value();
    kind->second.leaves = departure < static_cast<int64_t>(graph.size());
    // Until it leaves, a time of departure is the number of the transfer.
    kind->second.peer = kind->second.leaves
                            ? getPeer(graph, departure, rank)
                            : (last ? getPeer(graph, *last, rank) : rank);
    kind->second.tiles.push_back(tile);
  }
  return kinds;
}

/// Appends the tiles in stripes of about equally many of the rows that they
/// lie in, `rows` at most, each of which is walked column by column.
static void appendStripes(KernelOp kernel, ArrayRef<int64_t> tiles,
                          int64_t rows, std::vector<int64_t> &order) {
  int64_t columns = kernel.getNumTiles() / kernel.getTiles().front();
  SmallVector<int64_t> used;
  for (int64_t tile : tiles)
    used.push_back(tile / columns);
  llvm::sort(used);
  used.erase(llvm::unique(used), used.end());
  int64_t stripes = llvm::divideCeilSigned<int64_t>(used.size(), rows);
  std::vector<int64_t> stripeOfRow(kernel.getTiles().front());
  for (auto [i, row] : llvm::enumerate(used))
    stripeOfRow[row] = i * stripes / used.size();
  auto begin = order.insert(order.end(), tiles.begin(), tiles.end());
  auto getKey = [&](int64_t tile) {
    int64_t row = tile / columns;
    return std::tuple(stripeOfRow[row], tile % columns, row);
  };
  std::sort(begin, order.end(),
            [&](int64_t a, int64_t b) { return getKey(a) < getKey(b); });
}

/// Merges kinds that differ in their peers, so that each stretch of as many
/// tiles as there are CTAs has about as many for every peer, in blocks of whole
/// columns of the walk.
static std::vector<int64_t> interleave(const TileKinds &kinds, int64_t rows,
                                       int64_t ctas, int64_t rank,
                                       int64_t ranks) {
  // What leaves comes before what stays, and what can start at once before
  // what waits; peers in the order of their distance.
  std::map<std::tuple<bool, bool, bool>,
           std::map<int64_t, std::vector<int64_t>>>
      phases;
  for (const auto &[key, kind] : kinds)
    llvm::append_range(phases[{std::get<0>(key), !kind.leaves, kind.waits}]
                             [(kind.peer - rank + ranks) % ranks],
                       kind.tiles);
  std::vector<int64_t> order;
  for (const auto &[phase, streams] : phases) {
    int64_t peers = streams.size();
    size_t block = rows * std::max<int64_t>(1, ctas / (rows * peers));
    size_t longest = 0;
    for (const auto &[distance, tiles] : streams)
      longest = std::max(longest, tiles.size());
    for (size_t begin = 0; begin < longest; begin += block)
      for (const auto &[distance, tiles] : streams)
        for (size_t i = begin; i < std::min(begin + block, tiles.size()); ++i)
          order.push_back(tiles[i]);
  }
  return order;
}

std::vector<int64_t> syncopate::orderKinds(KernelOp kernel, int64_t rank,
                                           int64_t ranks,
                                           const TileKinds &kinds, int64_t rows,
                                           TileOrder policy) {
  if (policy == TileOrder::Paced)
    return interleave(kinds, rows, kernel.getCtas(), rank, ranks);
  std::vector<int64_t> order;
  order.reserve(kernel.getNumTiles());
  for (const auto &[key, kind] : kinds)
    if (policy == TileOrder::Wave)
      appendStripes(kernel, kind.tiles, rows, order);
    else
      llvm::append_range(order, kind.tiles);
  return order;
}

void syncopate::alternateBlocks(const TileSlots &slots,
                                MutableArrayRef<int64_t> tiles,
                                function_ref<int64_t(int64_t)> time) {
  std::map<std::array<int64_t, 3>, int64_t> counts;
  SmallVector<std::array<int64_t, 4>> keys(tiles.size());
  for (int64_t tile : tiles) {
    int64_t part = slots.getPart(tile);
    int64_t isSplit = slots.getLastPart(tile) > part;
    keys[tile] = {time(tile), isSplit, counts[{time(tile), isSplit, part}]++,
                  part};
  }
  llvm::sort(tiles, [&](int64_t a, int64_t b) {
    return std::pair(keys[a], a) < std::pair(keys[b], b);
  });
}

std::vector<int64_t>
syncopate::findLastPositions(ArrayRef<std::vector<int64_t>> orders) {
  // A tile of which several CTAs compute parts stands at several positions.
  int64_t tiles = 0;
  for (int64_t tile : orders.front())
    tiles = std::max(tiles, tile + 1);
  std::vector<int64_t> last(tiles);
  for (const auto &order : orders)
    for (auto [position, tile] : llvm::enumerate(order))
      last[tile] = std::max<int64_t>(last[tile], position);
  return last;
}

std::vector<int64_t> syncopate::sortTiles(ArrayRef<int64_t> time) {
  std::vector<int64_t> order(time.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order,
                    [&](int64_t a, int64_t b) { return time[a] < time[b]; });
  return order;
}

void syncopate::gatherCalls(KernelOp kernel, const TileSlots &slots,
                            ArrayRef<int64_t> waves, ArrayRef<TileKinds> kinds,
                            int64_t rows,
                            MutableArrayRef<std::vector<int64_t>> orders) {
  std::vector<SlotRow> assigned =
      slots.assign(sortTiles(findLastPositions(orders)), waves, 0).tiles;
  for (auto [order, ofRank] : llvm::zip(orders, kinds)) {
    order.clear();
    // By call, tiles in the order of their kinds.
    std::map<int64_t, std::vector<std::vector<int64_t>>> calls;
    for (const auto &[key, kind] : ofRank) {
      std::map<int64_t, std::vector<int64_t>> cut;
      for (int64_t tile : kind.tiles)
        cut[assigned[tile].call].push_back(tile);
      for (auto &[call, tiles] : cut)
        calls[call].push_back(std::move(tiles));
    }
    for (const auto &[call, ofCall] : calls)
      for (const auto &tiles : ofCall)
        appendStripes(kernel, tiles, rows, order);
  }
}
