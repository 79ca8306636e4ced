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

/// Regions that a reduce_scatter has left undefined, the blocks of others, and
/// that nothing has overwritten since, while the plan is gone through in its
/// order. Which bytes are there depends on the algorithm.
class UndefinedRegions {
public:
  explicit UndefinedRegions(PlanGraph &graph) : graph(graph) {}

  /// The collective of a claim has been carried out.
  void add(ClaimOp claim) {
    auto scatter = dyn_cast<ReduceScatterOp>(claim.getBody().front().front());
    if (!scatter)
      return;
    auto collective = cast<CollectiveOpInterface>(scatter.getOperation());
    SmallVector<Box> blocks;
    for (size_t member = 0; member < collective.getGroup().size(); ++member) {
      auto [offsets, sizes] = collective.getBlock(member);
      blocks.emplace_back(offsets, sizes);
    }
    // All blocks together; the last ones may be empty.
    auto axis = static_cast<size_t>(scatter.getAxis());
    Box all = blocks.front();
    for (const Box &block : ArrayRef(blocks).drop_front())
      all.sizes[axis] += std::max<int64_t>(block.sizes[axis], 0);
    for (auto [rank, own] : llvm::zip(collective.getGroup(), blocks)) {
      BoxMap &there =
          regions.try_emplace(key({rank, collective.getDst()}), BoxMap(axis))
              .first->second;
      SmallVector<Box> others{all};
      if (!own.isEmpty())
        subtract(others, own);
      there.subtract(all);
      for (Box &box : others)
        there.insert(std::move(box), claims.size());
    }
    claims.push_back(claim);
  }

  /// A transfer has written its destination.
  void overwrite(unsigned id) {
    auto it = regions.find(key(graph.getDstPlace(id)));
    if (it != regions.end())
      it->second.subtract(graph.getDstBox(id));
  }

  /// The claim of a collective that has left some of a region undefined, or
  /// null.
  ClaimOp find(Place place, const Box &region) {
    ClaimOp found;
    if (auto it = regions.find(key(place)); it != regions.end())
      it->second.forEachOverlap(region, [&](const Box &, unsigned number) {
        found = claims[number];
      });
    return found;
  }

private:
  std::pair<int64_t, int64_t> key(Place place) {
    return {place.first, graph.getBufferIndex(place.second)};
  }

  PlanGraph &graph;
  std::map<std::pair<int64_t, int64_t>, BoxMap> regions;
  std::vector<ClaimOp> claims;
};

/// Goes through the transfers in the order of the plan and keeps, of every
/// place, which transfer wrote what is there now, which have added to it since
/// without an order among them, and which have read it since. If each transfer
/// is ordered with those, it is with all before them.
class Checker {
public:
  explicit Checker(PlanGraph &graph) : graph(graph), undefined(graph) {}

  LogicalResult check() {
    if (failed(checkProduced()))
      return failure();
    unsigned next = 0;
    for (Operation &op : graph.getPlan().getBody().getOps()) {
      if (auto claim = dyn_cast<ClaimOp>(op))
        undefined.add(claim);
      if (!isa<TransferOpInterface>(op))
        continue;
      unsigned id = next++;
      if (failed(checkCount(id)) || failed(checkSource(id)) ||
          failed(checkDestination(id)))
        return failure();
      undefined.overwrite(id);
    }
    return success(succeeded(checkOutputs()) && succeeded(checkNeeds()));
  }

private:
  struct Accesses {
    BoxMap writes, sums, reads;
  };

  Accesses &getAccesses(Place place) {
    auto [it, isNew] =
        accesses.try_emplace({place.first, graph.getBufferIndex(place.second)});
    if (isNew) {
      it->second.writes = BoxMap(graph.getWriters(place).getDim());
      it->second.sums = BoxMap(graph.getWriters(place).getDim());
      it->second.reads = BoxMap(graph.getReaders(place).getDim());
    }
    return it->second;
  }

  /// What is read at run time of a buffer of a rank's own is its input, which
  /// stays as it is for the whole call.
  LogicalResult checkWords(Operation *op, StringRef what, int64_t rank,
                           Value buffer, int64_t first, int64_t count) {
    SmallVector<Box> missing{Box({first}, {count})};
    for (const Box &input : graph.getInputs({rank, buffer}))
      subtract(missing, input);
    if (missing.empty())
      return success();
    InFlightDiagnostic diag =
        op->emitOpError() << "expects " << what << " to be an input of rank "
                          << rank << ", but element "
                          << missing.front().offsets.front() << " is none";
    diag.attachNote(buffer.getLoc()) << "the buffer";
    return diag;
  }

