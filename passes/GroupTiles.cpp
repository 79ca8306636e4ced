//===- GroupTiles.cpp - tiles by the library call that takes them ---------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LibraryCalls.h"
#include "passes/Passes.h"
#include "passes/PlanAnalysis.h"

#include <numeric>

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_GROUPTILESPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

struct GroupTiles : impl::GroupTilesPassBase<GroupTiles> {
  using Base::Base;

  void runOnOperation() override {
    PlanOp plan = getOperation();
    CollectiveOpInterface collective = findLibraryCall(plan);
    auto schedules = llvm::to_vector(plan.getBody().getOps<ScheduleOp>());
    for (ScheduleOp schedule : schedules)
      schedule.removeSlotsAttr();
    if (!collective || schedules.empty()) {
      markAnalysesPreserved<PlanAnalysis>();
      return;
    }
    KernelOp kernel = *plan.getBody().getOps<KernelOp>().begin();
    FailureOr<TileSlots> slots = TileSlots::find(kernel, collective);
    if (failed(slots))
      return signalPassFailure();
    SmallVector<int64_t> counts(waves.begin(), waves.end());
    if (counts.empty())
      counts = slots->chooseWaves(plan.getStrategyOrDefault().getWaves());
    for (int64_t count : counts)
      if (count <= 0) {
        plan.emitOpError() << "expects positive waves, but got " << count;
        return signalPassFailure();
      }
    // A call takes the same tiles on all ranks, so it can start when the last
    // rank has computed them.
    SmallVector<int64_t> last(kernel.getNumTiles()), order(last.size());
    for (ScheduleOp schedule : schedules) {
      FailureOr<SmallVector<int64_t>> tiles = readTileOrder(kernel, schedule);
      if (failed(tiles))
        return signalPassFailure();
      for (auto [position, tile] : llvm::enumerate(*tiles))
        last[tile] = std::max<int64_t>(last[tile], position);
    }
    std::iota(order.begin(), order.end(), 0);
    llvm::stable_sort(order,
                      [&](int64_t a, int64_t b) { return last[a] < last[b]; });
    SmallVector<int64_t> values;
    for (SlotRow row : slots->assign(order, counts))
      llvm::append_range(
          values, std::array<int64_t, 3>{row.call, row.slot, row.second});
    for (ScheduleOp schedule : schedules)
      schedule.setSlotsAttr(
          TableAttr::get(&getContext(), kSlotColumns, values));
  }
};

} // namespace
} // namespace syncopate
