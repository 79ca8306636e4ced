//===- PlanGraph.cpp - transfers of a plan and what depends on them -------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/PlanGraph.h"
#include "passes/Realizations.h"
#include "passes/SignalLayout.h"

#include <algorithm>

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

PlanGraph::PlanGraph(PlanOp plan) : plan(plan) {
  for (auto [index, buffer] : llvm::enumerate(plan.getBuffers()))
    bufferIndex[buffer.getResult()] = index;
  for (InputOp input : plan.getBody().getOps<InputOp>()) {
    auto place = key({input.getRank(), input.getBuffer()});
    Box region{input.getOffsets(), input.getSizes()};
    inputIndices[place].add(region, inputs[place].size());
    inputs[place].push_back(std::move(region));
  }
  for (OutputOp output : plan.getBody().getOps<OutputOp>())
    outputIndices[key({output.getRank(), output.getBuffer()})].add(
        {output.getOffsets(), output.getSizes()}, 0);
  for (Operation &op : plan.getBody().getOps()) {
    auto transfer = dyn_cast<TransferOpInterface>(op);
    auto join = dyn_cast<JoinOp>(op);
    auto produce = dyn_cast<ProduceOp>(op);
    if (!transfer && !join && !produce)
      continue;
    unsigned node = transferOfNode.size();
    size_t begin = edges.size();
    ValueRange dependencies;
    if (transfer)
      dependencies = transfer.getDependencies();
    else if (join)
      dependencies = join.getDependencies();
    else
      dependencies = produce.getDependencies();
    for (Value token : dependencies)
      if (auto it = nodeOfToken.find(token); it != nodeOfToken.end())
        edges.push_back(it->second);
    std::sort(edges.begin() + begin, edges.end());
    edges.erase(std::unique(edges.begin() + begin, edges.end()), edges.end());
    edgesBegin.push_back(edges.size());
    nodeOfToken[op.getResult(0)] = node;
    if (produce) {
      auto place = key({produce.getRank(), produce.getBuffer()});
      producedIndices[place].add({produce.getOffsets(), produce.getSizes()},
                                 produced[place].size());
      produced[place].push_back(produce);
    }
    if (!transfer) {
      transferOfNode.push_back(-1);
      continue;
    }
    unsigned id = transfers.size();
    transferOfNode.push_back(id);
    nodeOfTransfer.push_back(node);
    transfers.push_back(transfer);
    writers[key(getDstPlace(id))].add(getDstBox(id), id);
    for (Box &part : getSrcBoxes(id))
      readers[key(getSrcPlace(id))].add(std::move(part), id);
  }
}

llvm::SmallVector<unsigned> PlanGraph::getAncestors(ValueRange tokens) {
  llvm::BitVector seen(transferOfNode.size());
  for (Value token : tokens)
    if (auto it = nodeOfToken.find(token); it != nodeOfToken.end())
      seen.set(it->second);
  llvm::SmallVector<unsigned> result;
  for (int node = seen.find_last(); node != -1; node = seen.find_prev(node)) {
    if (transferOfNode[node] >= 0)
      result.push_back(transferOfNode[node]);
    for (unsigned predecessor : getNodePredecessors(node))
      seen.set(predecessor);
  }
  std::reverse(result.begin(), result.end());
  return result;
}

const llvm::BitVector &PlanGraph::getBeforeKernel(KernelOp kernel) {
  auto [it, isNew] = beforeKernel.try_emplace(kernel, size());
  if (isNew)
    for (unsigned id : getAncestors(kernel.getDependencies()))
      it->second.set(id);
  return it->second;
}

