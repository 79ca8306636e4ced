//===- CheckKernel.cpp - tiles and transfers do not collide --------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KernelDependence.h"
#include "passes/Passes.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_CHECKKERNELPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

struct CheckKernel : impl::CheckKernelPassBase<CheckKernel> {
  using Base::Base;

  void runOnOperation() override {
    PlanOp plan = getOperation();
    PlanGraph graph(plan);
    if (failed(graph.requireDecomposed()))
      return signalPassFailure();
    for (KernelOp kernel : plan.getBody().getOps<KernelOp>())
      for (int64_t rank = 0; rank < plan.getNumRanks(); ++rank)
        if (!KernelDependence(graph, kernel, rank).isValid() ||
            failed(checkWrites(graph, kernel, rank)))
          return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  /// No tile writes an input, or what a transfer reads or writes.
  static LogicalResult checkWrites(PlanGraph &graph, KernelOp kernel,
                                   int64_t rank) {
    for (FootprintOp footprint : kernel.getFootprints()) {
      if (footprint.getAccess() != Access::Write)
        continue;
      auto buffer = kernel.getBoundBuffer(footprint.getArg());
      Place place{rank, buffer};
      BoxIndex &inputs = graph.getInputIndex(place);
      BoxIndex &writers = graph.getWriters(place);
      BoxIndex &readers = graph.getReaders(place);
      if (inputs.empty() && writers.empty() && readers.empty())
        continue;
      for (int64_t tile = 0, e = kernel.getNumTiles(); tile < e; ++tile) {
        auto coordinates = KernelDependence::getCoordinates(kernel, tile);
        Box region = getAccessedBox(footprint, buffer.getType(), coordinates);
        if (region.isEmpty())
          continue;
        std::optional<Location> other;
        StringRef what;
        inputs.forEachOverlap(region, [&](unsigned) {
          other = footprint.getLoc();
          what = "is an input";
        });
        readers.forEachOverlap(region, [&](unsigned id) {
          other = graph.getTransfer(id).getLoc();
          what = "a transfer reads";
        });
        writers.forEachOverlap(region, [&](unsigned id) {
          other = graph.getTransfer(id).getLoc();
          what = "a transfer writes";
        });
        if (!other)
          continue;
        InFlightDiagnostic diag = kernel.emitOpError();
        diag << "tile ["
             << ArrayRef(coordinates).take_front(kernel.getTiles().size())
             << "] of rank " << rank << " writes of " << footprint.getArgAttr()
             << " what " << what
             << ": transfers of what tiles compute are not supported yet";
        diag.attachNote(*other) << (*other == footprint.getLoc()
                                        ? "the tile writes by this footprint"
                                        : "the transfer");
        return diag;
      }
    }
    return success();
  }
};

} // namespace
} // namespace syncopate
