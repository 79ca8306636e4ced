//===- CheckKernel.cpp - tiles and transfers do not collide --------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/PlanAnalysis.h"

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
    auto &analysis = getAnalysis<PlanAnalysis>();
    PlanGraph &graph = analysis.getGraph();
    if (failed(graph.requireDecomposed()))
      return signalPassFailure();
    for (KernelOp kernel : plan.getBody().getOps<KernelOp>())
      for (int64_t rank = 0; rank < plan.getNumRanks(); ++rank)
        if (!analysis.getDependence(kernel, rank).isValid() ||
            failed(checkWrites(graph, kernel, rank)))
          return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  struct Write {
    int64_t tile;
    FootprintOp footprint;
    Box region;
  };

  static InFlightDiagnostic report(KernelOp kernel, int64_t rank,
                                   Write &write) {
    auto coordinates = KernelDependence::getCoordinates(kernel, write.tile);
    InFlightDiagnostic diag = kernel.emitOpError();
    diag << "tile ["
         << ArrayRef(coordinates).take_front(kernel.getTiles().size())
         << "] of rank " << rank << " writes of "
         << write.footprint.getArgAttr() << " ";
    return diag;
  }

  /// Tiles write all of what the plan says that they compute, each byte once,
  /// and otherwise nothing that is an input or that a transfer touches.
  static LogicalResult checkWrites(PlanGraph &graph, KernelOp kernel,
                                   int64_t rank) {
    std::vector<Write> writes;
    std::map<int64_t, BoxIndex> indices;
    for (FootprintOp footprint : kernel.getFootprints()) {
      if (footprint.getAccess() != Access::Write)
        continue;
      auto buffer = kernel.getBoundBuffer(footprint.getArg());
      Place place{rank, buffer};
      bool produced = !graph.getProduced(place).empty();
      if (!produced && graph.getInputIndex(place).empty() &&
          graph.getWriters(place).empty() && graph.getReaders(place).empty())
        continue;
      BoxIndex &index = indices[graph.getBufferIndex(buffer)];
      for (int64_t tile = 0, e = kernel.getNumTiles(); tile < e; ++tile) {
        auto coordinates = KernelDependence::getCoordinates(kernel, tile);
        Write write{tile, footprint,
                    getAccessedBox(footprint, buffer.getType(), coordinates)};
        if (write.region.isEmpty())
          continue;
        if (failed(checkOutside(graph, kernel, place, write)) ||
            failed(checkAccumulated(graph, kernel, place, write)))
          return failure();
        if (produced) {
          index.add(write.region, writes.size());
          writes.push_back(std::move(write));
        }
      }
    }
    for (Write &write : writes) {
      auto buffer = kernel.getBoundBuffer(write.footprint.getArg());
      std::optional<unsigned> other;
      indices[graph.getBufferIndex(buffer)].forEachOverlap(
          write.region, [&](unsigned id) {
            if (writes[id].tile < write.tile)
              other = id;
          });
      if (other && isProduced(graph, {rank, buffer}, write.region,
                              writes[*other].region))
        return report(kernel, rank, write)
               << "what tile ["
               << ArrayRef(KernelDependence::getCoordinates(
                               kernel, writes[*other].tile))
                      .take_front(kernel.getTiles().size())
               << "] writes too, and transfers wait for either";
    }
    for (ProduceOp produce : graph.getPlan().getBody().getOps<ProduceOp>()) {
      if (static_cast<int64_t>(produce.getRank()) != rank)
        continue;
      SmallVector<Box> missing{Box(produce.getOffsets(), produce.getSizes())};
      int64_t buffer = graph.getBufferIndex(produce.getBuffer());
      Box all = missing.front();
      indices[buffer].forEachOverlap(
          all, [&](unsigned id) { subtract(missing, writes[id].region); });
      if (missing.empty())
        continue;
      InFlightDiagnostic diag = produce.emitOpError()
                                << "expects tiles of rank " << rank
                                << " to write all of it, but none writes "
                                   "offsets ["
                                << missing.front().offsets << "] sizes ["
                                << missing.front().sizes << "]";
      diag.attachNote(kernel.getLoc()) << "the kernel";
      return diag;
    }
    return success();
  }

  /// A tile adds to all that it writes, or to nothing.
  static LogicalResult checkAccumulated(PlanGraph &graph, KernelOp kernel,
                                        Place place, Write &write) {
    SmallVector<Box> rest{write.region};
    ProduceOp sum;
    graph.getProducedIndex(place).forEachOverlap(
        write.region, [&](unsigned number) {
          ProduceOp produce = graph.getProduced(place)[number];
          if (!produce.getReduction())
            return;
          sum = produce;
          subtract(rest, Box(produce.getOffsets(), produce.getSizes()));
        });
    if (!sum || rest.empty())
      return success();
    InFlightDiagnostic diag =
        report(kernel, place.first, write)
        << "what it adds to at one part, but not at offsets ["
        << rest.front().offsets << "] sizes [" << rest.front().sizes << "]";
    diag.attachNote(sum.getLoc()) << "the region that it adds to";
    return diag;
  }

  /// True if two regions meet in what the plan says that tiles compute.
  static bool isProduced(PlanGraph &graph, Place place, const Box &a,
                         const Box &b) {
    SmallVector<Box> rest{a}, both{a};
    subtract(rest, b);
    for (const Box &box : rest)
      subtract(both, box);
    return llvm::any_of(both, [&](const Box &box) {
      return graph.getProducedIndex(place).overlaps(box);
    });
  }

  /// What a tile writes beside what the plan says that tiles compute is no
  /// input, and no transfer touches it.
  static LogicalResult checkOutside(PlanGraph &graph, KernelOp kernel,
                                    Place place, Write &write) {
    SmallVector<Box> outside{write.region};
    graph.getProducedIndex(place).forEachOverlap(
        write.region, [&](unsigned number) {
          ProduceOp produce = graph.getProduced(place)[number];
          subtract(outside, Box(produce.getOffsets(), produce.getSizes()));
        });
    std::optional<Location> other;
    StringRef what;
    for (const Box &box : outside) {
      graph.getInputIndex(place).forEachOverlap(box, [&](unsigned) {
        other = write.footprint.getLoc();
        what = "is an input";
      });
      graph.getReaders(place).forEachOverlap(box, [&](unsigned id) {
        other = graph.getTransfer(id).getLoc();
        what = "a transfer reads";
      });
      graph.getWriters(place).forEachOverlap(box, [&](unsigned id) {
        other = graph.getTransfer(id).getLoc();
        what = "a transfer writes";
      });
    }
    if (!other)
      return success();
    InFlightDiagnostic diag =
        report(kernel, place.first, write)
        << "what " << what
        << ", which no chunk.produce of the plan says that tiles compute";
    diag.attachNote(*other) << (*other == write.footprint.getLoc()
                                    ? "the tile writes by this footprint"
                                    : "the transfer");
    return diag;
  }
};

} // namespace
} // namespace syncopate