void PlanGraph::buildTree() {
  unsigned nodes = transferOfNode.size();
  std::vector<unsigned> sizes(nodes, 1), next(nodes + 1);
  auto getParent = [&](unsigned node) { // the root is `nodes`
    llvm::ArrayRef<unsigned> before = getNodePredecessors(node);
    return before.empty() ? nodes : before.back();
  };
  for (unsigned node = nodes; node-- > 0;)
    if (unsigned parent = getParent(node); parent != nodes)
      sizes[parent] += sizes[node];
  treeBegin.resize(nodes);
  treeEnd.resize(nodes);
  fork.resize(nodes);
  for (unsigned node = 0; node < nodes; ++node) {
    unsigned parent = getParent(node);
    treeBegin[node] = next[parent];
    treeEnd[node] = next[parent] += sizes[node];
    next[node] = treeBegin[node] + 1;
    fork[node] = getNodePredecessors(node).size() == 1 ? fork[parent] : node;
  }
  found.resize(nodes);
}

bool PlanGraph::isNodeOrdered(unsigned first, unsigned last) {
  if (first >= last)
    return false;
  if (treeBegin.size() != transferOfNode.size())
    buildTree();
  if (treeBegin[first] <= treeBegin[last] && treeBegin[last] < treeEnd[first])
    return true;
  // What has a single predecessor, one after another, has the ancestors of the
  // first of them, and those on the way are above it in the tree.
  last = fork[last];
  if (last <= first)
    return false;
  if (searched != last) {
    searched = last;
    ++search;
    open.assign(1, last);
  }
  // Every ancestor that is later than `first` has its predecessors looked at.
  while (!open.empty() && open.front() > first) {
    std::pop_heap(open.begin(), open.end());
    unsigned node = open.back();
    open.pop_back();
    for (unsigned predecessor : getNodePredecessors(node)) {
      if (found[predecessor] == search)
        continue;
      found[predecessor] = search;
      open.push_back(predecessor);
      std::push_heap(open.begin(), open.end());
    }
  }
  return found[first] == search;
}

void PlanGraph::reduce() {
  if (reduced)
    return;
  reduced = true;
  // Queues are numbered in the order of their first transfer. Who sends and who
  // receives wait for what comes to them, so that there what one queue brings
  // to one rank does not stand for what it brings to another.
  std::map<std::tuple<int64_t, int64_t, int64_t>, unsigned> numbers;
  std::vector<unsigned> queueOf;
  bool exchanges = llvm::any_of(transfers, [](TransferOpInterface transfer) {
    auto realization = transfer.getRealization();
    return realization && isExchange(*realization);
  });
  for (TransferOpInterface transfer : transfers) {
    auto realization = transfer.getRealization();
    std::tuple<int64_t, int64_t, int64_t> queue{
        transfer.getExecutor(),
        realization ? static_cast<int64_t>(*realization) : -1,
        exchanges ? static_cast<int64_t>(transfer.getDstRank()) : -1};
    queueOf.push_back(numbers.try_emplace(queue, numbers.size()).first->second);
  }
  // By queue, the last transfer that the node at hand comes after, and the
  // node for which that was noted.
  std::vector<unsigned> last(numbers.size()), noted(numbers.size());
  llvm::SmallVector<llvm::SmallVector<unsigned, 2>> perJoin;
  std::vector<unsigned> joinOfNode(transferOfNode.size());
  predecessors.resize(transfers.size());
  successors.resize(transfers.size());
  for (unsigned node = 0; node < transferOfNode.size(); ++node) {
    llvm::SmallVector<unsigned> queues;
    auto note = [&](unsigned id) {
      unsigned queue = queueOf[id];
      if (noted[queue] != node + 1) {
        noted[queue] = node + 1;
        last[queue] = id;
        queues.push_back(queue);
      }
      last[queue] = std::max(last[queue], id);
    };
    for (unsigned before : getNodePredecessors(node)) {
      if (transferOfNode[before] >= 0)
        note(transferOfNode[before]);
      else
        llvm::for_each(perJoin[joinOfNode[before]], note);
    }
    llvm::SmallVector<unsigned, 2> direct;
    for (unsigned queue : queues)
      direct.push_back(last[queue]);
    llvm::sort(direct);
    int64_t id = transferOfNode[node];
    if (id < 0) {
      joinOfNode[node] = perJoin.size();
      perJoin.push_back(std::move(direct));
      continue;
    }
    for (unsigned before : direct)
      successors[before].push_back(id);
    predecessors[id] = std::move(direct);
  }
}

