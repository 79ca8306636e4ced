//===- UseTileRing.cpp - what tiles hand over to the role beside them -----===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/PlanAnalysis.h"
#include "passes/Realizations.h"
#include "passes/Tables.h"

#include "llvm/ADT/BitVector.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_USETILERINGPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

/// Decides which transfers of a plan tiles hand over. Of the order of the tiles
/// nothing matters but which ones several CTAs compute: these hand nothing
/// over, since the role beside a CTA has to know how often it is handed
/// something.
class Ring {
public:
  explicit Ring(PlanAnalysis &analysis)
      : analysis(analysis), graph(analysis.getGraph()),
        groups(analysis.getGroups()), tileOf(graph.size()),
        needsTile(graph.size()), neededByTile(graph.size()) {}

  LogicalResult decide(KernelOp kernel) {
    if (failed(findNeeded(kernel)) || failed(findShared(kernel)))
      return failure();
    findCandidates();
    chooseRealization();
    // Who gives up its ring has more in its queue, which may be too much for
    // another one's.
    while (dropBlocked())
      ;
    analysis.setTiles([&](unsigned id) { return tileOf[id]; });
    return success();
  }

private:
  /// Notes the transfers that bring a tile what it reads or adds to.
  LogicalResult findNeeded(KernelOp kernel) {
    for (int64_t rank = 0; rank < graph.getPlan().getNumRanks(); ++rank) {
      KernelDependence &dependence = analysis.getDependence(kernel, rank);
      if (!dependence.isValid())
        return failure();
      for (ArrayRef<unsigned> set : dependence.getSets())
        for (unsigned id : set)
          neededByTile.set(id);
    }
    return success();
  }

  /// Notes the tiles that several CTAs compute.
  LogicalResult findShared(KernelOp kernel) {
    if (kernel.getParts() == 1)
      return success();
    for (auto schedule : graph.getPlan().getBody().getOps<ScheduleOp>()) {
      FailureOr<ArrayRef<int64_t>> order = analysis.getOrder(kernel, schedule);
      if (failed(order))
        return failure();
      for (int64_t tile : order->drop_front(kernel.getNumWholeTiles()))
        shared.insert({static_cast<int64_t>(schedule.getRank()), tile});
    }
    return success();
  }

  /// A put that comes after nothing but one tile of its own rank.
  void findCandidates() {
    for (unsigned id = 0; id < graph.size(); ++id) {
      Queue queue = graph.getQueue(id);
      ArrayRef<unsigned> waited = groups.getGroups(id);
      if (!isColocated(queue.second) || waited.size() != 1 ||
          groups[waited[0]].rank != queue.first ||
          groups[waited[0]].tiles != 1 ||
          graph.getSrcPlace(id).first != queue.first ||
          !graph.getPredecessors(id).empty())
        continue;
      for (int64_t tile = 0; !tileOf[id]; ++tile)
        if (groups.getGroup(queue.first, tile) == waited[0])
          tileOf[id] = tile;
      if (shared.count({queue.first, *tileOf[id]}))
        tileOf[id].reset();
    }
  }

  /// There is one ring, of the realization that has most to carry out.
  void chooseRealization() {
    std::map<Realization, int64_t> counts;
    for (unsigned id = 0; id < graph.size(); ++id)
      if (tileOf[id])
        ++counts[graph.getQueue(id).second];
    if (counts.empty())
      return;
    Realization chosen = llvm::max_element(counts, [](auto &a, auto &b) {
                           return a.second < b.second;
                         })->first;
    for (unsigned id = 0; id < graph.size(); ++id)
      if (graph.getQueue(id).second != chosen)
        tileOf[id].reset();
  }

  /// Before its first tile a role carries out, waiting, what comes after no
  /// tile; the rest of its queue it promises to carry out only behind its last
  /// one. So no tile may need anything of that rest. Whoever breaks this gets
  /// no ring; true if one did.
  bool dropBlocked() {
    std::map<Queue, SmallVector<unsigned>> queues;
    std::map<Queue, bool> hasRing;
    for (unsigned id = 0; id < graph.size(); ++id) {
      if (tileOf[id])
        hasRing[graph.getQueue(id)] = true;
      else
        queues[graph.getQueue(id)].push_back(id);
    }
    // What comes after a tile, and what some tile needs, by way of others:
    // those before in the same queue, and by tokens.
    std::map<Queue, bool> afterTile;
    for (unsigned id = 0; id < graph.size(); ++id) {
      bool after = tileOf[id] || !groups.getGroups(id).empty();
      for (unsigned before : graph.getPredecessors(id))
        after |= needsTile.test(before);
      if (!tileOf[id])
        after = afterTile[graph.getQueue(id)] |= after;
      needsTile[id] = after;
    }
    std::map<Queue, bool> beforeNeeded;
    for (unsigned id = graph.size(); id-- > 0;) {
      if (!tileOf[id] && beforeNeeded[graph.getQueue(id)])
        neededByTile.set(id);
      if (!neededByTile.test(id))
        continue;
      if (!tileOf[id])
        beforeNeeded[graph.getQueue(id)] = true;
      for (unsigned before : graph.getPredecessors(id))
        neededByTile.set(before);
    }
    bool dropped = false;
    for (auto &[queue, ids] : queues) {
      if (!hasRing[queue] || llvm::none_of(ids, [&](unsigned id) {
            return needsTile.test(id) && neededByTile.test(id);
          }))
        continue;
      dropped = true;
      for (unsigned id = 0; id < graph.size(); ++id)
        if (graph.getQueue(id) == queue)
          tileOf[id].reset();
    }
    return dropped;
  }

  PlanAnalysis &analysis;
  PlanGraph &graph;
  const TileGroups &groups;
  /// By transfer: the tile that hands it over; whether it comes after a tile;
  /// whether a tile comes after it.
  std::vector<std::optional<uint64_t>> tileOf;
  llvm::BitVector needsTile, neededByTile;
  /// Tiles of ranks that several CTAs compute.
  std::set<std::pair<int64_t, int64_t>> shared;
};

struct UseTileRing : impl::UseTileRingPassBase<UseTileRing> {
  using Base::Base;

  void runOnOperation() override {
    PlanOp plan = getOperation();
    auto kernels = plan.getBody().getOps<KernelOp>();
    if (kernels.empty())
      return;
    auto &analysis = getAnalysis<PlanAnalysis>();
    analysis.setTiles([](unsigned) { return std::nullopt; });
    if (failed(analysis.getGraph().requireRealizations()) ||
        failed(Ring(analysis).decide(*kernels.begin())))
      return signalPassFailure();
    markAnalysesPreserved<PlanAnalysis>();
  }
};

} // namespace
} // namespace syncopate
