//===- CheckKernel.cpp - tiles and transfers do not collide --------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/PlanAnalysis.h"

#include <map>
#include <set>

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
    std::map<int64_t, SmallVector<ProduceOp>> produced;
    for (ProduceOp produce : plan.getBody().getOps<ProduceOp>())
      produced[produce.getRank()].push_back(produce);
    for (KernelOp kernel : plan.getBody().getOps<KernelOp>()) {
      std::map<int64_t, TileWrites> writes;
      std::set<Computed> covered;
      for (int64_t rank = 0; rank < plan.getNumRanks(); ++rank)
        if (!analysis.getDependence(kernel, rank).isValid() ||
            failed(checkOutside(graph, kernel, rank)) ||
            failed(checkCollisions(graph, kernel, rank, writes)) ||
            failed(
                checkCovered(graph, kernel, produced[rank], writes, covered)))
          return signalPassFailure();
    }
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

  /// What tiles write to one buffer, the same on all ranks.
  struct TileWrites {
    std::vector<Write> writes;
    BoxIndex index;
    /// Writes, each with one of an earlier tile that it meets.
    SmallVector<std::pair<unsigned, unsigned>> collisions;
  };
  /// A buffer, offsets and sizes.
  using Computed =
      std::tuple<int64_t, std::vector<int64_t>, std::vector<int64_t>>;

  static TileWrites &findWrites(PlanGraph &graph, KernelOp kernel, Value buffer,
                                std::map<int64_t, TileWrites> &known) {
    auto [it, isNew] = known.try_emplace(graph.getBufferIndex(buffer));
    TileWrites &result = it->second;
    if (!isNew)
      return result;
    for (FootprintOp footprint : kernel.getFootprints()) {
      if (footprint.getAccess() != Access::Write ||
          kernel.getBoundBuffer(footprint.getArg()) != buffer)
        continue;
      const TileBoxes &boxes = graph.getTileBoxes(footprint);
      int64_t number = 0;
      forEachTile(getGrid(kernel), [&](const Coordinates &tile) {
        const Box &region = boxes[boxes.getNumber(tile)];
        if (!region.isEmpty()) {
          result.index.add(region, result.writes.size());
          result.writes.push_back({number, footprint, region});
        }
        ++number;
        return true;
      });
    }
    for (auto [place, write] : llvm::enumerate(result.writes)) {
      std::optional<unsigned> other;
      result.index.forEachOverlap(write.region, [&](unsigned id) {
        if (result.writes[id].tile < write.tile)
          other = id;
      });
      if (other)
        result.collisions.emplace_back(place, *other);
    }
    return result;
  }

  /// Tiles write nothing that is an input or that a transfer touches but what
  /// the plan says that they compute, and add to all of that or to nothing.
  static LogicalResult checkOutside(PlanGraph &graph, KernelOp kernel,
                                    int64_t rank) {
    for (FootprintOp footprint : kernel.getFootprints()) {
      if (footprint.getAccess() != Access::Write)
        continue;
      auto buffer = kernel.getBoundBuffer(footprint.getArg());
      Place place{rank, buffer};
      if (graph.getProduced(place).empty() &&
          graph.getInputIndex(place).empty() &&
          graph.getWriters(place).empty() && graph.getReaders(place).empty())
        continue;
      const TileBoxes &boxes = graph.getTileBoxes(footprint);
      // Regions of which one is known to be right, and so all.
      BoxCell right;
      int64_t number = -1;
      if (!forEachTile(getGrid(kernel), [&](const Coordinates &tile) {
            ++number;
            const Box &region = boxes[boxes.getNumber(tile)];
            if (region.isEmpty() || right.contains(region))
              return true;
            Write write{number, footprint, region};
            if (failed(checkOutside(graph, kernel, place, write)) ||
                failed(checkAccumulated(graph, kernel, place, write)))
              return false;
            right.surround(region, {&graph.getProducedIndex(place),
                                    &graph.getInputIndex(place),
                                    &graph.getReaders(place),
                                    &graph.getWriters(place)});
            return true;
          }))
        return failure();
    }
    return success();
  }

  /// No two tiles write what transfers wait for either to write.
  static LogicalResult checkCollisions(PlanGraph &graph, KernelOp kernel,
                                       int64_t rank,
                                       std::map<int64_t, TileWrites> &known) {
    for (BufferOp buffer : graph.getPlan().getBuffers()) {
      Place place{rank, buffer.getResult()};
      if (graph.getProduced(place).empty())
        continue;
      TileWrites &tiles = findWrites(graph, kernel, place.second, known);
      for (auto [number, other] : tiles.collisions) {
        Write &write = tiles.writes[number], &earlier = tiles.writes[other];
        if (isProduced(graph, place, write.region, earlier.region))
          return report(kernel, rank, write)
                 << "what tile ["
                 << ArrayRef(
                        KernelDependence::getCoordinates(kernel, earlier.tile))
                        .take_front(kernel.getTiles().size())
                 << "] writes too, and transfers wait for either";
      }
    }
    return success();
  }

  /// Tiles write all of what the plan says that those of a rank compute, by
  /// `produced`. `covered` are regions for which that is known.
  static LogicalResult checkCovered(PlanGraph &graph, KernelOp kernel,
                                    ArrayRef<ProduceOp> produced,
                                    std::map<int64_t, TileWrites> &known,
                                    std::set<Computed> &covered) {
    for (ProduceOp produce : produced) {
      Box all{produce.getOffsets(), produce.getSizes()};
      Computed region{
          graph.getBufferIndex(produce.getBuffer()),
          std::vector<int64_t>(all.offsets.begin(), all.offsets.end()),
          std::vector<int64_t>(all.sizes.begin(), all.sizes.end())};
      if (covered.count(region))
        continue;
      TileWrites &tiles = findWrites(graph, kernel, produce.getBuffer(), known);
      SmallVector<Box> missing{all};
      tiles.index.forEachOverlap(all, [&](unsigned id) {
        subtract(missing, tiles.writes[id].region);
      });
      if (missing.empty()) {
        covered.insert(std::move(region));
        continue;
      }
      InFlightDiagnostic diag = produce.emitOpError()
                                << "expects tiles of rank " << produce.getRank()
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
    diag.attachNote(sum.getLoc())
        << "the region that it adds to: offsets [" << sum.getOffsets()
        << "] sizes [" << sum.getSizes() << "], while the tile has offsets ["
        << write.region.offsets << "] sizes [" << write.region.sizes << "]";
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