bool PlanGraph::isAccumulated(Place place, const Box &region) {
  bool found = false;
  getProducedIndex(place).forEachOverlap(region, [&](unsigned number) {
    ProduceOp produce = getProduced(place)[number];
    found |= produce.getReduction().has_value();
  });
  return found;
}

bool PlanGraph::isBeforeTiles(unsigned id, Place place, const Box &region) {
  bool found = false;
  getProducedIndex(place).forEachOverlap(region, [&](unsigned number) {
    ProduceOp produce = getProduced(place)[number];
    found |= isBefore(id, produce.getToken());
  });
  return found;
}

BoxIndex &PlanGraph::getReadingRanks(Place place) {
  auto [it, isNew] = readingRanks.try_emplace(key(place));
  if (isNew)
    it->second = getReaders(place).renumber(
        [&](unsigned id) { return getReadingRank(id); });
  return it->second;
}

Box PlanGraph::getSrcBox(unsigned id, int64_t part) {
  return {transfers[id].getPartOffsets(part), transfers[id].getSizes()};
}

SmallVector<Box, 1> PlanGraph::getSrcBoxes(unsigned id) {
  SmallVector<Box, 1> boxes;
  for (int64_t part = 0; part < transfers[id].getParts(); ++part)
    boxes.push_back(getSrcBox(id, part));
  return boxes;
}

bool PlanGraph::readsInput(unsigned id) {
  return llvm::any_of(getSrcBoxes(id), [&](const Box &part) {
    return getInputIndex(getSrcPlace(id)).overlaps(part);
  });
}

Box PlanGraph::getDstBox(unsigned id) {
  return {transfers[id].getDstOffsets(), transfers[id].getSizes()};
}

Place PlanGraph::getSrcPlace(unsigned id) {
  return {transfers[id].getSrcRank(), transfers[id].getSrc()};
}

Place PlanGraph::getDstPlace(unsigned id) {
  return {transfers[id].getDstRank(), transfers[id].getDst()};
}

Queue PlanGraph::getQueue(unsigned id) {
  TransferOpInterface transfer = transfers[id];
  std::optional<uint64_t> tile = transfer.getTile();
  Realization realization = *transfer.getRealization();
  // What a rank's stream carries out is one queue, whatever it is.
  if (isOnStream(realization))
    realization = Realization::CopyEngine;
  return {transfer.getExecutor(), realization,
          tile ? static_cast<int64_t>(*tile) : Queue::kNoTile};
}

int64_t PlanGraph::getReadingRank(unsigned id) {
  TransferOpInterface transfer = transfers[id];
  auto realization = transfer.getRealization();
  return realization && isExchange(*realization) ? transfer.getSrcRank()
                                                 : transfer.getExecutor();
}

int64_t PlanGraph::getWaitingRank(unsigned id, unsigned before) {
  TransferOpInterface transfer = transfers[id];
  int64_t sender = getReadingRank(id);
  return static_cast<int64_t>(transfers[before].getDstRank()) == sender
             ? sender
             : transfer.getExecutor();
}

llvm::SmallVector<int64_t> PlanGraph::estimateArrival() {
  // Far more than a plan takes, and far from wrapping around.
  constexpr int64_t limit = int64_t(1) << 60;
  llvm::SmallVector<int64_t> arrival(transfers.size());
  std::vector<int64_t> ends(transferOfNode.size());
  std::map<Queue, int64_t> free;
  for (unsigned node = 0; node < ends.size(); ++node) {
    for (unsigned before : getNodePredecessors(node))
      ends[node] = std::max(ends[node], ends[before]);
    int64_t id = transferOfNode[node];
    if (id < 0)
      continue;
    int64_t &end = free[getQueue(id)];
    int64_t elements = transfers[id].getParts();
    for (int64_t size : transfers[id].getSizes())
      elements *= size;
    end = std::min(std::max(end, ends[node]) + elements, limit);
    arrival[id] = ends[node] = end;
  }
  return arrival;
}

