//===- OrderTiles.cpp - tiles by the arrival of what they read ------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LibraryCalls.h"
#include "passes/Passes.h"
#include "passes/PlanAnalysis.h"
#include "passes/Tables.h"
#include "passes/TileSteps.h"

#include "mlir/IR/Builders.h"

#include <map>

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_ORDERTILESPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

struct OrderTiles : impl::OrderTilesPassBase<OrderTiles> {
  using Base::Base;

  void runOnOperation() override {
    PlanOp plan = getOperation();
    StrategyAttr strategy = plan.getStrategyOrDefault();
    TileOrder policy = strategy.getOrder();
    int64_t rows = strategy.getGroupM();
    if (!order.empty()) {
      std::optional<TileOrder> named = symbolizeTileOrder(order);
      if (!named) {
        plan.emitOpError() << "expects a known tile order, but got '" << order
                           << "'";
        return signalPassFailure();
      }
      policy = *named;
    }
    if (groupM != 0)
      rows = groupM;
    if (rows < 1) {
      plan.emitOpError() << "expects group_m to be positive, but got " << rows;
      return signalPassFailure();
    }
    if (policy == TileOrder::Given) {
      if (failed(keepGiven(plan)))
        return signalPassFailure();
      return;
    }
    for (auto schedule :
         llvm::make_early_inc_range(plan.getBody().getOps<ScheduleOp>()))
      schedule.erase();
    // The order does not depend on who carries out what tiles have computed.
    auto &analysis = getAnalysis<PlanAnalysis>();
    analysis.setTiles([](unsigned) { return std::nullopt; });
    PlanGraph &graph = analysis.getGraph();
    if (failed(graph.requireRealizations()))
      return signalPassFailure();
    SmallVector<int64_t> arrival = graph.estimateArrival();
    const TileGroups &groups = analysis.getGroups();
    SmallVector<KernelOp> kernels =
        llvm::to_vector(plan.getBody().getOps<KernelOp>());
    OpBuilder builder = OpBuilder::atBlockEnd(&plan.getBody().front());
    for (KernelOp kernel : kernels) {
      if (failed(requireFootprints(kernel)) ||
          failed(limitRows(plan, kernel, rows)))
        return signalPassFailure();
      // Tiles of one first coordinate need the same, and a kernel with `needs`
      // may leave out those of the last ones.
      auto walk = walkGrid(kernel, kernel.getNeeds() ? 1 : rows);
      for (int64_t rank = 0; rank < plan.getNumRanks(); ++rank) {
        KernelDependence &dependence = analysis.getDependence(kernel, rank);
        if (!dependence.isValid())
          return signalPassFailure();
        FailureOr<TableAttr> tiles = orderTiles(
            kernel, walk, rows, plan.getNumRanks(), graph, dependence, arrival,
            orderGroups(graph, groups, rank, policy), groups, policy);
        if (failed(tiles))
          return signalPassFailure();
        auto schedule = ScheduleOp::create(builder, kernel.getLoc(),
                                           kernel.getKernelAttr(), rank, *tiles);
        if (!kernel.getSteps(rank))
          continue;
        FailureOr<StepOrder> steps =
            orderSteps(kernel, dependence, *readTileOrder(kernel, schedule),
                       arrival, policy == TileOrder::Grouped);
        if (failed(steps))
          return signalPassFailure();
        steps->write(schedule);
      }
    }
    markAnalysesPreserved<PlanAnalysis>();
  }

private:
  /// Leaves of each schedule the order of its tiles alone.
  LogicalResult keepGiven(PlanOp plan) {
    llvm::SmallDenseMap<std::pair<StringAttr, int64_t>, ScheduleOp> given;
    for (auto schedule : plan.getBody().getOps<ScheduleOp>())
      given[{schedule.getKernelAttr().getAttr(), schedule.getRank()}] =
          schedule;
    for (auto kernel : plan.getBody().getOps<KernelOp>())
      for (int64_t rank = 0; rank < plan.getNumRanks(); ++rank) {
        ScheduleOp schedule =
            given.lookup({kernel.getKernelAttr().getAttr(), rank});
        if (!schedule)
          return kernel.emitOpError()
                 << "has no chunk.schedule with tiles for rank " << rank
                 << ", though the order of tiles is to be given";
        FailureOr<SmallVector<int64_t>> order = readTileOrder(kernel, schedule);
        if (failed(order))
          return failure();
        FailureOr<StepOrder> steps = readStepOrder(kernel, schedule, *order);
        if (failed(steps))
          return failure();
        OpBuilder builder(schedule);
        auto kept = ScheduleOp::create(builder, schedule.getLoc(),
                                       schedule.getKernelAttr(), rank,
                                       *schedule.getTiles());
        if (kernel.getSteps(rank))
          steps->write(kept);
        schedule.erase();
      }
    auto &analysis = getAnalysis<PlanAnalysis>();
    analysis.setTiles([](unsigned) { return std::nullopt; });
    markAnalysesPreserved<PlanAnalysis>();
    return success();
  }

