//===- PlaceWaits.cpp - which flags each tile waits for -------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KernelDependence.h"
#include "passes/Passes.h"
#include "passes/Tables.h"

#include "llvm/ADT/DenseMap.h"

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
    if (failed(graph.requireSignals()))
      return signalPassFailure();
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
    FailureOr<SmallVector<int64_t>> order = readTileOrder(kernel, schedule);
    if (failed(order))
      return failure();
    int64_t ctas = kernel.getCtas();
    // By set, the last transfer of each queue, which stands for those before;
    // queues by their number in order of appearance.
    std::map<Queue, unsigned> queues;
    SmallVector<SmallVector<std::pair<unsigned, unsigned>>> lastOfSet;
    for (ArrayRef<unsigned> set : dependence.getSets()) {
      std::map<Queue, unsigned> last;
      for (unsigned id : set)
        last[graph.getQueue(id)] = id;
      auto &numbered = lastOfSet.emplace_back();
      for (auto [queue, id] : last) {
        auto it = queues.try_emplace(queue, queues.size()).first;
        numbered.emplace_back(it->second, id);
      }
    }
    // By CTA and queue, the last transfer of the queue that was waited for.
    llvm::DenseMap<std::pair<unsigned, unsigned>, unsigned> waited;
    // Tiles that wait for the same share rows.
    std::map<SmallVector<unsigned>, int64_t> rows;
    SmallVector<int64_t> tileValues, waitValues;
    for (auto [position, tile] : llvm::enumerate(*order)) {
      SmallVector<unsigned> waits;
      for (auto [queue, id] : lastOfSet[dependence.getSet(tile)]) {
        auto [it, isNew] = waited.try_emplace(
            {static_cast<unsigned>(position % ctas), queue}, id);
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
      llvm::append_range(tileValues,
                         KernelDependence::getCoordinates(kernel, tile));
      tileValues.push_back(begin);
      tileValues.push_back(begin + waits.size());
    }
    MLIRContext *context = schedule.getContext();
    schedule.setTilesAttr(TableAttr::get(context, kTileColumns, tileValues));
    schedule.setWaitsAttr(TableAttr::get(context, kWaitColumns, waitValues));
    // They name rows of a table of waits that is no more.
    schedule.removeCommandsAttr();
    schedule.removeSignalsAttr();
    schedule.removeCallsAttr();
    return success();
  }
};

} // namespace
} // namespace syncopate
