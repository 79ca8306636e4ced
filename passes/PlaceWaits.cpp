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
#include "passes/TileSteps.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_PLACEWAITSPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

/// By set, the number of each queue that has a transfer in it, and the last of
/// those.
using LastOfSet = ArrayRef<SmallVector<std::pair<unsigned, unsigned>>>;

/// Gives lists of steps their waits. What a CTA has waited for before differs
/// between tiles that share a list, and so do then their waits, and their rows.
class StepWaits {
public:
  StepWaits(KernelDependence &dependence, const StepOrder &order,
            LastOfSet lastOfSet)
      : dependence(dependence), order(order), lastOfSet(lastOfSet) {}

  /// Places the waits of the steps in `range` of `tile`. `waited` holds, by
  /// queue, the number behind that of the last transfer that the CTA has waited
  /// for; `find` gives the rows of waits for transfers.
  void place(int64_t tile, RowRange range, MutableArrayRef<unsigned> waited,
             function_ref<RowRange(ArrayRef<unsigned>)> find) {
    unsigned list = dependence.getSteps(tile).list;
    const std::vector<Need> &needs = getNeeds(list, range);
    std::vector<std::pair<int64_t, RowRange>> placed;
    SmallVector<unsigned> ids;
    for (size_t i = 0; i < needs.size();) {
      int64_t row = needs[i].row;
      ids.clear();
      for (; i < needs.size() && needs[i].row == row; ++i)
        if (waited[needs[i].queue] <= needs[i].id) {
          waited[needs[i].queue] = needs[i].id + 1;
          ids.push_back(needs[i].id);
        }
      if (!ids.empty())
        placed.emplace_back(row, find(ids));
    }
    std::vector<int64_t> key{range.begin, range.end};
    for (auto &[row, waits] : placed)
      llvm::append_range(key,
                         std::array<int64_t, 3>{row, waits.begin, waits.end});
    auto begin = static_cast<int64_t>(values.size() / std::size(kStepColumns));
    auto [it, isNew] = rows.try_emplace(std::move(key), begin);
    llvm::append_range(
        ranges, std::array<int64_t, 2>{it->second,
                                       it->second + range.end - range.begin});
    if (!isNew)
      return;
    auto next = placed.begin();
    for (int64_t row = range.begin; row < range.end; ++row) {
      RowRange waits{0, 0};
      if (next != placed.end() && next->first == row)
        waits = next++->second;
      llvm::append_range(values, std::array<int64_t, 3>{
                                     order.steps[row], waits.begin, waits.end});
    }
  }

  void write(ScheduleOp schedule) const {
    MLIRContext *context = schedule.getContext();
    schedule.setStepsAttr(TableAttr::get(context, kStepColumns, values));
    schedule.setTileStepsAttr(
        TableAttr::get(context, kTileStepColumns, ranges));
  }

private:
  /// The first row of a list that needs a transfer of a queue, or a later one
  /// of that queue than all rows before.
  struct Need {
    int64_t row;
    unsigned queue, id;
  };

  const std::vector<Need> &getNeeds(unsigned list, RowRange range) {
    auto [it, isNew] = known.try_emplace({list, range.begin, range.end});
    if (!isNew)
      return it->second;
    ArrayRef<unsigned> sets = dependence.getStepSets(list);
    std::map<unsigned, unsigned> last;
    for (int64_t row = range.begin; row < range.end; ++row)
      for (auto [queue, id] : lastOfSet[sets[order.steps[row]]]) {
        auto [before, first] = last.try_emplace(queue, id);
        if (!first && before->second >= id)
          continue;
        before->second = id;
        it->second.push_back({row, queue, id});
      }
    return it->second;
  }

  KernelDependence &dependence;
  const StepOrder &order;
  LastOfSet lastOfSet;
  std::map<std::tuple<unsigned, int64_t, int64_t>, std::vector<Need>> known;
  std::map<std::vector<int64_t>, int64_t> rows;
  std::vector<int64_t> values, ranges;
};

struct PlaceWaits : impl::PlaceWaitsPassBase<PlaceWaits> {
  using Base::Base;

  void runOnOperation() override {
    PlanOp plan = getOperation();
    auto &analysis = getAnalysis<PlanAnalysis>();
    PlanGraph &graph = analysis.getGraph();
    if (failed(graph.requireSignals()))
      return signalPassFailure();
    SignalLayout layout = *SignalLayout::fromTable(plan);
    for (KernelOp kernel : plan.getBody().getOps<KernelOp>())
      for (ScheduleOp schedule : plan.getBody().getOps<ScheduleOp>()) {
        if (schedule.getKernelAttr() != kernel.getKernelAttr())
          continue;
        KernelDependence &dependence =
            analysis.getDependence(kernel, schedule.getRank());
        if (!dependence.isValid() ||
            failed(placeWaits(analysis, kernel, schedule, dependence, layout)))
          return signalPassFailure();
        analysis.keepOrder(schedule);
      }
    markAnalysesPreserved<PlanAnalysis>();
  }

private:
  using Wait = std::pair<int64_t, int64_t>;

