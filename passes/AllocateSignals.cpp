//===- AllocateSignals.cpp - a flag for every transfer --------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/SignalLayout.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_ALLOCATESIGNALSPASS
#include "passes/Passes.h.inc"

using namespace chunk;

TableAttr SignalLayout::toTable(MLIRContext *context) const {
  return TableAttr::get(context,
                        {"data_twin", "ready", "ready_twin", "done",
                         "done_twin", "engine_done", "total"},
                        {dataTwin(0), ready(0), readyTwin(0), done(0),
                         doneTwin(0), engineDone(), total()});
}

namespace {

struct AllocateSignals : impl::AllocateSignalsPassBase<AllocateSignals> {
  using Base::Base;

  void runOnOperation() override {
    PlanOp plan = getOperation();
    int64_t count = 0;
    for (auto transfer : plan.getBody().getOps<TransferOpInterface>())
      transfer.setSignal(count++);
    plan.setSignalsAttr(
        SignalLayout{count, plan.getNumRanks()}.toTable(&getContext()));
  }
};

} // namespace
} // namespace syncopate
