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
      auto reduction = transfer.getReduction();
      auto canCarryOut = [&](Realization realization) {
        return !reduction ||
               canReduce(realization, *reduction, transfer.getParts());
      };
      if (!transfer.getRealization())
        transfer.setRealization(canCarryOut(chosen) || !carriesTransfers(chosen)
                                    ? chosen
                                    : getReducing(chosen));
      Realization used = *transfer.getRealization();
      if (!canCarryOut(used)) {
        InFlightDiagnostic diag = transfer->emitOpError();
        diag << "expects a transfer that copies"
             << (canReduce(used, Reduction::Sum) ? " or sums one part" : "")
             << ", but got one that reduces ";
        if (transfer.getParts() > 1)
          diag << transfer.getParts() << " parts ";
        diag << "by " << stringifyReduction(*reduction) << ": realization "
             << stringifyRealization(used) << " cannot";
        return signalPassFailure();
      }
      if (transfer.getCounts() && !isDevice(used)) {
        transfer.emitOpError()
            << "expects a realization on the device, since its number of rows "
               "is read there, but got "
            << stringifyRealization(used) << ", which the host issues";
        return signalPassFailure();
      }
      if (!carriesTransfers(used)) {
        InFlightDiagnostic diag = transfer.emitOpError();
        diag << "expects one of the realizations";
        for (int64_t i = 0; i < kNumRealizations; ++i)
          if (auto other = static_cast<Realization>(i); carriesTransfers(other))
            diag << " " << stringifyRealization(other);
        diag << ", but got " << stringifyRealization(used);
        return signalPassFailure();
      }
    }
    int64_t dedicated = llvm::count_if(getRoles(plan), isDedicated);
    int64_t ctas = dedicated == 0 ? 0
                   : commCtas     ? commCtas.getValue()
                                  : plan.getStrategyOrDefault().getCommCtas();
    for (KernelOp kernel : plan.getBody().getOps<KernelOp>()) {
      if (ctas < dedicated || ctas > StrategyAttr::kMaxCommCtas) {
        kernel.emitOpError()
            << "expects comm_ctas to be in [" << dedicated << ", "
            << StrategyAttr::kMaxCommCtas
            << "], one at least for each dedicated realization, but got "
            << ctas;
        return signalPassFailure();
      }
      kernel.setCommCtas(ctas);
    }
  }
};

} // namespace
} // namespace syncopate
