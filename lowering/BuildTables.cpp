//===- BuildTables.cpp - command, signal and call tables ------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/Passes.h"
#include "lowering/TableWriter.h"
#include "passes/LibraryCalls.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_BUILDTABLESPASS
#include "lowering/Passes.h.inc"

using namespace chunk;

namespace {

/// The transfers that tiles hand over, in the order of their tiles, and the
/// CTAs of those.
SmallVector<std::pair<unsigned, int64_t>>
findHandedOver(PlanAnalysis &analysis, KernelOp kernel,
               ArrayRef<ScheduleOp> schedules) {
  PlanGraph &graph = analysis.getGraph();
  SmallVector<std::pair<unsigned, int64_t>> handed;
  std::map<int64_t, std::map<int64_t, SmallVector<unsigned>>> ofRank;
  for (unsigned id = 0; id < graph.size(); ++id)
    if (auto tile = graph.getTransfer(id).getTile())
      ofRank[graph.getTransfer(id).getExecutor()][*tile].push_back(id);
  for (ScheduleOp schedule : schedules) {
    auto &ofTile = ofRank[schedule.getRank()];
    if (ofTile.empty())
      continue;
    for (auto [position, tile] :
         llvm::enumerate(*analysis.getOrder(kernel, schedule)))
      for (unsigned id : ofTile[tile])
        handed.emplace_back(id, position % kernel.getCtas());
  }
  return handed;
}

/// Every tile has been given a slot or parts, and every call takes tiles.
LogicalResult requireSlots(const TileSlots &slots, KernelOp kernel,
                           ScheduleOp schedule) {
  std::optional<TableAttr> table = schedule.getSlots();
  std::optional<TableAttr> parts = schedule.getSlotParts();
  bool valid = table && table->getNumRows() == kernel.getNumTiles() &&
               table->getColumns().size() == std::size(kSlotColumns) && parts &&
               parts->getColumns().size() == std::size(kSlotPartColumns);
  std::set<int64_t> calls;
  if (valid)
    for (auto [tile, row] :
         llvm::enumerate(getRows<SlotRow>(table->getValues()))) {
      calls.insert(row.call);
      int64_t count = slots.isWhole(tile)
                          ? 0
                          : slots.getPieces(tile, schedule.getRank()).size();
      valid &= row.parts.end - row.parts.begin == count &&
               row.parts.begin >= 0 && row.parts.end <= parts->getNumRows();
    }
  valid = valid && *calls.begin() == 0 &&
          *calls.rbegin() == static_cast<int64_t>(calls.size()) - 1;
  if (!valid)
    return schedule.emitOpError(
        "has no slots of all its tiles; run chunk-assign-slots first");
  return success();
}

struct BuildTables : impl::BuildTablesPassBase<BuildTables> {
  using Base::Base;

  void runOnOperation() override {
    PlanOp plan = getOperation();
    for (BufferOp buffer : plan.getBuffers())
      if (!buffer.getResult().getType().hasStaticShape()) {
        buffer.emitOpError() << "expects a static shape to build tables, but "
                                "got "
                             << buffer.getResult().getType();
        return signalPassFailure();
      }
    auto &analysis = getAnalysis<PlanAnalysis>();
    PlanGraph &graph = analysis.getGraph();
    if (failed(graph.requireSignals()) || failed(graph.requireInputsKept()))
      return signalPassFailure();
    int64_t rest = pause;
    if (rest < 0)
      rest = plan.getStrategyOrDefault().getPause();
    if (rest > StrategyAttr::kMaxPause) {
      plan.emitOpError() << "expects pause to be in [0, "
                         << StrategyAttr::kMaxPause << "], but got " << rest;
      return signalPassFailure();
    }
    auto schedules = llvm::to_vector(plan.getBody().getOps<ScheduleOp>());
    if (schedules.empty())
      return;
    std::vector<ArrayRef<WaitRow>> waits;
    for (ScheduleOp schedule : schedules) {
      std::optional<ArrayRef<WaitRow>> placed = getTileWaits(schedule);
      if (!placed) {
        schedule.emitOpError("has no waits; run chunk-place-waits first");
        return signalPassFailure();
      }
      waits.push_back(*placed);
    }
    KernelOp kernel = *plan.getBody().getOps<KernelOp>().begin();
    plan.removeSlotsAttr();
    std::optional<TileSlots> slots;
    if (CollectiveOpInterface collective = findLibraryCall(plan)) {
      FailureOr<TileSlots> found = TileSlots::find(kernel, collective);
      if (failed(found))
        return signalPassFailure();
      slots = std::move(*found);
      for (ScheduleOp schedule : schedules)
        if (failed(requireSlots(*slots, kernel, schedule)))
          return signalPassFailure();
    }
    // Reported where it was found.
    for (int64_t rank = 0; rank < plan.getNumRanks(); ++rank)
      if (!analysis.getDependence(kernel, rank).isValid())
        return signalPassFailure();
    auto handed = findHandedOver(analysis, kernel, schedules);
    TableSources sources(analysis, handed, kernel, std::move(slots), rest);
    for (auto [schedule, placed] : llvm::zip(schedules, waits))
      TableWriter(sources, schedule, placed).write();
  }
};

} // namespace
} // namespace syncopate
