//===- KernelDependence.h - what each tile of a kernel waits for -*- C++ -*-==//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_KERNELDEPENDENCE_H
#define SYNCOPATE_PASSES_KERNELDEPENDENCE_H

#include "passes/PlanGraph.h"

#include <array>

namespace syncopate {

/// The steps of a tile, and what they read: of one list, which tiles that read
/// alike have in common, those from `begin` to before `end`.
struct TileSteps {
  unsigned list;
  int64_t begin, end;
};

/// The chunk-tile dependence graph of one kernel on one rank: for each tile,
/// and each of its steps, the transfers that bring a byte of what it reads, or
/// adds to.
class KernelDependence {
public:
  /// Emits an error at the kernel, and leaves the result invalid, if a tile
  /// reads what neither an input of the rank nor a transfer provides, or what a
  /// transfer writes that the kernel does not come after.
  KernelDependence(PlanGraph &graph, chunk::KernelOp kernel, int64_t rank);

  bool isValid() const { return valid; }
  int64_t getRank() const { return rank; }
  /// True if some tile reads, by one footprint, an input of the rank together
  /// with something else.
  bool hasMixedReads() const { return mixed; }
  /// Distinct sets of transfers that tiles wait for, each ascending.
  llvm::ArrayRef<llvm::SmallVector<unsigned>> getSets() { return sets; }
  /// The number of the set that tile `tile` (row-major in the grid) reads from.
  unsigned getSet(int64_t tile) { return setOf[tile]; }
  /// The steps of a tile of a kernel that walks them.
  const TileSteps &getSteps(int64_t tile) { return stepsOf[tile]; }
  /// The numbers of the sets that the steps of a list read from, by step.
  llvm::ArrayRef<unsigned> getStepSets(unsigned list) { return lists[list]; }
  /// True if some tile adds to what is brought.
  bool hasSums() const { return sums; }
  /// The number of the set that brings what the tile adds to.
  unsigned getSummedSet(int64_t tile) { return summedSetOf[tile]; }
  /// Coordinates of a tile, padded with zeros to three; the third one of a part
  /// of a tile is its number.
  static std::array<int64_t, 3>
  getCoordinates(chunk::KernelOp kernel, int64_t tile,
                 std::optional<int64_t> part = std::nullopt);

private:
  using Numbered =
      llvm::function_ref<mlir::FailureOr<unsigned>(llvm::ArrayRef<int64_t>)>;

  /// Finds the steps of all tiles, and the sets that they read from, which
  /// `find` gives for the coordinates of a tile and a step.
  mlir::LogicalResult findSteps(chunk::KernelOp kernel,
                                llvm::ArrayRef<chunk::FootprintOp> reads,
                                Numbered find);
  /// Looks up the transfers that bring `region` by a read of `buffer`.
  mlir::FailureOr<llvm::SmallVector<unsigned>>
  findTransfers(PlanGraph &graph, chunk::KernelOp kernel,
                chunk::FootprintOp footprint, Place place, const Box &region,
                llvm::ArrayRef<int64_t> coordinates,
                const llvm::BitVector &isAncestor);
  /// Looks up the transfers that bring what a tile adds to.
  static llvm::SmallVector<unsigned>
  findAccumulated(PlanGraph &graph, Place place, const Box &region);

  int64_t rank;
  bool valid = true;
  bool mixed = false, sums = false;
  llvm::SmallVector<llvm::SmallVector<unsigned>> sets;
  std::vector<unsigned> setOf, summedSetOf;
  std::vector<TileSteps> stepsOf;
  std::vector<std::vector<unsigned>> lists;
};

} // namespace syncopate

#endif // SYNCOPATE_PASSES_KERNELDEPENDENCE_H
