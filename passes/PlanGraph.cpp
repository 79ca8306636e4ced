//===- PlanGraph.cpp - transfers of a plan and what depends on them -------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/PlanGraph.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

PlanGraph::PlanGraph(PlanOp plan) : plan(plan) {
  for (auto [index, buffer] : llvm::enumerate(plan.getBuffers()))
    bufferIndex[buffer.getResult()] = index;
  for (InputOp input : plan.getBody().getOps<InputOp>())
    inputs[key({input.getRank(), input.getBuffer()})].emplace_back(
        input.getOffsets(), input.getSizes());
  for (auto transfer : plan.getBody().getOps<TransferOpInterface>()) {
    unsigned id = transfers.size();
    numbers[transfer] = id;
    transfers.push_back(transfer);
    successors.emplace_back();
    llvm::SmallVector<unsigned> direct;
    for (Value token : transfer.getDependencies())
      collect(token, direct);
    llvm::sort(direct);
    direct.erase(llvm::unique(direct), direct.end());
    for (unsigned predecessor : direct)
      successors[predecessor].push_back(id);
    predecessors.emplace_back(direct.begin(), direct.end());
    writers[key(getDstPlace(id))].add(getDstBox(id), id);
    readers[key(getSrcPlace(id))].add(getSrcBox(id), id);
  }
}

void PlanGraph::collect(Value token, llvm::SmallVectorImpl<unsigned> &result) {
  llvm::SmallVector<Value> worklist{token};
  llvm::DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    Operation *op = next.getDefiningOp();
    if (auto join = dyn_cast<JoinOp>(op))
      llvm::append_range(worklist, join.getDependencies());
    else if (auto it = numbers.find(op); it != numbers.end())
      result.push_back(it->second);
  }
}

llvm::SmallVector<unsigned> PlanGraph::getAncestors(ValueRange tokens) {
  llvm::SmallVector<unsigned> worklist, result;
  llvm::BitVector seen(transfers.size());
  for (Value token : tokens)
    collect(token, worklist);
  while (!worklist.empty()) {
    unsigned id = worklist.pop_back_val();
    if (seen.test(id))
      continue;
    seen.set(id);
    result.push_back(id);
    llvm::append_range(worklist, predecessors[id]);
  }
  llvm::sort(result);
  return result;
}

bool PlanGraph::isOrdered(unsigned before, unsigned after) {
  llvm::SmallVector<unsigned> worklist{after};
  llvm::DenseSet<unsigned> seen;
  while (!worklist.empty()) {
    unsigned id = worklist.pop_back_val();
    if (id == before)
      return true;
    // Numbers follow the plan, so what comes before `before` cannot follow it.
    for (unsigned predecessor : predecessors[id])
      if (predecessor >= before && seen.insert(predecessor).second)
        worklist.push_back(predecessor);
  }
  return false;
}

Box PlanGraph::getSrcBox(unsigned id) {
  return {transfers[id].getSrcOffsets(), transfers[id].getSizes()};
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
  return {transfers[id].getExecutor(), *transfers[id].getRealization()};
}

llvm::SmallVector<int64_t> PlanGraph::estimateArrival() {
  llvm::SmallVector<int64_t> arrival(transfers.size());
  std::map<Queue, int64_t> free;
  for (unsigned id = 0; id < transfers.size(); ++id) {
    int64_t &start = free[getQueue(id)];
    for (unsigned predecessor : predecessors[id])
      start = std::max(start, arrival[predecessor]);
    int64_t elements = 1;
    for (int64_t size : transfers[id].getSizes())
      elements *= size;
    arrival[id] = start += elements;
  }
  return arrival;
}
