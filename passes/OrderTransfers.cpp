//===- OrderTransfers.cpp - transfers by when tiles let them go -----------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Exchanges.h"
#include "passes/Passes.h"
#include "passes/PlanAnalysis.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_ORDERTRANSFERSPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

struct OrderTransfers : impl::OrderTransfersPassBase<OrderTransfers> {
  using Base::Base;

  void runOnOperation() override {
    PlanOp plan = getOperation();
    auto &analysis = getAnalysis<PlanAnalysis>();
    PlanGraph &graph = analysis.getGraph();
    if (failed(graph.requireRealizations()))
      return signalPassFailure();
    FailureOr<SmallVector<int64_t>> times = findTimes(plan, analysis);
    if (failed(times))
      return signalPassFailure();
    if (areOrdered(graph, *times)) {
      markAnalysesPreserved<PlanAnalysis>();
      return;
    }
    // What comes after a transfer has the place of that one at least, and what
    // has the same place stays in its order. All tokens count: of transfers of
    // one queue, another one may be the last now.
    llvm::DenseMap<Operation *, int64_t> places =
        placeFirstTransfers(graph, *times);
    SmallVector<Operation *> ops;
    int64_t next = 0;
    for (Operation &op : plan.getBody().getOps()) {
      ops.push_back(&op);
      int64_t place = -1;
      if (isa<TransferOpInterface>(op))
        place = next++;
      else if (!isa<BufferOp, InputOp, JoinOp, ProduceOp>(op))
        place = std::numeric_limits<int64_t>::max();
      if (places.contains(&op))
        continue;
      for (Value operand : op.getOperands())
        place = std::max(place, places.lookup(operand.getDefiningOp()));
      places[&op] = place;
    }
    llvm::stable_sort(ops, [&](Operation *a, Operation *b) {
      return places.lookup(a) < places.lookup(b);
    });
    Block &body = plan.getBody().front();
    for (Operation *op : ops)
      op->moveBefore(&body, body.end());
    orderExchanges(plan);
  }

private:
  /// By transfer, the position behind the last tile that it waits for, 0 if it
  /// waits for none.
  static FailureOr<SmallVector<int64_t>> findTimes(PlanOp plan,
                                                   PlanAnalysis &analysis) {
    const TileGroups &groups = analysis.getGroups();
    SmallVector<int64_t> ends(groups.size()), times;
    if (groups.size() == 0)
      return SmallVector<int64_t>(analysis.getGraph().size());
    for (ScheduleOp schedule : plan.getBody().getOps<ScheduleOp>()) {
      auto kernel = *plan.getBody().getOps<KernelOp>().begin();
      FailureOr<ArrayRef<int64_t>> tiles = analysis.getOrder(kernel, schedule);
      if (failed(tiles))
        return failure();
      for (auto [position, tile] : llvm::enumerate(*tiles))
        if (int64_t group = groups.getGroup(schedule.getRank(), tile);
            group >= 0)
          ends[group] = position + 1;
    }
    for (unsigned id = 0; id < analysis.getGraph().size(); ++id) {
      times.push_back(0);
      for (unsigned group : groups.getGroups(id))
        times.back() = std::max(times.back(), ends[group]);
    }
    return times;
  }

  /// True if a transfer comes after no other.
  static bool isFirst(PlanGraph &graph, unsigned id) {
    return graph.getPredecessors(id).empty();
  }

  /// True if no transfer waits for tiles that are done before those that an
  /// earlier one of its queue waits for.
  static bool areOrdered(PlanGraph &graph, ArrayRef<int64_t> times) {
    std::map<Queue, int64_t> last;
    for (auto [id, time] : llvm::enumerate(times)) {
      if (!isFirst(graph, id))
        continue;
      int64_t &before = last[graph.getQueue(id)];
      if (time < before)
        return false;
      before = time;
    }
    return true;
  }

  /// The transfers that come after no other change places by their times;
  /// places are numbers of transfers in the order of the plan.
  static llvm::DenseMap<Operation *, int64_t>
  placeFirstTransfers(PlanGraph &graph, ArrayRef<int64_t> times) {
    SmallVector<unsigned> first;
    for (unsigned id = 0; id < graph.size(); ++id)
      if (isFirst(graph, id))
        first.push_back(id);
    SmallVector<unsigned> sorted = first;
    llvm::stable_sort(
        sorted, [&](unsigned a, unsigned b) { return times[a] < times[b]; });
    llvm::DenseMap<Operation *, int64_t> places;
    for (auto [place, id] : llvm::zip_equal(first, sorted))
      places[graph.getTransfer(id)] = place;
    return places;
  }
};

} // namespace
} // namespace syncopate
