//===- PlanGraph.h - transfers of a plan and what depends on them -*- C++ -*-=//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_PLANGRAPH_H
#define SYNCOPATE_PASSES_PLANGRAPH_H

#include "dialect/Chunk.h"
#include "passes/Boxes.h"

#include <map>

namespace syncopate {

/// A rank's instance of a buffer.
using Place = std::pair<int64_t, mlir::Value>;

/// Who carries a transfer out: transfers of the same queue start, and are
/// announced, in the order of the plan.
using Queue = std::pair<int64_t, chunk::Realization>;

/// The transfers of a plan without collectives, numbered in the order of the
/// plan, with joins seen through.
class PlanGraph {
public:
  explicit PlanGraph(chunk::PlanOp plan);

  chunk::PlanOp getPlan() { return plan; }
  size_t size() const { return transfers.size(); }
  chunk::TransferOpInterface getTransfer(unsigned id) { return transfers[id]; }
  llvm::ArrayRef<chunk::TransferOpInterface> getTransfers() {
    return transfers;
  }
  /// Transfers that transfer `id` directly comes after.
  llvm::ArrayRef<unsigned> getPredecessors(unsigned id) {
    return predecessors[id];
  }
  /// Transfers that directly come after transfer `id`.
  llvm::ArrayRef<unsigned> getSuccessors(unsigned id) { return successors[id]; }
  /// Transfers named by these tokens, and all that those come after.
  llvm::SmallVector<unsigned> getAncestors(mlir::ValueRange tokens);
  /// True if `after` comes after `before`, however indirectly, by tokens.
  bool isOrdered(unsigned before, unsigned after);

  Box getSrcBox(unsigned id);
  Box getDstBox(unsigned id);
  Place getSrcPlace(unsigned id);
  Place getDstPlace(unsigned id);
  /// The queue of a transfer that has a realization.
  Queue getQueue(unsigned id);

  /// Inputs of a place, and an index of the transfers that write or read it.
  llvm::ArrayRef<Box> getInputs(Place place) { return inputs[key(place)]; }
  BoxIndex &getWriters(Place place) { return writers[key(place)]; }
  BoxIndex &getReaders(Place place) { return readers[key(place)]; }

  /// The index of a buffer in the plan.
  int64_t getBufferIndex(mlir::Value buffer) { return bufferIndex[buffer]; }

  /// When each transfer ends, in elements moved, if each queue moves one
  /// transfer at a time and all at the same rate.
  llvm::SmallVector<int64_t> estimateArrival();

private:
  std::pair<int64_t, int64_t> key(Place place) {
    return {place.first, bufferIndex[place.second]};
  }
  void collect(mlir::Value token, llvm::SmallVectorImpl<unsigned> &result);

  chunk::PlanOp plan;
  llvm::SmallVector<chunk::TransferOpInterface> transfers;
  llvm::DenseMap<mlir::Operation *, unsigned> numbers;
  llvm::SmallVector<llvm::SmallVector<unsigned, 2>> predecessors, successors;
  llvm::DenseMap<mlir::Value, int64_t> bufferIndex;
  std::map<std::pair<int64_t, int64_t>, llvm::SmallVector<Box>> inputs;
  std::map<std::pair<int64_t, int64_t>, BoxIndex> writers, readers;
};

} // namespace syncopate

#endif // SYNCOPATE_PASSES_PLANGRAPH_H
