//===- SeparateInputs.cpp - inputs that are read by themselves ------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/PlanAnalysis.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_SEPARATEINPUTSPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

struct SeparateInputs : impl::SeparateInputsPassBase<SeparateInputs> {
  using Base::Base;

  void runOnOperation() override {
    PlanOp plan = getOperation();
    auto &analysis = getAnalysis<PlanAnalysis>();
    Builder builder(&getContext());
    for (KernelOp kernel : plan.getBody().getOps<KernelOp>()) {
      SmallVector<StringRef> separate;
      for (BufferOp buffer : plan.getBuffers()) {
        if (llvm::none_of(buffer->getUsers(),
                          [](Operation *user) { return isa<InputOp>(user); }))
          continue;
        FailureOr<bool> alone = isSeparate(analysis, kernel, buffer);
        if (failed(alone))
          return signalPassFailure();
        if (*alone)
          separate.push_back(buffer.getName());
      }
      if (separate.empty())
        kernel.removeSeparateAttr();
      else
        kernel.setSeparateAttr(builder.getStrArrayAttr(separate));
    }
    markAnalysesPreserved<PlanAnalysis>();
  }

private:
  static FailureOr<bool> isSeparate(PlanAnalysis &analysis, KernelOp kernel,
                                    BufferOp buffer) {
    PlanGraph &graph = analysis.getGraph();
    TypedValue<BufferType> value = buffer.getResult();
    for (int64_t rank = 0; rank < graph.getPlan().getNumRanks(); ++rank) {
      ArrayRef<Box> inputs = graph.getInputs({rank, value});
      if (inputs.size() > 1)
        return false;
      for (const Box &input : inputs)
        if (ArrayRef(input.sizes).drop_front() !=
            value.getType().getShape().drop_front())
          return false;
      KernelDependence &dependence = analysis.getDependence(kernel, rank);
      if (!dependence.isValid())
        return failure();
      if (dependence.hasMixedReads())
        return false;
    }
    for (unsigned id = 0; id < graph.size(); ++id) {
      Place place = graph.getSrcPlace(id);
      if (place.second != value || place.first != graph.getReadingRank(id))
        continue;
      auto parts = graph.getSrcBoxes(id);
      SmallVector<Box> others(parts.begin(), parts.end());
      for (const Box &input : graph.getInputs(place))
        subtract(others, input);
      if (!others.empty() && ArrayRef(others) != ArrayRef(parts))
        return false;
    }
    return true;
  }
};

} // namespace
} // namespace syncopate
