//===- OrderTiles.cpp - tiles by the arrival of what they read ------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KernelDependence.h"
#include "passes/LibraryCalls.h"
#include "passes/Passes.h"
#include "passes/TileGroups.h"

#include "mlir/IR/Builders.h"

#include <numeric>

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
    int64_t rows = strategy.getGroup();
    if (!order.empty()) {
      std::optional<TileOrder> named = symbolizeTileOrder(order);
      if (!named) {
        plan.emitOpError() << "expects a known tile order, but got '" << order
                           << "'";
        return signalPassFailure();
      }
      policy = *named;
    }
    if (group != 0)
      rows = group;
    if (rows < 1) {
      plan.emitOpError() << "expects group to be positive, but got " << rows;
      return signalPassFailure();
    }
    for (auto schedule :
         llvm::make_early_inc_range(plan.getBody().getOps<ScheduleOp>()))
      schedule.erase();
    // The order does not depend on who carries out what tiles have computed.
    for (auto transfer : plan.getBody().getOps<TransferOpInterface>())
      transfer.setTile(std::nullopt);
    PlanGraph graph(plan);
    if (failed(graph.requireRealizations()))
      return signalPassFailure();
    SmallVector<int64_t> arrival = graph.estimateArrival();
    TileGroups groups(graph);
    SmallVector<KernelOp> kernels =
        llvm::to_vector(plan.getBody().getOps<KernelOp>());
    OpBuilder builder = OpBuilder::atBlockEnd(&plan.getBody().front());
    for (KernelOp kernel : kernels) {
      if (failed(requireFootprints(kernel)) ||
          failed(limitRows(plan, kernel, rows)))
        return signalPassFailure();
      for (int64_t rank = 0; rank < plan.getNumRanks(); ++rank) {
        KernelDependence dependence(graph, kernel, rank);
        if (!dependence.isValid())
          return signalPassFailure();
        FailureOr<TableAttr> tiles = orderTiles(
            kernel, dependence, arrival,
            orderGroups(graph, groups, rank, policy), groups, policy, rows);
        if (failed(tiles))
          return signalPassFailure();
        ScheduleOp::create(builder, kernel.getLoc(), kernel.getKernelAttr(),
                           builder.getI64IntegerAttr(rank), *tiles, TableAttr{},
                           TableAttr{}, TableAttr{}, TableAttr{}, TableAttr{},
                           TableAttr{}, TableAttr{});
      }
    }
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

  static FailureOr<TableAttr>
  orderTiles(KernelOp kernel, KernelDependence &dependence,
             ArrayRef<int64_t> arrival, ArrayRef<int64_t> departure,
             const TileGroups &groups, TileOrder policy, int64_t rows) {
    using Key = std::array<int64_t, 7>;
    int64_t rank = dependence.getRank();
    int64_t count = kernel.getNumTiles();
    // When the last transfer of each set arrives.
    SmallVector<int64_t> last(dependence.getSets().size());
    if (policy == TileOrder::Arrival)
      for (auto [set, time] : llvm::zip(dependence.getSets(), last))
        for (unsigned id : set)
          time = std::max(time, arrival[id]);
    // Tiles of one first coordinate need the same, and a kernel may leave out
    // those of the last ones.
    if (kernel.getNeeds())
      rows = 1;
    SmallVector<Key> keys(count);
    for (int64_t tile = 0; tile < count; ++tile) {
      auto [c0, c1, c2] = KernelDependence::getCoordinates(kernel, tile);
      int64_t group = groups.getGroup(rank, tile);
      int64_t leaves = group < 0 ? std::numeric_limits<int64_t>::max()
                                 : departure[group - groups.getFirst(rank)];
      // Tiles of other ranks, which may wait for none of this rank's that add,
      // make what those add to: they would wait for each other otherwise.
      bool adds = !dependence.getSets()[dependence.getSummedSet(tile)].empty();
      keys[tile] = {adds && policy == TileOrder::Arrival,
                    last[dependence.getSet(tile)],
                    leaves,
                    c0 / rows,
                    c1,
                    c2,
                    c0};
    }
    SmallVector<int64_t> tiles(count), values;
    std::iota(tiles.begin(), tiles.end(), 0);
    llvm::sort(tiles, [&](int64_t a, int64_t b) { return keys[a] < keys[b]; });
    if (failed(interleaveBlocks(kernel, tiles, [&](int64_t tile) {
          return last[dependence.getSet(tile)];
        })))
      return failure();
    for (int64_t tile : tiles)
      llvm::append_range(values,
                         KernelDependence::getCoordinates(kernel, tile));
    return TableAttr::get(kernel.getContext(), {"c0", "c1", "c2"}, values);
  }
};

} // namespace
} // namespace syncopate
