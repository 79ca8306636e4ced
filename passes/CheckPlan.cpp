//===- CheckPlan.cpp - transfers read what is there and do not collide ----===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/PlanGraph.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_CHECKPLANPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

struct CheckPlan : impl::CheckPlanPassBase<CheckPlan> {
  using Base::Base;

  void runOnOperation() override {
    PlanGraph graph(getOperation());
    for (unsigned id = 0; id < graph.size(); ++id)
      if (failed(checkSource(graph, id)) || failed(checkDestination(graph, id)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  /// Inputs and earlier transfers cover the source, and no transfer writes it
  /// that is not ordered with this one.
  LogicalResult checkSource(PlanGraph &graph, unsigned id) {
    Box region = graph.getSrcBox(id);
    Place place = graph.getSrcPlace(id);
    SmallVector<Box> missing{region};
    for (const Box &input : graph.getInputs(place))
      subtract(missing, input);
    std::optional<unsigned> unordered;
    graph.getWriters(place).forEachOverlap(region, [&](unsigned writer) {
      if (writer == id || graph.isOrdered(id, writer))
        return;
      if (!graph.isOrdered(writer, id)) {
        unordered = writer;
        return;
      }
      subtract(missing, graph.getDstBox(writer));
    });
    TransferOpInterface transfer = graph.getTransfer(id);
    if (unordered) {
      auto diag = transfer.emitOpError()
                  << "reads a chunk of rank " << place.first
                  << " while another transfer writes it: neither comes after "
                     "the other";
      diag.attachNote(graph.getTransfer(*unordered).getLoc())
          << "the other transfer";
      return diag;
    }
    if (!missing.empty())
      return transfer.emitOpError()
             << "reads at offsets [" << missing.front().offsets << "] sizes ["
             << missing.front().sizes << "] what rank " << place.first
             << " does not hold: it is no input, and no transfer that this "
                "one comes after brings it";
    return success();
  }

  /// Nothing unordered writes the destination too, and it is no input.
  LogicalResult checkDestination(PlanGraph &graph, unsigned id) {
    Box region = graph.getDstBox(id);
    Place place = graph.getDstPlace(id);
    TransferOpInterface transfer = graph.getTransfer(id);
    for (const Box &input : graph.getInputs(place))
      if (input.intersects(region))
        return transfer.emitOpError()
               << "overwrites an input of rank " << place.first
               << " at offsets [" << input.offsets << "] sizes [" << input.sizes
               << "]";
    std::optional<unsigned> other;
    graph.getWriters(place).forEachOverlap(region, [&](unsigned writer) {
      if (writer < id && !graph.isOrdered(writer, id))
        other = writer;
    });
    if (!other)
      return success();
    auto diag = transfer.emitOpError()
                << "writes a chunk of rank " << place.first
                << " that another transfer writes too: neither comes after "
                   "the other";
    diag.attachNote(graph.getTransfer(*other).getLoc()) << "the other transfer";
    return diag;
  }
};

} // namespace
} // namespace syncopate
