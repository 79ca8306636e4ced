//===- AssignRealization.cpp - how each transfer is carried out -----------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/Realizations.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_ASSIGNREALIZATIONPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

struct AssignRealization : impl::AssignRealizationPassBase<AssignRealization> {
  using Base::Base;

  void runOnOperation() override {
    PlanOp plan = getOperation();
    Realization chosen = plan.getStrategyOrDefault().getRealization();
    if (!realization.empty()) {
      std::optional<Realization> named = symbolizeRealization(realization);
      if (!named) {
        plan.emitOpError() << "expects a known realization, but got '"
                           << realization << "'";
        return signalPassFailure();
      }
      chosen = *named;
    }
    for (auto transfer : plan.getBody().getOps<TransferOpInterface>()) {
      if (!transfer.getRealization())
        transfer.setRealization(chosen);
      Realization used = *transfer.getRealization();
      if (transfer.getReduction() && !canReduce(used)) {
        transfer->emitOpError() << "expects a transfer that copies, but got "
                                   "one that reduces: realization "
                                << stringifyRealization(used) << " cannot";
        return signalPassFailure();
      }
      if (!isLowered(used)) {
        InFlightDiagnostic diag = transfer.emitOpError();
        diag << "expects one of the realizations";
        for (int64_t i = 0; i < kNumRealizations; ++i)
          if (auto other = static_cast<Realization>(i); isLowered(other))
            diag << " " << stringifyRealization(other);
        diag << ", but got " << stringifyRealization(used);
        return signalPassFailure();
      }
    }
  }
};

} // namespace
} // namespace syncopate
