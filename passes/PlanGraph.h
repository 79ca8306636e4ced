//===- PlanGraph.h - transfers of a plan and what depends on them -*- C++ -*-=//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_PLANGRAPH_H
#define SYNCOPATE_PASSES_PLANGRAPH_H

#include "dialect/Chunk.h"
#include "passes/TileBoxes.h"

#include "llvm/ADT/BitVector.h"

#include <map>
#include <vector>

namespace syncopate {

/// A rank's instance of a buffer.
using Place = std::pair<int64_t, mlir::Value>;

/// Who carries a transfer out, a rank's stream, under the name of the copy
/// engine, or role, and for those that a tile hands over, which one: transfers
/// of the same queue start, and are announced, in the order of the plan.
struct Queue : std::pair<int64_t, chunk::Realization> {
  /// What stands for the tile of transfers that none hands over.
  static constexpr int64_t kNoTile = -1;

  Queue(int64_t rank, chunk::Realization realization, int64_t tile = kNoTile)
      : pair(rank, realization), tile(tile) {}

  bool operator<(const Queue &other) const {
    return std::tie(first, second, tile) <
           std::tie(other.first, other.second, other.tile);
  }
  bool operator==(const Queue &other) const {
    return first == other.first && second == other.second && tile == other.tile;
  }
  bool operator!=(const Queue &other) const { return !(*this == other); }

  int64_t tile;
};

/// The transfers of a plan without collectives, numbered in the order of the
/// plan, and the joins between them.
class PlanGraph {
public:
  explicit PlanGraph(chunk::PlanOp plan);

  chunk::PlanOp getPlan() { return plan; }
  size_t size() const { return transfers.size(); }
  chunk::TransferOpInterface getTransfer(unsigned id) { return transfers[id]; }
  llvm::ArrayRef<chunk::TransferOpInterface> getTransfers() {
    return transfers;
  }
  /// Transfers that transfer `id` directly comes after, joins seen through; of
  /// those of one queue only the last, which stands for the others.
  llvm::ArrayRef<unsigned> getPredecessors(unsigned id) {
    reduce();
    return predecessors[id];
  }
  /// The transfers that have `id` among their predecessors.
  llvm::ArrayRef<unsigned> getSuccessors(unsigned id) {
    reduce();
    return successors[id];
  }
  /// Transfers named by these tokens, and all that those come after.
  llvm::SmallVector<unsigned> getAncestors(mlir::ValueRange tokens);
  /// By transfer, whether a kernel of the plan comes after it; the same for all
  /// ranks, and worked out once.
  const llvm::BitVector &getBeforeKernel(chunk::KernelOp kernel);
  /// True if transfer `id` comes after what `token` says, by tokens.
  bool isAfter(mlir::Value token, unsigned id) {
    return isNodeOrdered(nodeOfToken.lookup(token), nodeOfTransfer[id]);
  }
  /// True if what `token` says comes after transfer `id`, by tokens.
  bool isBefore(unsigned id, mlir::Value token) {
    return isNodeOrdered(nodeOfTransfer[id], nodeOfToken.lookup(token));
  }
  /// True if `after` comes after `before`, however indirectly, by tokens.
  /// Fastest if questions about the same `after` follow one another.
  bool isOrdered(unsigned before, unsigned after) {
    return before < after &&
           isNodeOrdered(nodeOfTransfer[before], nodeOfTransfer[after]);
  }

  /// What a transfer reads: of several parts that it combines, the first one,
  /// or any.
  Box getSrcBox(unsigned id, int64_t part = 0);
  llvm::SmallVector<Box, 1> getSrcBoxes(unsigned id);
  Box getDstBox(unsigned id);
  Place getSrcPlace(unsigned id);
  Place getDstPlace(unsigned id);
  /// The queue of a transfer that has a realization.
  Queue getQueue(unsigned id);
  /// The rank that reads what a transfer moves: who sends it, if one sends and
  /// one receives it, else who carries it out.
  int64_t getReadingRank(unsigned id);
  /// The rank that has to know of transfer `before` for transfer `id` to come
  /// after it: who carries `id` out. If one sends and one receives, that is who
  /// sends what `before` may have brought there, and else who receives.
  int64_t getWaitingRank(unsigned id, unsigned before);

  /// Inputs of a place, and indices of those, by their position there, and of
  /// the transfers that write or read it.
  llvm::ArrayRef<Box> getInputs(Place place) { return inputs[key(place)]; }
  BoxIndex &getInputIndex(Place place) { return inputIndices[key(place)]; }
  /// Regions of a place that tiles compute, as the operations that say so, and
  /// an index of them by their position there.
  llvm::ArrayRef<chunk::ProduceOp> getProduced(Place place) {
    return produced[key(place)];
  }
  BoxIndex &getProducedIndex(Place place) {
    return producedIndices[key(place)];
  }
  BoxIndex &getWriters(Place place) { return writers[key(place)]; }
  BoxIndex &getReaders(Place place) { return readers[key(place)]; }
  /// An index of the ranks that read a place in transfers, by what they read.
  BoxIndex &getReadingRanks(Place place);

