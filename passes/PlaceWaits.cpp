//===- PlaceWaits.cpp - which flags each tile waits for -------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/PlanAnalysis.h"
#include "passes/SignalLayout.h"
#include "passes/Tables.h"

#include "llvm/ADT/DenseSet.h"

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
    auto &analysis = getAnalysis<PlanAnalysis>();
    PlanGraph &graph = analysis.getGraph();
    if (failed(graph.requireSignals()))
      return signalPassFailure();
    for (KernelOp kernel : plan.getBody().getOps<KernelOp>())
      for (ScheduleOp schedule : plan.getBody().getOps<ScheduleOp>()) {
        if (schedule.getKernelAttr() != kernel.getKernelAttr())
          continue;
        KernelDependence &dependence =
            analysis.getDependence(kernel, schedule.getRank());
        if (!dependence.isValid() ||
            failed(placeWaits(analysis, kernel, schedule, dependence)))
          return signalPassFailure();
        analysis.keepOrder(schedule);
      }
    markAnalysesPreserved<PlanAnalysis>();
  }

private:
  using Wait = std::pair<int64_t, int64_t>;

  static LogicalResult placeWaits(PlanAnalysis &analysis, KernelOp kernel,
                                  ScheduleOp schedule,
                                  KernelDependence &dependence) {
    PlanGraph &graph = analysis.getGraph();
    const TileGroups &groups = analysis.getGroups();
    FailureOr<ArrayRef<int64_t>> order = analysis.getOrder(kernel, schedule);
    if (failed(order))
      return failure();
    int64_t ctas = kernel.getCtas(), rank = schedule.getRank();
    SignalLayout layout = *SignalLayout::fromTable(graph.getPlan());
    // By group of the rank, who still gets from it in the call before.
    SmallVector<SmallVector<int64_t>> readers;
    for (int64_t group = groups.getFirst(rank);
         group < groups.getFirst(rank + 1); ++group)
      readers.push_back(groups.getReaders(graph, group));
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
    if (kernel.getNeeds())
      return placeCountedWaits(graph, kernel, schedule, dependence, *order);
    // By CTA and queue, the number behind that of the last transfer of the
    // queue that was waited for.
    int64_t used = std::min<int64_t>(ctas, order->size());
    std::vector<unsigned> waited(used * queues.size());
    // CTAs that have waited for the end of a rank's call before.
    llvm::DenseSet<std::pair<int64_t, int64_t>> guarded;
    // Tiles that wait for the same share rows.
    std::map<SmallVector<Wait>, int64_t> rows;
    std::vector<int64_t> tileValues, waitValues;
    tileValues.reserve(std::size(kTileColumns) * order->size());
    SmallVector<Wait> waits;
    TableAttr ordered = *schedule.getTiles();
    for (auto [position, tile] : llvm::enumerate(*order)) {
      auto cta = static_cast<int64_t>(position) % ctas;
      waits.clear();
      for (auto [queue, id] : lastOfSet[dependence.getSet(tile)]) {
        unsigned &next = waited[cta * queues.size() + queue];
        if (next > id)
          continue;
        next = id + 1;
        waits.emplace_back(*graph.getTransfer(id).getSignal(), 1);
      }
      if (int64_t group = groups.getGroup(rank, tile); group >= 0)
        for (int64_t reader : readers[group - groups.getFirst(rank)])
          if (guarded.insert({cta, reader}).second)
            waits.emplace_back(layout.done(reader), 0);
      int64_t begin = 0;
      if (!waits.empty()) {
        auto [it, isNew] = rows.try_emplace(waits, waitValues.size() / 2);
        begin = it->second;
        if (isNew)
          for (auto [signal, count] : waits)
            llvm::append_range(waitValues,
                               std::array<int64_t, 2>{signal, count});
      }
      llvm::append_range(tileValues, ordered.getRow(position).take_front(3));
      tileValues.push_back(begin);
      tileValues.push_back(begin + waits.size());
    }
    setTables(schedule, tileValues, waitValues);
    return success();
  }

  /// Every tile names all transfers that it may need, in the order of the plan;
  /// how many of them it does need, and which of these its CTA has waited for
  /// before, is found out when it starts.
  static LogicalResult placeCountedWaits(PlanGraph &graph, KernelOp kernel,
                                         ScheduleOp schedule,
                                         KernelDependence &dependence,
                                         ArrayRef<int64_t> order) {
    SmallVector<int64_t> tileValues, waitValues;
    for (int64_t tile : order) {
      if (dependence.getSet(tile) != dependence.getSet(order.front()))
        return kernel.emitOpError()
               << "expects all tiles to read alike if what they need is read "
                  "at run time, but tiles ["
               << ArrayRef(KernelDependence::getCoordinates(kernel, tile))
                      .take_front(kernel.getTiles().size())
               << "] and ["
               << ArrayRef(
                      KernelDependence::getCoordinates(kernel, order.front()))
                      .take_front(kernel.getTiles().size())
               << "] of rank " << schedule.getRank()
               << " read what different transfers bring";
      llvm::append_range(tileValues,
                         KernelDependence::getCoordinates(kernel, tile));
      ArrayRef<unsigned> all = dependence.getSets()[dependence.getSet(tile)];
      llvm::append_range(tileValues, std::array<int64_t, 2>{
                                         0, static_cast<int64_t>(all.size())});
      if (tile == order.front())
        for (unsigned id : all)
          llvm::append_range(
              waitValues,
              std::array<int64_t, 2>{
                  static_cast<int64_t>(*graph.getTransfer(id).getSignal()), 1});
    }
    setTables(schedule, tileValues, waitValues);
    return success();
  }

  static void setTables(ScheduleOp schedule, ArrayRef<int64_t> tileValues,
                        ArrayRef<int64_t> waitValues) {
    MLIRContext *context = schedule.getContext();
    schedule.setTilesAttr(TableAttr::get(context, kTileColumns, tileValues));
    schedule.setWaitsAttr(TableAttr::get(context, kWaitColumns, waitValues));
    // They name rows of a table of waits that is no more.
    schedule.removeCommandsAttr();
    schedule.removeSignalsAttr();
    schedule.removeCallsAttr();
    schedule.removeGroupsAttr();
    schedule.removeTileGroupsAttr();
  }
};

} // namespace
} // namespace syncopate