LogicalResult PlanGraph::requireDecomposed() {
  for (SpmdOp spmd : plan.getBody().getOps<SpmdOp>())
    return spmd.emitOpError("is in rank-affine form; run chunk-expand-spmd "
                            "first");
  for (auto collective : plan.getBody().getOps<CollectiveOpInterface>())
    if (!isLibraryCall(collective))
      return collective->emitOpError()
             << "is a collective; run chunk-decompose-collectives first";
  return success();
}

LogicalResult PlanGraph::requireOrder() {
  for (Operation &op : plan.getBody().getOps())
    for (Value value : op.getOperands()) {
      Operation *definition = value.getDefiningOp();
      if (!definition || (definition->getBlock() == op.getBlock() &&
                          definition->isBeforeInBlock(&op)))
        continue;
      InFlightDiagnostic diag =
          op.emitOpError("expects what it uses to stand before it in the plan");
      diag.attachNote(definition->getLoc()) << "it uses this";
      return diag;
    }
  return success();
}

LogicalResult PlanGraph::requireRealizations() {
  for (TransferOpInterface transfer : transfers)
    if (!transfer.getRealization())
      return transfer.emitOpError("has no realization; run "
                                  "chunk-assign-realization first");
  for (TransferOpInterface transfer : transfers)
    if (transfer.getTile() && (!isColocated(*transfer.getRealization()) ||
                               transfer.getExecutor() != transfer.getSrcRank()))
      return transfer.emitOpError()
             << "expects a transfer that tile " << *transfer.getTile()
             << " hands over to be a put of a co-located realization";
  int64_t dedicated = llvm::count_if(getRoles(plan), isDedicated);
  for (KernelOp kernel : plan.getBody().getOps<KernelOp>())
    if (static_cast<int64_t>(kernel.getCommCtas()) < dedicated)
      return kernel.emitOpError()
             << "expects comm_ctas to be at least " << dedicated
             << ", one for each dedicated realization, but got "
             << kernel.getCommCtas() << "; run chunk-assign-realization first";
  return success();
}

LogicalResult PlanGraph::requireInputsKept() {
  for (unsigned id = 0; id < size(); ++id) {
    Place place = getDstPlace(id);
    std::optional<unsigned> input;
    getInputIndex(place).forEachOverlap(
        getDstBox(id), [&](unsigned number) { input = number; });
    if (!input)
      continue;
    const Box &box = getInputs(place)[*input];
    return transfers[id].emitOpError()
           << "overwrites an input of rank " << place.first << " at offsets ["
           << box.offsets << "] sizes [" << box.sizes
           << "], which tables cannot say";
  }
  return success();
}

LogicalResult PlanGraph::requireSignals() {
  if (failed(requireRealizations()))
    return failure();
  if (!plan.getSignals())
    return plan.emitOpError("has no signals; run chunk-allocate-signals first");
  for (auto [id, transfer] : llvm::enumerate(transfers)) {
    std::optional<uint64_t> signal = transfer.getSignal();
    if (signal != id)
      return transfer.emitOpError()
             << "expects signal " << id << ", its number in the plan, but got "
             << (signal ? std::to_string(*signal) : "none")
             << "; run chunk-allocate-signals after the passes that change "
                "transfers";
  }
  if (!SignalLayout::fromTable(plan))
    return plan.emitOpError()
           << "expects signals to be laid out for its " << transfers.size()
           << " transfers; run chunk-allocate-signals again";
  return success();
}
