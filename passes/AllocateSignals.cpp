//===- AllocateSignals.cpp - a flag for every transfer --------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/PlanAnalysis.h"
#include "passes/SignalLayout.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_ALLOCATESIGNALSPASS
#include "passes/Passes.h.inc"

using namespace chunk;

TableAttr SignalLayout::toTable(MLIRContext *context) const {
  return TableAttr::get(
      context,
      {"data_twin", "ready", "ready_twin", "done", "done_twin", "engine_done",
       "group", "group_twin", "total"},
      {dataTwin(0), ready(0), readyTwin(0), done(0), doneTwin(0), engineDone(),
       group(0), groupTwin(0), total()});
}

std::optional<SignalLayout> SignalLayout::fromTable(PlanOp plan) {
  std::optional<TableAttr> table = plan.getSignals();
  if (!table || table->getNumRows() != 1)
    return std::nullopt;
  int64_t first = table->getColumn("group"),
          second = table->getColumn("group_twin");
  auto transfers = plan.getBody().getOps<TransferOpInterface>();
  if (first < 0 || second < 0)
    return std::nullopt;
  ArrayRef<int64_t> row = table->getRow(0);
  SignalLayout layout{std::distance(transfers.begin(), transfers.end()),
                      plan.getNumRanks(), row[second] - row[first]};
  if (layout.groups < 0 || layout.toTable(plan.getContext()) != *table)
    return std::nullopt;
  return layout;
}

SignalLayout::Meaning SignalLayout::decode(int64_t signal) const {
  auto within = [&](Kind kind, int64_t first, int64_t count) {
    int64_t offset = signal - first;
    return Meaning{kind, offset % count, offset >= count};
  };
  if (signal < ready(0))
    return within(Kind::Data, 0, transfers);
  if (signal < done(0))
    return within(Kind::Ready, ready(0), ranks);
  if (signal < engineDone())
    return within(Kind::Done, done(0), ranks);
  if (signal == engineDone())
    return {Kind::EngineDone, 0, false};
  return within(Kind::Group, group(0), groups);
}

namespace {

struct AllocateSignals : impl::AllocateSignalsPassBase<AllocateSignals> {
  using Base::Base;

  void runOnOperation() override {
    PlanOp plan = getOperation();
    int64_t count = 0;
    for (auto transfer : plan.getBody().getOps<TransferOpInterface>())
      transfer.setSignal(count++);
    int64_t groups = getAnalysis<PlanAnalysis>().getGroups().size();
    plan.setSignalsAttr(
        SignalLayout{count, plan.getNumRanks(), groups}.toTable(&getContext()));
    markAnalysesPreserved<PlanAnalysis>();
  }
};

} // namespace
} // namespace syncopate
