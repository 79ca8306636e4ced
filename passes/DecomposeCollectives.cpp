//===- DecomposeCollectives.cpp - collectives into puts and gets ----------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LibraryCalls.h"
#include "passes/Passes.h"
#include "passes/Realizations.h"
#include "passes/decompose/Emitter.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_DECOMPOSECOLLECTIVESPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

/// What an option names, or else what the strategy has; an error if it names
/// nothing known.
template <typename Choice>
FailureOr<Choice> choose(PlanOp plan, StringRef what, StringRef option,
                         std::optional<Choice> (*symbolize)(StringRef),
                         Choice chosen) {
  if (option.empty())
    return chosen;
  if (std::optional<Choice> named = symbolize(option))
    return *named;
  return plan.emitOpError()
         << "expects a known " << what << ", but got '" << option << "'";
}

struct DecomposeCollectives
    : impl::DecomposeCollectivesPassBase<DecomposeCollectives> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

private:
  /// Whether a collective brings together what tiles compute, so that a library
  /// has calls for it. Others are transfers, whatever carries them out.
  static bool isOfTiles(CollectiveOpInterface op) {
    return isa<AllReduceOp, ReduceScatterOp, AllToAllOp>(*op) &&
           llvm::any_of(op.getDependencies(), [](Value token) {
             return token.getDefiningOp<ProduceOp>() != nullptr;
           });
  }

  LogicalResult run(PlanOp plan) {
    StrategyAttr strategy = plan.getStrategyOrDefault();
    auto chosenAlgorithm =
        choose<Algorithm>(plan, "algorithm", algorithm, symbolizeAlgorithm,
                          strategy.getAlgorithm());
    auto chosenDirection =
        choose<Direction>(plan, "direction", direction, symbolizeDirection,
                          strategy.getDirection());
    auto chosenRealization =
        choose<Realization>(plan, "realization", realization,
                            symbolizeRealization, strategy.getRealization());
    if (failed(chosenAlgorithm) || failed(chosenDirection) ||
        failed(chosenRealization))
      return failure();
    auto emit = [&](CollectiveOpInterface op, OpBuilder *builder) {
      Emitter emitter(op, op.getDirection().value_or(*chosenDirection),
                      builder);
      LogicalResult result =
          decompose(emitter, op.getAlgorithm().value_or(*chosenAlgorithm));
      return std::pair(result, std::move(emitter));
    };
    // Everything is refused before anything is made.
    int64_t count =
        llvm::range_size(plan.getBody().getOps<TransferOpInterface>());
    SmallVector<CollectiveOpInterface> collectives, called;
    for (auto op : plan.getBody().getOps<CollectiveOpInterface>()) {
      if (op.getRealization().value_or(*chosenRealization) !=
              Realization::Nccl ||
          !isOfTiles(op))
        collectives.push_back(op);
      else if (failed(verifyLibraryCall(op)))
        return failure();
      else
        called.push_back(op);
    }
    if (called.size() > 1) {
      InFlightDiagnostic diag = called[1]->emitOpError(
          "expects to be the only collective of its plan that is library "
          "calls");
      diag.attachNote(called[0]->getLoc()) << "the other one";
      return diag;
    }
    for (CollectiveOpInterface op : collectives) {
      auto [result, emitter] = emit(op, nullptr);
      if (failed(result))
        return failure();
      count += emitter.getNumTransfers();
      if (count > PlanOp::kMaxTransfers)
        return op->emitOpError()
               << "expects a plan of at most " << PlanOp::kMaxTransfers
               << " transfers, but with those of this collective it has "
               << count;
    }
    for (CollectiveOpInterface op : called)
      op.setRealization(Realization::Nccl);
    for (CollectiveOpInterface op : collectives) {
      OpBuilder builder(op);
      auto [result, emitter] = emit(op, &builder);
      assert(succeeded(result) && "a collective that could be counted");
      Value token = JoinOp::create(builder, op.getLoc(), emitter.getTokens());
      op.getToken().replaceAllUsesWith(token);
      auto claim = ClaimOp::create(builder, op.getLoc(), token);
      Block &body = claim.getBody().emplaceBlock();
      op->moveBefore(&body, body.end());
    }
    return success();
  }
};

} // namespace
} // namespace syncopate