  static LogicalResult requireFootprints(KernelOp kernel) {
    for (Attribute name : kernel.getArgNames())
      if (llvm::none_of(kernel.getFootprints(), [&](FootprintOp footprint) {
            return footprint.getArgAttr() == name;
          }))
        return kernel.emitOpError()
               << "has no footprint of argument " << name
               << "; run chunk-infer-tile-footprints, or write a "
                  "chunk.footprint in its body";
    return success();
  }

  /// When each group of a rank's tiles should be done, from its first group on:
  /// first those that other ranks wait for, in the order of the transfers that
  /// do so here or there, then those that only stay.
  static SmallVector<int64_t> orderGroups(PlanGraph &graph,
                                          const TileGroups &groups,
                                          int64_t rank, TileOrder policy) {
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
      times.push_back(policy == TileOrder::Grouped ? 0 : time);
    }
    return times;
  }

  /// Rows of tiles that stay together are complete together. Where a library
  /// call takes whole rows, no more stay together than the call takes.
  static LogicalResult limitRows(PlanOp plan, KernelOp kernel, int64_t &rows) {
    CollectiveOpInterface collective = findLibraryCall(plan);
    if (!collective)
      return success();
    FailureOr<TileSlots> slots = TileSlots::find(kernel, collective);
    if (failed(slots))
      return failure();
    DenseI64ArrayAttr waves = plan.getStrategyOrDefault().getWaves();
    if (slots->areRows())
      for (int64_t count : slots->chooseWaves(waves))
        rows = std::min(rows, slots->countUnits(count));
    return success();
  }

  /// A library call takes as many tiles of each rank's block, so tiles of all
  /// blocks take turns, and those that lie in two of them come last. Those that
  /// read what arrives later stay behind others.
  static LogicalResult
  interleaveBlocks(KernelOp kernel, MutableArrayRef<int64_t> tiles,
                   function_ref<int64_t(int64_t)> arrives) {
    CollectiveOpInterface collective =
        findLibraryCall(cast<PlanOp>(kernel->getParentOp()));
    if (!collective)
      return success();
    FailureOr<TileSlots> slots = TileSlots::find(kernel, collective);
    if (failed(slots))
      return failure();
    std::map<std::array<int64_t, 3>, int64_t> counts;
    SmallVector<std::array<int64_t, 4>> keys(tiles.size());
    for (int64_t tile : tiles) {
      int64_t part = slots->getPart(tile);
      int64_t isSplit = slots->getLastPart(tile) > part;
      keys[tile] = {arrives(tile), isSplit,
                    counts[{arrives(tile), isSplit, part}]++, part};
    }
    llvm::sort(tiles, [&](int64_t a, int64_t b) {
      return std::pair(keys[a], a) < std::pair(keys[b], b);
    });
    return success();
  }

  /// All tiles of the grid in the order that keeps locality: `rows` rows of
  /// tiles are walked column by column.
  static std::vector<std::array<int64_t, 3>> walkGrid(KernelOp kernel,
                                                      int64_t rows) {
    std::array<int64_t, 3> grid{1, 1, 1};
    llvm::copy(kernel.getTiles(), grid.begin());
    std::vector<std::array<int64_t, 3>> tiles;
    tiles.reserve(kernel.getNumTiles());
    for (int64_t first = 0; first < grid[0]; first += rows)
      for (int64_t c1 = 0; c1 < grid[1]; ++c1)
        for (int64_t c2 = 0; c2 < grid[2]; ++c2)
          for (int64_t c0 = first, e = std::min(grid[0], first + rows); c0 < e;
               ++c0)
            tiles.push_back({c0, c1, c2});
    return tiles;
  }

  /// Tiles that can start and should be done at the same times.
  struct Kind {
    /// Their positions in the walk.
    std::vector<unsigned> positions;
    /// Whom they are for, or else from whom the last that they wait for comes;
    /// the rank itself if there is nobody.
    int64_t peer;
    bool leaves, waits;
  };
  /// By whether they add to what has arrived, by when the last that they wait
  /// for arrives, and by when they should be done.
  using Kinds = std::map<std::tuple<bool, int64_t, int64_t>, Kind>;

  static FailureOr<TableAttr>
  orderTiles(KernelOp kernel, ArrayRef<std::array<int64_t, 3>> walk,
             int64_t rows, int64_t ranks, PlanGraph &graph,
             KernelDependence &dependence, ArrayRef<int64_t> arrival,
             ArrayRef<int64_t> departure, const TileGroups &groups,
             TileOrder policy) {
    int64_t rank = dependence.getRank();
    // The last transfer of each set to arrive, and when it does.
    SmallVector<std::optional<unsigned>> latest;
    for (ArrayRef<unsigned> set : dependence.getSets()) {
      auto it = llvm::max_element(
          set, [&](unsigned a, unsigned b) { return arrival[a] < arrival[b]; });
      latest.push_back(it == set.end() ? std::nullopt : std::optional(*it));
    }
    std::array<int64_t, 3> grid{1, 1, 1};
    llvm::copy(kernel.getTiles(), grid.begin());
    // Tiles that differ in when they can start, or in when they should be done,
    // are few kinds; within one the walk stays as it is.
    Kinds kinds;
    auto kind = kinds.end();
    for (auto [position, tile] : llvm::enumerate(walk)) {
      int64_t number = (tile[0] * grid[1] + tile[1]) * grid[2] + tile[2];
      int64_t group = groups.getGroup(rank, number);
      int64_t leaves = group < 0 ? std::numeric_limits<int64_t>::max()
                                 : departure[group - groups.getFirst(rank)];
      std::optional<unsigned> last = latest[dependence.getSet(number)];
      // Tiles of other ranks, which may wait for none of this rank's that add,
      // make what those add to: they would wait for each other otherwise.
      std::tuple key(
          !dependence.getSets()[dependence.getSummedSet(number)].empty(),
          last ? arrival[*last] : 0, leaves);
      if (policy == TileOrder::Grouped)
        key = {false, 0, leaves};
      if (kind == kinds.end() || kind->first != key) {
        bool isNew;
        std::tie(kind, isNew) = kinds.try_emplace(key);
        kind->second.waits = last.has_value();
        kind->second.leaves = leaves < static_cast<int64_t>(graph.size());
        // Until it leaves, a time of departure is the number of the transfer.
        kind->second.peer = kind->second.leaves
                                ? getPeer(graph, leaves, rank)
                                : (last ? getPeer(graph, *last, rank) : rank);
      }
      kind->second.positions.push_back(position);
    }
    if (policy == TileOrder::Paced)
      interleave(kinds, rows, kernel.getCtas(), rank, ranks);
    std::vector<int64_t> tiles, values;
    tiles.reserve(walk.size());
    for (auto &[key, kind] : kinds)
      for (unsigned position : kind.positions) {
        const auto &[c0, c1, c2] = walk[position];
        tiles.push_back((c0 * grid[1] + c1) * grid[2] + c2);
      }
    if (failed(interleaveBlocks(kernel, tiles, [&](int64_t tile) {
          std::optional<unsigned> last = latest[dependence.getSet(tile)];
          return last && policy != TileOrder::Grouped ? arrival[*last] : 0;
        })))
      return failure();
    int64_t count = kernel.getNumPositions();
    values.reserve(3 * count);
    for (int64_t position = 0; position < count; ++position) {
      llvm::append_range(values, KernelDependence::getCoordinates(
                                     kernel, tiles[kernel.getTileAt(position)],
                                     kernel.getPartAt(position)));
    }
    return TableAttr::get(kernel.getContext(), {"c0", "c1", "c2"}, values);
  }

  /// The other rank of a transfer.
  static int64_t getPeer(PlanGraph &graph, unsigned id, int64_t rank) {
    int64_t src = graph.getSrcPlace(id).first;
    return src == rank ? graph.getDstPlace(id).first : src;
  }

  /// Merges kinds that differ in their peers, so that each stretch of as many
  /// tiles as there are CTAs has about as many for every peer, in blocks of
  /// whole columns of the walk.
  static void interleave(Kinds &kinds, int64_t rows, int64_t ctas, int64_t rank,
                         int64_t ranks) {
    // What leaves comes before what stays, and what can start at once before
    // what waits; peers in the order of their distance.
    std::map<std::tuple<bool, bool, bool>,
             std::map<int64_t, std::vector<unsigned>>>
        phases;
    for (auto &[key, kind] : kinds)
      llvm::append_range(phases[{std::get<0>(key), !kind.leaves, kind.waits}]
                               [(kind.peer - rank + ranks) % ranks],
                         kind.positions);
    kinds.clear();
    int64_t phase = 0;
    for (auto &[key, streams] : phases) {
      int64_t peers = streams.size();
      size_t block = rows * std::max<int64_t>(1, ctas / (rows * peers));
      Kind merged{{}, rank, false, false};
      size_t longest = 0;
      for (auto &[distance, positions] : streams)
        longest = std::max(longest, positions.size());
      for (size_t begin = 0; begin < longest; begin += block)
        for (auto &[distance, positions] : streams)
          for (size_t i = begin; i < std::min(begin + block, positions.size());
               ++i)
            merged.positions.push_back(positions[i]);
      kinds.try_emplace({false, phase++, 0}, std::move(merged));
    }
  }
};

} // namespace
} // namespace syncopate
