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
#include "passes/TileOrders.h"
#include "passes/TileSteps.h"

#include "mlir/IR/Builders.h"

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
    if (failed(analysis.getGraph().requireRealizations()))
      return signalPassFailure();
    OpBuilder builder = OpBuilder::atBlockEnd(&plan.getBody().front());
    for (KernelOp kernel : llvm::to_vector(plan.getBody().getOps<KernelOp>())) {
      FailureOr<std::vector<std::vector<int64_t>>> orders =
          orderTiles(kernel, analysis, policy, rows);
      if (failed(orders))
        return signalPassFailure();
      std::vector<Coordinates> coordinates;
      coordinates.reserve(kernel.getNumTiles());
      forEachTile(getGrid(kernel), [&](const Coordinates &tile) {
        coordinates.push_back(tile);
        return true;
      });
      for (auto [rank, tiles] : llvm::enumerate(*orders)) {
        ScheduleOp schedule =
            createSchedule(builder, kernel.getLoc(), kernel.getKernelAttr(),
                           builder.getI64IntegerAttr(rank),
                           toTable(kernel, coordinates, tiles));
        if (kernel.getSteps(rank) &&
            failed(addSteps(kernel, schedule, analysis, tiles,
                            policy == TileOrder::Grouped)))
          return signalPassFailure();
        if (kernel.getParts() == 1)
          analysis.setOrder(schedule, std::move(tiles));
      }
    }
    markAnalysesPreserved<PlanAnalysis>();
  }

private:
  /// Orders the steps of tiles in an order.
  static LogicalResult addSteps(KernelOp kernel, ScheduleOp schedule,
                                PlanAnalysis &analysis, ArrayRef<int64_t> tiles,
                                bool natural) {
    KernelDependence &dependence =
        analysis.getDependence(kernel, schedule.getRank());
    if (!dependence.isValid())
      return failure();
    FailureOr<StepOrder> steps =
        orderSteps(kernel, dependence, tiles,
                   analysis.getGraph().estimateArrival(), natural);
    if (succeeded(steps))
      steps->write(schedule);
    return steps;
  }

  /// Leaves of each schedule the order of its tiles alone, and, if it has one,
  /// that of their steps.
  LogicalResult keepGiven(PlanOp plan) {
    auto &analysis = getAnalysis<PlanAnalysis>();
    analysis.setTiles([](unsigned) { return std::nullopt; });
    if (failed(analysis.getGraph().requireRealizations()))
      return failure();
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
        FailureOr<SmallVector<int64_t>> tiles = readTileOrder(kernel, schedule);
        if (failed(tiles))
          return failure();
        int64_t columns = kernel.getNumTiles() / kernel.getTiles().front();
        auto isLater = [&](int64_t a, int64_t b) {
          return a / columns < b / columns;
        };
        if (kernel.getNeeds() && !llvm::is_sorted(*tiles, isLater))
          return schedule.emitOpError(
              "expects tiles by their first coordinate, since the kernel has "
              "needs, and may leave out the last ones");
        OpBuilder builder(schedule);
        ScheduleOp kept =
            createSchedule(builder, schedule.getLoc(), schedule.getKernelAttr(),
                           schedule.getRankAttr(), *schedule.getTiles());
        if (schedule.getSteps() || schedule.getTileSteps()) {
          FailureOr<StepOrder> steps = readStepOrder(kernel, schedule, *tiles);
          if (failed(steps))
            return failure();
          steps->write(kept);
        } else if (kernel.getSteps(rank) &&
                   failed(addSteps(kernel, kept, analysis, *tiles,
                                   /*natural=*/false))) {
          return failure();
        }
        schedule.erase();
      }
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

  /// The tiles of each rank, in order.
  static FailureOr<std::vector<std::vector<int64_t>>>
  orderTiles(KernelOp kernel, PlanAnalysis &analysis, TileOrder policy,
             int64_t rows) {
    auto plan = cast<PlanOp>(kernel->getParentOp());
    if (failed(requireFootprints(kernel)))
      return failure();
    DenseI64ArrayAttr waves = plan.getStrategyOrDefault().getWaves();
    std::optional<TileSlots> slots;
    if (CollectiveOpInterface collective = findLibraryCall(plan)) {
      FailureOr<TileSlots> found = TileSlots::find(kernel, collective);
      if (failed(found))
        return failure();
      slots = std::move(*found);
    }
    // Rows of tiles that stay together are complete together. Where a library
    // call takes whole rows, no more stay together than the call takes.
    if (slots && slots->areRows() && policy != TileOrder::Wave)
      for (int64_t count : slots->chooseWaves(waves))
        rows = std::min(rows, slots->countUnits(count));
    // Tiles of one first coordinate need the same, and a kernel with `needs`
    // may leave out those of the last ones.
    if (kernel.getNeeds())
      rows = 1;
    PlanGraph &graph = analysis.getGraph();
    const TileGroups &groups = analysis.getGroups();
    SmallVector<int64_t> arrival = graph.estimateArrival();
    std::vector<int64_t> walk = walkGrid(kernel, rows);
    std::vector<TileKinds> kinds;
    std::vector<std::vector<int64_t>> orders;
    for (int64_t rank = 0, e = plan.getNumRanks(); rank < e; ++rank) {
      KernelDependence &dependence = analysis.getDependence(kernel, rank);
      if (!dependence.isValid())
        return failure();
      kinds.push_back(
          findTileKinds(walk, graph, dependence, arrival, groups, policy));
      orders.push_back(orderKinds(kernel, rank, e, kinds.back(), rows, policy));
      if (slots && !kernel.getNeeds())
        alternateBlocks(*slots, orders.back(), [&](int64_t tile) {
          int64_t last = 0;
          if (policy != TileOrder::Grouped)
            for (unsigned id : dependence.getSets()[dependence.getSet(tile)])
              last = std::max(last, arrival[id]);
          return last;
        });
    }
    if (slots && policy == TileOrder::Wave && !kernel.getNeeds())
      gatherCalls(kernel, *slots, slots->chooseWaves(waves), kinds, rows,
                  orders);
    return orders;
  }

  /// Coordinates at each position of the order, parts of tiles included.
  static TableAttr toTable(KernelOp kernel, ArrayRef<Coordinates> coordinates,
                           ArrayRef<int64_t> tiles) {
    std::vector<int64_t> values;
    int64_t count = kernel.getNumPositions(), whole = kernel.getNumWholeTiles();
    values.reserve(3 * count);
    for (int64_t position = 0; position < whole; ++position)
      llvm::append_range(values, coordinates[tiles[position]]);
    for (int64_t position = whole; position < count; ++position) {
      Coordinates row = coordinates[tiles[kernel.getTileAt(position)]];
      row[2] = *kernel.getPartAt(position);
      llvm::append_range(values, row);
    }
    return TableAttr::get(kernel.getContext(), {"c0", "c1", "c2"}, values);
  }

  static ScheduleOp createSchedule(OpBuilder &builder, Location loc,
                                   FlatSymbolRefAttr kernel, IntegerAttr rank,
                                   TableAttr tiles) {
    return ScheduleOp::create(
        builder, loc, kernel, rank, tiles, TableAttr{}, TableAttr{},
        TableAttr{}, TableAttr{}, TableAttr{}, TableAttr{}, TableAttr{},
        TableAttr{}, TableAttr{}, TableAttr{}, TableAttr{});
  }
};

} // namespace
} // namespace syncopate