  LogicalResult checkCount(unsigned id) {
    TransferOpInterface transfer = graph.getTransfer(id);
    auto at = transfer.getCountAt();
    return at ? checkWords(transfer, "its number of rows",
                           transfer.getExecutor(), transfer.getCounts(),
                           at->front(), 1)
              : success();
  }

  LogicalResult checkNeeds() {
    for (KernelOp kernel : graph.getPlan().getBody().getOps<KernelOp>())
      for (int64_t rank = 0;
           kernel.getNeeds() && rank < graph.getPlan().getNumRanks(); ++rank)
        if (failed(checkWords(kernel, "what its tiles need", rank,
                              kernel.getNeeds(),
                              static_cast<int64_t>(*kernel.getNeedsAt()),
                              kernel.getTiles().front())))
          return failure();
    return success();
  }

  /// What a call gives back is defined.
  LogicalResult checkOutputs() {
    for (OutputOp output : graph.getPlan().getBody().getOps<OutputOp>())
      if (ClaimOp claim =
              undefined.find({output.getRank(), output.getBuffer()},
                             Box(output.getOffsets(), output.getSizes())))
        return reportUndefined(output, "gives back", output.getRank(), claim);
    return success();
  }

  static LogicalResult reportUndefined(Operation *op, StringRef does,
                                       int64_t rank, ClaimOp claim) {
    InFlightDiagnostic diag = op->emitOpError()
                              << does << " what a reduce_scatter leaves "
                              << "undefined at rank " << rank
                              << ": blocks of other ranks";
    diag.attachNote(claim.getLoc()) << "the reduce_scatter";
    return diag;
  }

  /// What tiles add to is there.
  LogicalResult checkAccumulated(ProduceOp produce) {
    Place place{produce.getRank(), produce.getBuffer()};
    Box region(produce.getOffsets(), produce.getSizes());
    SmallVector<Box> missing{region};
    graph.getWriters(place).forEachOverlap(region, [&](unsigned id) {
      if (graph.isBefore(id, produce.getToken()))
        subtract(missing, graph.getDstBox(id));
    });
    if (missing.empty())
      return success();
    return produce.emitOpError()
           << "expects tiles to add to what transfers before it bring to rank "
           << place.first << ", but none brings offsets ["
           << missing.front().offsets << "] sizes [" << missing.front().sizes
           << "]";
  }

  /// What tiles compute is no input, and computed once.
  LogicalResult checkProduced() {
    for (ProduceOp produce : graph.getPlan().getBody().getOps<ProduceOp>()) {
      Place place{produce.getRank(), produce.getBuffer()};
      Box region(produce.getOffsets(), produce.getSizes());
      if (graph.getInputIndex(place).overlaps(region))
        return produce.emitOpError() << "names a region of rank " << place.first
                                     << " that an input names too";
      if (produce.getReduction() && failed(checkAccumulated(produce)))
        return failure();
      ProduceOp other;
      graph.getProducedIndex(place).forEachOverlap(region, [&](unsigned id) {
        if (graph.getProduced(place)[id] != produce)
          other = graph.getProduced(place)[id];
      });
      if (!other)
        continue;
      InFlightDiagnostic diag = produce.emitOpError()
                                << "names a region of rank " << place.first
                                << " that another operation names too";
      diag.attachNote(other.getLoc()) << "the other operation";
      return diag;
    }
    return success();
  }

  /// A transfer that touches what tiles compute comes after it.
  LogicalResult checkAfterTiles(unsigned id, Place place, const Box &region) {
    ProduceOp missing;
    graph.getProducedIndex(place).forEachOverlap(region, [&](unsigned number) {
      ProduceOp produce = graph.getProduced(place)[number];
      if (!graph.isAfter(produce.getToken(), id) &&
          !(produce.getReduction() && graph.isBefore(id, produce.getToken())))
        missing = produce;
    });
    if (!missing)
      return success();
    InFlightDiagnostic diag = graph.getTransfer(id).emitOpError()
                              << "touches a region that tiles of rank "
                              << place.first
                              << " compute, and does not come after it"
                              << (missing.getReduction() ? ", nor before" : "");
    diag.attachNote(missing.getLoc()) << "the region";
    return diag;
  }

