//===- TileSteps.cpp - which steps a tile walks, in which order -----------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileSteps.h"

#include <numeric>
#include <set>

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

/// How many rows lists may have together: what fits into some 100 MB.
static constexpr size_t kMaxRows = size_t(1) << 23;

void StepOrder::write(ScheduleOp schedule) const {
  MLIRContext *context = schedule.getContext();
  std::vector<int64_t> ranges;
  ranges.reserve(2 * ofPosition.size());
  for (RowRange range : ofPosition)
    llvm::append_range(ranges, std::array<int64_t, 2>{range.begin, range.end});
  schedule.setStepsAttr(
      TableAttr::get(context, ArrayRef(kStepColumns).take_front(1), steps));
  schedule.setTileStepsAttr(TableAttr::get(context, kTileStepColumns, ranges));
}

FailureOr<StepOrder> syncopate::orderSteps(KernelOp kernel,
                                           KernelDependence &dependence,
                                           ArrayRef<int64_t> order,
                                           ArrayRef<int64_t> arrival,
                                           bool natural) {
  // When what a set of transfers brings is there.
  std::vector<int64_t> complete;
  for (ArrayRef<unsigned> set : dependence.getSets()) {
    int64_t last = 0;
    for (unsigned id : set)
      last = std::max(last, arrival[id]);
    complete.push_back(last);
  }
  StepsOp said = kernel.getSteps(dependence.getRank());
  StepOrder result;
  std::map<std::tuple<unsigned, int64_t, int64_t>, RowRange> known;
  std::vector<int64_t> steps;
  for (int64_t tile : order) {
    const TileSteps &mine = dependence.getSteps(tile);
    auto [it, isNew] =
        known.try_emplace({mine.list, mine.begin, mine.end}, RowRange{0, 0});
    if (isNew) {
      if (result.steps.size() + (mine.end - mine.begin) > kMaxRows)
        return said.emitOpError() << "expects tiles to have lists of at most "
                                  << kMaxRows << " steps in all on a rank";
      steps.resize(mine.end - mine.begin);
      std::iota(steps.begin(), steps.end(), mine.begin);
      ArrayRef<unsigned> sets = dependence.getStepSets(mine.list);
      if (!natural && !said.getOrdered())
        llvm::stable_sort(steps, [&](int64_t a, int64_t b) {
          return complete[sets[a]] < complete[sets[b]];
        });
      auto begin = static_cast<int64_t>(result.steps.size());
      llvm::append_range(result.steps, steps);
      it->second = {begin, static_cast<int64_t>(result.steps.size())};
    }
    result.ofPosition.push_back(it->second);
  }
  return result;
}

FailureOr<StepOrder> syncopate::readStepOrder(KernelOp kernel,
                                              ScheduleOp schedule,
                                              ArrayRef<int64_t> order) {
  auto rank = static_cast<int64_t>(schedule.getRank());
  StepsOp said = kernel.getSteps(rank);
  std::optional<TableAttr> lists = schedule.getSteps();
  std::optional<TableAttr> ranges = schedule.getTileSteps();
  StepOrder result;
  if (!said) {
    if ((lists && lists->getNumRows()) || (ranges && ranges->getNumRows()))
      return schedule.emitOpError("has steps, but no chunk.steps of the kernel "
                                  "says that tiles walk any");
    return result;
  }
  if (!lists || lists->getColumn("step") != 0 || !ranges ||
      !llvm::equal(ranges->getColumns(), kTileStepColumns,
                   [](StringAttr column, StringRef expected) {
                     return column.getValue() == expected;
                   }))
    return schedule.emitOpError(
        "has no ordered steps; run chunk-order-tiles first");
  if (ranges->getNumRows() != static_cast<int64_t>(order.size()))
    return schedule.emitOpError()
           << "expects tile_steps to have a row for each of the "
           << order.size() << " positions of the order, but got "
           << ranges->getNumRows();
  for (int64_t row = 0, e = lists->getNumRows(); row < e; ++row)
    result.steps.push_back(lists->getRow(row).front());
  // Tiles that share a list mostly have the same steps too.
  std::set<std::array<int64_t, 4>> checked;
  llvm::BitVector seen;
  for (auto [position, tile] : llvm::enumerate(order)) {
    ArrayRef<int64_t> row = ranges->getRow(position);
    RowRange range{row[0], row[1]};
    result.ofPosition.push_back(range);
    auto report = [&]() {
      InFlightDiagnostic diag = schedule.emitOpError();
      diag << "expects row " << position << " of tile_steps to name ";
      return diag;
    };
    if (range.begin < 0 || range.begin > range.end ||
        range.end > lists->getNumRows())
      return report() << "rows of steps in [0, " << lists->getNumRows()
                      << "], but got [" << range.begin << ", " << range.end
                      << ")";
    auto wanted = said.getRange(KernelDependence::getCoordinates(kernel, tile));
    if (!wanted)
      return report() << "steps in [0, " << StepsOp::kMaxStep
                      << "), but its tile has others";
    auto [first, behind] = *wanted;
    if (!checked.insert({range.begin, range.end, first, behind}).second)
      continue;
    bool isWhole = range.end - range.begin == behind - first;
    seen.clear();
    seen.resize(behind - first);
    for (int64_t at = range.begin; isWhole && at < range.end; ++at) {
      int64_t step = result.steps[at] - first;
      isWhole = step >= 0 && step < behind - first && !seen.test(step);
      if (isWhole)
        seen.set(step);
    }
    if (!isWhole)
      return report() << "each step of its tile once, those in [" << first
                      << ", " << behind << "), but got rows [" << range.begin
                      << ", " << range.end << ")";
  }
  return result;
}
