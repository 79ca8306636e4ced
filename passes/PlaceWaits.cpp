//===- PlaceWaits.cpp - which flags each tile waits for -------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KernelDependence.h"
#include "passes/Passes.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_PLACEWAITSPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

struct PlaceWaits : impl::PlaceWaitsPassBase<PlaceWaits> {
  using Base::Base;

  void runOnOperation() override {
    PlanOp plan = getOperation();
    PlanGraph graph(plan);
    if (!plan.getSignals()) {
      plan.emitOpError("has no signals; run chunk-allocate-signals first");
      return signalPassFailure();
    }
    for (KernelOp kernel : plan.getBody().getOps<KernelOp>())
      for (ScheduleOp schedule : plan.getBody().getOps<ScheduleOp>()) {
        if (schedule.getKernelAttr() != kernel.getKernelAttr())
          continue;
        KernelDependence dependence(graph, kernel, schedule.getRank());
        if (!dependence.isValid() ||
            failed(placeWaits(graph, kernel, schedule, dependence)))
          return signalPassFailure();
      }
  }

private:
  static LogicalResult placeWaits(PlanGraph &graph, KernelOp kernel,
                                  ScheduleOp schedule,
                                  KernelDependence &dependence) {
    std::optional<TableAttr> tiles = schedule.getTiles();
    if (!tiles || tiles->getColumn("c2") != 2)
      return schedule.emitOpError(
          "has no ordered tiles; run chunk-order-tiles first");
    ArrayRef<int64_t> grid = kernel.getTiles();
    int64_t ctas = kernel.getCtas();
    // By CTA and queue, the last transfer of the queue that was waited for.
    std::map<std::pair<int64_t, Queue>, unsigned> waited;
    // Tiles that wait for the same share rows.
    std::map<SmallVector<unsigned>, int64_t> rows;
    SmallVector<int64_t> tileValues, waitValues;
    for (int64_t position = 0; position < tiles->getNumRows(); ++position) {
      ArrayRef<int64_t> row = tiles->getRow(position);
      int64_t tile = 0;
      for (size_t i = 0; i < grid.size(); ++i)
        tile = tile * grid[i] + row[i];
      if (tile < 0 || tile >= kernel.getNumTiles())
        return schedule.emitOpError() << "orders a tile outside the grid in "
                                         "row "
                                      << position;
      // The last transfer of a queue stands for those before it.
      std::map<Queue, unsigned> last;
      for (unsigned id : dependence.getTransfers(tile))
        last[graph.getQueue(id)] = id;
      SmallVector<unsigned> waits;
      for (auto [queue, id] : last) {
        auto [it, isNew] = waited.try_emplace({position % ctas, queue}, id);
        if (!isNew && it->second >= id)
          continue;
        it->second = id;
        waits.push_back(id);
      }
      int64_t begin = 0;
      if (!waits.empty()) {
        auto [it, isNew] = rows.try_emplace(waits, waitValues.size() / 2);
        begin = it->second;
        if (isNew)
          for (unsigned id : waits)
            llvm::append_range(
                waitValues,
                std::array<int64_t, 2>{
                    static_cast<int64_t>(*graph.getTransfer(id).getSignal()),
                    1});
      }
      llvm::append_range(tileValues, row.take_front(3));
      tileValues.push_back(begin);
      tileValues.push_back(begin + waits.size());
    }
    MLIRContext *context = schedule.getContext();
    schedule.setTilesAttr(TableAttr::get(
        context, {"c0", "c1", "c2", "wait_begin", "wait_end"}, tileValues));
    schedule.setWaitsAttr(
        TableAttr::get(context, {"signal", "count"}, waitValues));
    return success();
  }
};

} // namespace
} // namespace syncopate
