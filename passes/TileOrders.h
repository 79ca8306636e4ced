//===- TileOrders.h - policies for the order of tiles -----------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every policy sees the same: the tiles of a rank in an order that keeps
// locality, cut into kinds by when they can start and when they should be done.
// It says how kinds follow each other, and may order the tiles within one.
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_TILEORDERS_H
#define SYNCOPATE_PASSES_TILEORDERS_H

#include "passes/KernelDependence.h"
#include "passes/TileGroups.h"
#include "passes/TileSlots.h"

#include <map>
#include <vector>

namespace syncopate {

/// All tiles of a grid, by their numbers, in the order that keeps locality:
/// `rows` rows of tiles are walked column by column.
std::vector<int64_t> walkGrid(chunk::KernelOp kernel, int64_t rows);

/// Tiles of a rank that can start and should be done at the same times.
struct TileKind {
  std::vector<int64_t> tiles;
  /// Whom they are for, or else from whom the last that they wait for comes;
  /// the rank itself if there is nobody.
  int64_t peer;
  bool leaves, waits;
};

/// By whether they add to what has arrived, by when the last that they wait
/// for arrives, and by when they should be done.
using TileKinds = std::map<std::tuple<bool, int64_t, int64_t>, TileKind>;

/// Cuts the tiles of the dependence's rank into kinds, in each of which they
/// keep their order. `arrival` is that of each transfer.
TileKinds findTileKinds(llvm::ArrayRef<int64_t> tiles, PlanGraph &graph,
                        KernelDependence &dependence,
                        llvm::ArrayRef<int64_t> arrival,
                        const TileGroups &groups, chunk::TileOrder policy);

/// The order of a rank's tiles by the policy, but for library calls.
std::vector<int64_t> orderKinds(chunk::KernelOp kernel, int64_t rank,
                                int64_t ranks, const TileKinds &kinds,
                                int64_t rows, chunk::TileOrder policy);

/// Tiles of the blocks of all ranks take turns, since a library call takes as
/// many of each, and those that lie in two blocks come last. Tiles of a later
/// `time` stay behind others.
void alternateBlocks(const TileSlots &slots,
                     llvm::MutableArrayRef<int64_t> tiles,
                     llvm::function_ref<int64_t(int64_t)> time);

/// Puts the tiles of each library call, whose waves are given, together, and on
/// all ranks the calls in one order. Among those of a call a rank's tiles are
/// ordered as its kinds are. `orders` are those of all ranks.
void gatherCalls(chunk::KernelOp kernel, const TileSlots &slots,
                 llvm::ArrayRef<int64_t> waves, llvm::ArrayRef<TileKinds> kinds,
                 int64_t rows,
                 llvm::MutableArrayRef<std::vector<int64_t>> orders);

/// By tile, the latest position at which it stands in any of the orders.
std::vector<int64_t>
findLastPositions(llvm::ArrayRef<std::vector<int64_t>> orders);

/// The tiles by what `time` gives of each; the lower number first if that is
/// the same.
std::vector<int64_t> sortTiles(llvm::ArrayRef<int64_t> time);

} // namespace syncopate

#endif // SYNCOPATE_PASSES_TILEORDERS_H
