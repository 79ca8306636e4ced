//===- AssignRealization.cpp - how each transfer is carried out -----------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Exchanges.h"
#include "passes/Passes.h"
#include "passes/Realizations.h"

#include "mlir/IR/Builders.h"

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
    ArrayRef<int64_t> mesh = plan.getMesh();
    std::optional<Realization> between =
        plan.getStrategyOrDefault().getBetween();
    auto choose = [&](TransferOpInterface transfer) {
      int64_t src = transfer.getSrcRank(), dst = transfer.getDstRank();
      // Ranks that differ in the last dimension only are those of a node.
      if (between && mesh.size() > 1 && src / mesh.back() != dst / mesh.back())
        return *between;
      // Nobody sends to itself.
      return src == dst && isExchange(chosen) ? getReducing(chosen) : chosen;
    };
    for (auto transfer : plan.getBody().getOps<TransferOpInterface>()) {
      Realization chosen = choose(transfer);
      auto reduction = transfer.getReduction();
      auto canCarryOut = [&](Realization realization) {
        return !reduction ||
               canReduce(realization, *reduction, transfer.getParts());
      };
      if (!transfer.getRealization())
        transfer.setRealization(canCarryOut(chosen) ? chosen
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
      if (transfer.getCounts() && isEngine(used)) {
        transfer.emitOpError()
            << "expects a realization on the device, since its number of rows "
               "is read there, but got "
            << stringifyRealization(used) << ", which the host issues";
        return signalPassFailure();
      }
    }
    if (failed(makeExchanges(plan)))
      return signalPassFailure();
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

private:
  /// What two ranks carry out together becomes gets of all rows that there may
  /// be, for the one that receives tells all others of it; and those of an
  /// exchange come to stand together.
  static LogicalResult makeExchanges(PlanOp plan) {
    for (auto transfer : llvm::make_early_inc_range(
             plan.getBody().getOps<TransferOpInterface>())) {
      if (!isExchange(*transfer.getRealization()))
        continue;
      if (transfer.getSrcRank() == transfer.getDstRank())
        return transfer.emitOpError()
               << "expects another rank than " << transfer.getSrcRank()
               << " to receive it, by realization "
               << stringifyRealization(*transfer.getRealization());
      if (isa<GetOp>(*transfer) && !transfer.getCounts())
        continue;
      // A library is told by the host how much it moves, so it moves as many
      // rows as there may be.
      OpBuilder builder(transfer);
      auto get = GetOp::create(
          builder, transfer.getLoc(), transfer.getSrc(),
          transfer.getSrcOffsets(), transfer.getDst(), transfer.getDstOffsets(),
          transfer.getSizes(), transfer.getSrcRank(), transfer.getDstRank(),
          ReductionAttr(), transfer.getDependencies(),
          RealizationAttr::get(plan.getContext(), *transfer.getRealization()));
      transfer->getResult(0).replaceAllUsesWith(get.getToken());
      transfer.erase();
    }
    orderExchanges(plan);
    return success();
  }
};

} // namespace
} // namespace syncopate
