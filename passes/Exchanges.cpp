//===- Exchanges.cpp - transfers that ranks make at the same time ---------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Exchanges.h"
#include "passes/Realizations.h"

#include <map>
#include <set>

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

/// Above the depth of all that does not wait for tiles.
static constexpr int64_t kBehindTiles = int64_t(1) << 32;

namespace {

/// A transfer, a join, or what tiles compute.
struct Node {
  Operation *op;
  /// How many exchanges it comes after, those included that have a transfer
  /// between the same ranks; its own is one of them.
  int64_t depth;
  bool isExchanged;
  /// Whether it is exchanged, and comes after something else of the depth that
  /// there is before its own exchange.
  bool isBehindOthers;
};

} // namespace

static bool isExchanged(Operation *op) {
  auto transfer = dyn_cast<TransferOpInterface>(op);
  return transfer && transfer.getRealization() &&
         isExchange(*transfer.getRealization());
}

static SmallVector<Node> findNodes(PlanOp plan) {
  SmallVector<Node> nodes;
  DenseMap<Operation *, int64_t> depths;
  std::map<std::pair<int64_t, int64_t>, int64_t> lastBetween;
  for (Operation &op : plan.getBody().getOps()) {
    auto transfer = dyn_cast<TransferOpInterface>(op);
    if (!transfer && !isa<JoinOp, ProduceOp>(op))
      continue;
    int64_t depth = isa<ProduceOp>(op) ? kBehindTiles : 0, others = -1;
    for (Value operand : op.getOperands()) {
      auto before = depths.find(operand.getDefiningOp());
      if (before == depths.end())
        continue;
      depth = std::max(depth, before->second);
      if (!isExchanged(before->first))
        others = std::max(others, before->second);
    }
    bool exchanged = isExchanged(&op);
    if (exchanged) {
      int64_t &last =
          lastBetween[{transfer.getSrcRank(), transfer.getDstRank()}];
      depth = last = std::max(depth, last) + 1;
    }
    depths[&op] = depth;
    nodes.push_back({&op, depth, exchanged, exchanged && others == depth - 1});
  }
  return nodes;
}

std::vector<int64_t> syncopate::numberExchanges(PlanOp plan) {
  auto transfers = plan.getBody().getOps<TransferOpInterface>();
  if (llvm::none_of(transfers, [](TransferOpInterface transfer) {
        return isExchanged(transfer);
      }))
    return std::vector<int64_t>(llvm::range_size(transfers), kNoExchange);
  SmallVector<Node> nodes = findNodes(plan);
  std::map<int64_t, int64_t> numbers;
  for (const Node &node : nodes)
    if (node.isExchanged)
      numbers[node.depth] = 0;
  for (auto [index, entry] : llvm::enumerate(numbers))
    entry.second = index;
  std::vector<int64_t> result;
  for (const Node &node : nodes)
    if (isa<TransferOpInterface>(node.op))
      result.push_back(node.isExchanged ? numbers[node.depth] : kNoExchange);
  return result;
}

void syncopate::orderExchanges(PlanOp plan) {
  SmallVector<Node> nodes = findNodes(plan);
  if (llvm::none_of(nodes, [](const Node &node) { return node.isExchanged; }))
    return;
  Operation *first = nodes.front().op;
  // They may be between buffers, which come before all that touches them.
  for (Operation &op : llvm::make_early_inc_range(plan.getBody().getOps()))
    if (isa<BufferOp>(op) && first->isBeforeInBlock(&op))
      op.moveBefore(first);
  // An exchange starts before what else could, unless it comes after some of
  // that.
  std::set<int64_t> behind;
  for (const Node &node : nodes)
    if (node.isBehindOthers)
      behind.insert(node.depth);
  auto getKey = [&](const Node &node) {
    return node.isExchanged
               ? std::pair(node.depth - 1, behind.count(node.depth) ? 2 : 0)
               : std::pair(node.depth, 1);
  };
  llvm::stable_sort(nodes, [&](const Node &a, const Node &b) {
    return getKey(a) < getKey(b);
  });
  if (nodes.front().op != first)
    nodes.front().op->moveBefore(first);
  for (size_t i = 1; i < nodes.size(); ++i)
    nodes[i].op->moveAfter(nodes[i - 1].op);
}
