//===- AssignSlots.cpp - tiles by the library call that takes them --------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LibraryCalls.h"
#include "passes/Passes.h"
#include "passes/PlanAnalysis.h"
#include "passes/TileOrders.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_ASSIGNSLOTSPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

struct AssignSlots : impl::AssignSlotsPassBase<AssignSlots> {
  using Base::Base;

  void runOnOperation() override {
    PlanOp plan = getOperation();
    CollectiveOpInterface collective = findLibraryCall(plan);
    auto schedules = llvm::to_vector(plan.getBody().getOps<ScheduleOp>());
    for (ScheduleOp schedule : schedules) {
      schedule.removeSlotsAttr();
      schedule.removeSlotPartsAttr();
      schedule.removeOutputsAttr();
    }
    if (!collective || schedules.empty()) {
      markAnalysesPreserved<PlanAnalysis>();
      return;
    }
    KernelOp kernel = *plan.getBody().getOps<KernelOp>().begin();
    FailureOr<TileSlots> slots = TileSlots::find(kernel, collective);
    if (failed(slots))
      return signalPassFailure();
    SmallVector<int64_t> counts =
        slots->chooseWaves(plan.getStrategyOrDefault().getWaves());
    // A call takes the same tiles on all ranks, so it can start when the last
    // rank has computed them.
    std::vector<std::vector<int64_t>> orders;
    for (ScheduleOp schedule : schedules) {
      FailureOr<SmallVector<int64_t>> tiles = readTileOrder(kernel, schedule);
      if (failed(tiles))
        return signalPassFailure();
      orders.emplace_back(tiles->begin(), tiles->end());
    }
    std::vector<int64_t> order = sortTiles(findLastPositions(orders));
    std::optional<TileSlots::Assignment> assigned;
    for (ScheduleOp schedule : schedules) {
      if (!assigned || slots->isRouted())
        assigned = slots->assign(order, counts, schedule.getRank());
      schedule.setSlotsAttr(TableAttr::get(
          &getContext(), kSlotColumns, getValues<SlotRow>(assigned->tiles)));
      schedule.setSlotPartsAttr(
          TableAttr::get(&getContext(), kSlotPartColumns,
                         getValues<SlotPartRow>(assigned->parts)));
    }
  }
};

} // namespace
} // namespace syncopate