  static LogicalResult placeWaits(PlanAnalysis &analysis, KernelOp kernel,
                                  ScheduleOp schedule,
                                  KernelDependence &dependence,
                                  const SignalLayout &layout) {
    PlanGraph &graph = analysis.getGraph();
    const TileGroups &groups = analysis.getGroups();
    FailureOr<ArrayRef<int64_t>> order = analysis.getOrder(kernel, schedule);
    if (failed(order))
      return failure();
    int64_t ctas = kernel.getCtas(), rank = schedule.getRank();
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
    FailureOr<StepOrder> steps = readStepOrder(kernel, schedule, *order);
    if (failed(steps))
      return failure();
    StepWaits stepWaits(dependence, *steps, lastOfSet);
    // By CTA and queue, the number behind that of the last transfer of the
    // queue that was waited for.
    int64_t used = std::min<int64_t>(ctas, order->size());
    std::vector<unsigned> waited(used * queues.size());
    // CTAs that have waited for the end of a rank's call before.
    std::vector<bool> guarded(used * layout.ranks);
    // The group of the tile before on each CTA, whose readers are among those.
    std::vector<int64_t> groupBefore(used, kNoGroup);
    // Tiles that wait for the same share rows; neighbours mostly do.
    std::map<SmallVector<Wait>, int64_t> rows;
    std::vector<WaitRow> waitRows;
    SmallVector<Wait> waits, lastWaits;
    int64_t lastBegin = 0;
    auto findRows = [&]() -> int64_t {
      if (waits.empty())
        return 0;
      if (waits == lastWaits)
        return lastBegin;
      auto [it, isNew] = rows.try_emplace(waits, waitRows.size());
      if (isNew)
        for (auto [signal, count] : waits)
          waitRows.push_back({signal, count});
      lastWaits = waits;
      return lastBegin = it->second;
    };
    ArrayRef<int64_t> ordered = schedule.getTiles()->getValues();
    size_t columns = schedule.getTiles()->getColumns().size();
    std::vector<TileRow> tileRows(order->size());
    bool walks = !steps->ofPosition.empty();
    int64_t nextCta = 0;
    for (auto [position, tile] : llvm::enumerate(*order)) {
      int64_t cta = nextCta;
      nextCta = cta + 1 == ctas ? 0 : cta + 1;
      waits.clear();
      for (auto [queue, id] : lastOfSet[dependence.getSet(tile)]) {
        unsigned &next = waited[cta * queues.size() + queue];
        if (next > id)
          continue;
        next = id + 1;
        waits.push_back({layout.data(id), 1});
      }
      int64_t group = groups.getGroup(rank, tile);
      if (group >= 0 && group != std::exchange(groupBefore[cta], group))
        for (int64_t reader : readers[group - groups.getFirst(rank)]) {
          if (guarded[cta * layout.ranks + reader])
            continue;
          guarded[cta * layout.ranks + reader] = true;
          waits.push_back({layout.done(reader), 0});
        }
      TileRow &row = tileRows[position];
      std::copy_n(&ordered[columns * position], 3, row.coordinates.begin());
      row.waits.begin = findRows();
      row.waits.end = row.waits.begin + waits.size();
      if (walks)
        stepWaits.place(
            tile, steps->ofPosition[position],
            MutableArrayRef(waited).slice(cta * queues.size(), queues.size()),
            [&](ArrayRef<unsigned> ids) {
              waits.clear();
              for (unsigned id : ids)
                waits.push_back({layout.data(id), 1});
              int64_t first = findRows();
              return RowRange{first,
                              first + static_cast<int64_t>(waits.size())};
            });
    }
    setTables(schedule, tileRows, waitRows);
    if (walks)
      stepWaits.write(schedule);
    return success();
  }

  /// Every tile names all transfers that it may need, in the order of the plan;
  /// how many of them it does need, and which of these its CTA has waited for
  /// before, is found out when it starts.
  static LogicalResult placeCountedWaits(PlanGraph &graph, KernelOp kernel,
                                         ScheduleOp schedule,
                                         KernelDependence &dependence,
                                         ArrayRef<int64_t> order) {
    std::vector<TileRow> tileRows;
    std::vector<WaitRow> waitRows;
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
      ArrayRef<unsigned> all = dependence.getSets()[dependence.getSet(tile)];
      tileRows.push_back({KernelDependence::getCoordinates(kernel, tile),
                          {0, static_cast<int64_t>(all.size())}});
      if (tile == order.front())
        for (unsigned id : all)
          waitRows.push_back({id, 1});
    }
    setTables(schedule, tileRows, waitRows);
    return success();
  }

  static void setTables(ScheduleOp schedule, ArrayRef<TileRow> tileRows,
                        ArrayRef<WaitRow> waitRows) {
    MLIRContext *context = schedule.getContext();
    schedule.setTilesAttr(
        TableAttr::get(context, kTileColumns, getValues(tileRows)));
    schedule.setWaitsAttr(
        TableAttr::get(context, kWaitColumns, getValues(waitRows)));
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
