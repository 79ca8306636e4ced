//===- KernelDependence.h - what each tile of a kernel waits for -*- C++ -*-==//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_KERNELDEPENDENCE_H
#define SYNCOPATE_PASSES_KERNELDEPENDENCE_H

#include "passes/PlanGraph.h"

namespace syncopate {

/// The chunk-tile dependence graph of one kernel on one rank: for each tile,
/// the transfers that bring a byte of its footprint.
class KernelDependence {
public:
  /// Emits an error at the kernel, and leaves the result invalid, if a tile
  /// reads what neither an input of the rank nor a transfer provides.
  KernelDependence(PlanGraph &graph, chunk::KernelOp kernel, int64_t rank);

  bool isValid() const { return valid; }
  /// True if some tile reads, by one footprint, an input of the rank together
  /// with something else.
  bool hasMixedReads() const { return mixed; }
  /// Transfers that tile `tile` (row-major in the grid) reads from, ascending.
  llvm::ArrayRef<unsigned> getTransfers(int64_t tile) {
    return sets[setOf[tile]];
  }
  /// Coordinates of a tile, padded with zeros to three.
  static std::array<int64_t, 3> getCoordinates(chunk::KernelOp kernel,
                                               int64_t tile);

private:
  bool valid = true;
  bool mixed = false;
  /// Distinct sets of transfers, and the one of each tile.
  llvm::SmallVector<llvm::SmallVector<unsigned>> sets;
  llvm::SmallVector<unsigned> setOf;
};

} // namespace syncopate

#endif // SYNCOPATE_PASSES_KERNELDEPENDENCE_H