  /// What tiles access by a footprint of a kernel of the plan.
  const TileBoxes &getTileBoxes(chunk::FootprintOp footprint) {
    auto it = tileBoxes.find(footprint);
    if (it == tileBoxes.end())
      it = tileBoxes
               .try_emplace(
                   footprint,
                   mlir::cast<chunk::KernelOp>(footprint->getParentOp()),
                   footprint)
               .first;
    return it->second;
  }

  /// Indices of a place's outputs.
  BoxIndex &getOutputIndex(Place place) { return outputIndices[key(place)]; }
  /// True if a transfer reads an input.
  bool readsInput(unsigned id);
  /// True if both transfers add by atomic operations, so that neither has to
  /// come after the other.
  bool commute(unsigned id, unsigned other) {
    return transfers[id].getUnordered() && transfers[other].getUnordered();
  }
  /// True if tiles add to what is in a region.
  bool isAccumulated(Place place, const Box &region);
  /// True if a transfer touches, in `region`, what tiles then add to.
  bool isBeforeTiles(unsigned id, Place place, const Box &region);

  /// The index of a buffer in the plan.
  int64_t getBufferIndex(mlir::Value buffer) { return bufferIndex[buffer]; }

  /// When each transfer ends, in elements moved, if each queue moves one
  /// transfer at a time and all at the same rate.
  llvm::SmallVector<int64_t> estimateArrival();

  /// Emits an error if there is a collective but in a claim, or a plan in
  /// rank-affine form.
  mlir::LogicalResult requireDecomposed();
  /// Emits an error if an operation uses what stands behind it in the plan,
  /// which the graph leaves out. MLIR's verifier says the same, where it runs.
  mlir::LogicalResult requireOrder();
  /// Emits an error unless every transfer has a realization, and the kernel
  /// CTAs for those that are dedicated.
  mlir::LogicalResult requireRealizations();
  /// Emits an error if a transfer overwrites an input: tables order nothing
  /// behind the moment at which a rank has its input in place but what reads
  /// it.
  mlir::LogicalResult requireInputsKept();
  /// Emits an error unless, besides, every transfer has its number for its
  /// signal, and the layout of the plan's signals is that of its transfers.
  mlir::LogicalResult requireSignals();

private:
  /// A node is a transfer, a join, or what tiles compute; nodes are numbered in
  /// the order of the plan, so that each comes after lower numbers only.
  llvm::ArrayRef<unsigned> getNodePredecessors(unsigned node) {
    return llvm::ArrayRef(edges).slice(edgesBegin[node],
                                       edgesBegin[node + 1] - edgesBegin[node]);
  }
  std::pair<int64_t, int64_t> key(Place place) {
    return {place.first, bufferIndex[place.second]};
  }
  bool isNodeOrdered(unsigned before, unsigned after);
  void buildTree();
  void reduce();

  chunk::PlanOp plan;
  llvm::SmallVector<chunk::TransferOpInterface> transfers;
  llvm::DenseMap<mlir::Value, int64_t> bufferIndex;
  std::map<std::pair<int64_t, int64_t>, llvm::SmallVector<Box>> inputs;
  std::map<std::pair<int64_t, int64_t>, llvm::SmallVector<chunk::ProduceOp>>
      produced;
  std::map<std::pair<int64_t, int64_t>, BoxIndex> inputIndices, producedIndices,
      outputIndices, writers, readers, readingRanks;
  std::map<mlir::Operation *, TileBoxes> tileBoxes;

  /// The node of each token; the transfer of each node, or -1; the node of each
  /// transfer; and the predecessors of all nodes, one after another.
  llvm::DenseMap<mlir::Value, unsigned> nodeOfToken;
  std::vector<int64_t> transferOfNode;
  std::vector<unsigned> nodeOfTransfer, edgesBegin{0}, edges;

  /// The tree in which each node hangs from its last predecessor, as intervals
  /// of a numbering: whoever is above a node there comes before it.
  std::vector<unsigned> treeBegin, treeEnd;
  /// The first node, going back, that has not just one predecessor.
  std::vector<unsigned> fork;
  /// The node whose ancestors were last searched, as far as they are known: the
  /// ones found, marked with the number of the search, and those of them whose
  /// predecessors were not looked at yet, the last one first.
  unsigned searched = ~0u, search = 0;
  std::vector<unsigned> found, open;

  std::map<mlir::Operation *, llvm::BitVector> beforeKernel;

  bool reduced = false;
  llvm::SmallVector<llvm::SmallVector<unsigned, 2>> predecessors, successors;
};

} // namespace syncopate

#endif // SYNCOPATE_PASSES_PLANGRAPH_H
