//===- CheckTables.cpp - the tables keep what the plan promises -----------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/CommandRegions.h"
#include "passes/Passes.h"
#include "passes/TableChecker.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_CHECKTABLESPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

struct CheckTables : impl::CheckTablesPassBase<CheckTables> {
  using Base::Base;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    PlanOp plan = getOperation();
    auto kernels = plan.getBody().getOps<KernelOp>();
    if (kernels.empty())
      return;
    KernelOp kernel = *kernels.begin();
    auto schedules = llvm::to_vector(plan.getBody().getOps<ScheduleOp>());
    llvm::sort(schedules, [](ScheduleOp a, ScheduleOp b) {
      return a.getRank() < b.getRank();
    });
    if (static_cast<int64_t>(schedules.size()) != plan.getNumRanks()) {
      plan.emitOpError() << "expects a schedule for each of its "
                         << plan.getNumRanks() << " ranks, but got "
                         << schedules.size();
      return signalPassFailure();
    }
    PlanGraph graph(plan);
    if (failed(graph.requireSignals()) || failed(graph.requireInputsKept()))
      return signalPassFailure();
    CarriedOut carriedOut(graph);
    bool produces = !plan.getBody().getOps<ProduceOp>().empty();
    SmallVector<ScheduleTables> tables;
    for (ScheduleOp schedule : schedules) {
      FailureOr<ScheduleTables> read =
          ScheduleTables::read(kernel, schedule, produces);
      if (failed(read) ||
          failed(checkCommandRegions(graph, kernel, carriedOut, *read)))
        return signalPassFailure();
      tables.push_back(*read);
    }
    if (failed(TableChecker(graph, kernel, tables).check()))
      signalPassFailure();
  }
};

} // namespace
} // namespace syncopate
