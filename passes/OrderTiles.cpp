//===- OrderTiles.cpp - tiles by the arrival of what they read ------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/PlanAnalysis.h"

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
      if (failed(requireFootprints(kernel)))
        return signalPassFailure();
      // Tiles of one first coordinate need the same, and a kernel with `needs`
      // may leave out those of the last ones.
      auto walk = walkGrid(kernel, kernel.getNeeds() ? 1 : rows);
      for (int64_t rank = 0; rank < plan.getNumRanks(); ++rank) {
        KernelDependence &dependence = analysis.getDependence(kernel, rank);
        if (!dependence.isValid())
          return signalPassFailure();
        ScheduleOp::create(builder, kernel.getLoc(), kernel.getKernelAttr(),
                           builder.getI64IntegerAttr(rank),
                           orderTiles(kernel, walk, dependence, arrival,
                                      orderGroups(graph, groups, rank, policy),
                                      groups, policy),
                           TableAttr{}, TableAttr{}, TableAttr{}, TableAttr{},
                           TableAttr{}, TableAttr{});
      }
    }
    markAnalysesPreserved<PlanAnalysis>();
  }

private:
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
      times.push_back(policy == TileOrder::Arrival ? time : 0);
    }
    return times;
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

  static TableAttr orderTiles(KernelOp kernel,
                              ArrayRef<std::array<int64_t, 3>> walk,
                              KernelDependence &dependence,
                              ArrayRef<int64_t> arrival,
                              ArrayRef<int64_t> departure,
                              const TileGroups &groups, TileOrder policy) {
    int64_t rank = dependence.getRank();
    // When the last transfer of each set arrives.
    SmallVector<int64_t> last(dependence.getSets().size());
    if (policy == TileOrder::Arrival)
      for (auto [set, time] : llvm::zip(dependence.getSets(), last))
        for (unsigned id : set)
          time = std::max(time, arrival[id]);
    std::array<int64_t, 3> grid{1, 1, 1};
    llvm::copy(kernel.getTiles(), grid.begin());
    // Tiles that differ in when they can start, or in when they should be done,
    // are few kinds; within one the walk stays as it is.
    std::map<std::tuple<bool, int64_t, int64_t>, std::vector<unsigned>> kinds;
    auto kind = kinds.end();
    for (auto [position, tile] : llvm::enumerate(walk)) {
      int64_t number = (tile[0] * grid[1] + tile[1]) * grid[2] + tile[2];
      int64_t group = groups.getGroup(rank, number);
      int64_t leaves = group < 0 ? std::numeric_limits<int64_t>::max()
                                 : departure[group - groups.getFirst(rank)];
      // Tiles of other ranks, which may wait for none of this rank's that add,
      // make what those add to: they would wait for each other otherwise.
      bool adds =
          policy == TileOrder::Arrival &&
          !dependence.getSets()[dependence.getSummedSet(number)].empty();
      std::tuple key(adds, last[dependence.getSet(number)], leaves);
      if (kind == kinds.end() || kind->first != key)
        kind = kinds.try_emplace(key).first;
      kind->second.push_back(position);
    }
    std::vector<int64_t> values;
    values.reserve(3 * walk.size());
    for (auto &[key, positions] : kinds)
      for (unsigned position : positions)
        llvm::append_range(values, walk[position]);
    return TableAttr::get(kernel.getContext(), {"c0", "c1", "c2"}, values);
  }
};

} // namespace
} // namespace syncopate