  /// Inputs, tiles and transfers that this one comes after cover the source.
  LogicalResult checkSource(unsigned id) {
    Place place = graph.getSrcPlace(id);
    for (Box &region : graph.getSrcBoxes(id)) {
      if (failed(checkRead(id, place, region)))
        return failure();
      getAccesses(place).reads.insert(std::move(region), id);
    }
    return success();
  }

  /// What a transfer reads at a place is there.
  LogicalResult checkRead(unsigned id, Place place, const Box &region) {
    Accesses &there = getAccesses(place);
    if (failed(checkAfterTiles(id, place, region)))
      return failure();
    if (ClaimOp claim = undefined.find(place, region))
      return reportUndefined(graph.getTransfer(id), "reads", place.first,
                             claim);
    SmallVector<Box> missing{region};
    graph.getInputIndex(place).forEachOverlap(region, [&](unsigned input) {
      subtract(missing, graph.getInputs(place)[input]);
    });
    graph.getProducedIndex(place).forEachOverlap(region, [&](unsigned number) {
      ProduceOp produce = graph.getProduced(place)[number];
      if (graph.isAfter(produce.getToken(), id))
        subtract(missing, Box(produce.getOffsets(), produce.getSizes()));
    });
    std::optional<unsigned> unordered;
    there.writes.forEachOverlap(region, [&](const Box &part, unsigned writer) {
      if (graph.isOrdered(writer, id))
        subtract(missing, part);
      else
        unordered = writer;
    });
    there.sums.forEachOverlap(region, [&](const Box &, unsigned other) {
      if (!graph.isOrdered(other, id) && !graph.commute(other, id))
        unordered = other;
    });
    if (unordered)
      return reportReadDuringWrite(id, *unordered);
    if (!missing.empty())
      return graph.getTransfer(id).emitOpError()
             << "reads at offsets [" << missing.front().offsets << "] sizes ["
             << missing.front().sizes << "] what rank " << place.first
             << " does not hold: it is no input, no tile computes it, and no "
                "transfer that this one comes after brings it";
    return success();
  }

  /// This transfer comes after all that have written or read the destination,
  /// and if it adds to it, something is there.
  LogicalResult checkDestination(unsigned id) {
    Box region = graph.getDstBox(id);
    Place place = graph.getDstPlace(id);
    if (graph.getTransfer(id).getReduction() &&
        failed(checkRead(id, place, region)))
      return failure();
    if (failed(checkAfterTiles(id, place, region)))
      return failure();
    Accesses &there = getAccesses(place);
    std::optional<unsigned> reader, writer;
    there.reads.forEachOverlap(region, [&](const Box &, unsigned other) {
      if (!graph.isOrdered(other, id))
        reader = other;
    });
    if (reader)
      return reportReadDuringWrite(*reader, id);
    for (BoxMap *map : {&there.writes, &there.sums})
      map->forEachOverlap(region, [&](const Box &, unsigned other) {
        if (!graph.isOrdered(other, id) && !graph.commute(other, id))
          writer = other;
      });
    if (writer)
      return report(id, *writer,
                    "writes a chunk of rank " + Twine(place.first) +
                        " that another transfer writes too");
    if (graph.getTransfer(id).getUnordered()) {
      there.sums.insert(std::move(region), id);
      return success();
    }
    there.reads.subtract(region);
    there.sums.subtract(region);
    there.writes.subtract(region);
    there.writes.insert(std::move(region), id);
    return success();
  }

  LogicalResult reportReadDuringWrite(unsigned reader, unsigned writer) {
    return report(reader, writer,
                  "reads a chunk of rank " +
                      Twine(graph.getSrcPlace(reader).first) +
                      " while another transfer writes it");
  }

  LogicalResult report(unsigned id, unsigned other, const Twine &what) {
    InFlightDiagnostic diag = graph.getTransfer(id).emitOpError()
                              << what << ": neither comes after the other";
    diag.attachNote(graph.getTransfer(other).getLoc()) << "the other transfer";
    return diag;
  }

  PlanGraph &graph;
  UndefinedRegions undefined;
  std::map<std::pair<int64_t, int64_t>, Accesses> accesses;
};

struct CheckPlan : impl::CheckPlanPassBase<CheckPlan> {
  using Base::Base;

  void runOnOperation() override {
    PlanGraph graph(getOperation());
    if (failed(graph.requireDecomposed()) || failed(graph.requireOrder()) ||
        failed(Checker(graph).check()))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace syncopate
