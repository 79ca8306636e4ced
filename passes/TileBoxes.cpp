//===- TileBoxes.cpp - what tiles access by a footprint -------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileBoxes.h"

#include "mlir/IR/AffineMap.h"

#include <algorithm>

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

/// Adds the dimension of a region that begins at `begin`; nothing stands for
/// what does not fit, which lies outside every buffer.
static void addDim(Box &region, std::optional<int64_t> begin, int64_t size,
                   int64_t bound) {
  constexpr int64_t limit = BufferType::kMaxBytes;
  int64_t first = std::clamp(begin.value_or(limit), -limit, limit);
  int64_t end =
      std::min(first + size, ShapedType::isDynamic(bound) ? limit : bound);
  first = std::max<int64_t>(first, 0);
  region.offsets.push_back(first);
  region.sizes.push_back(end - first);
}

Box syncopate::getAccessedBox(FootprintOp footprint, BufferType type,
                              ArrayRef<int64_t> coordinates) {
  Box region;
  for (auto [expr, size, bound] :
       llvm::zip(footprint.getMap().getResults(), footprint.getSizes(),
                 type.getShape()))
    addDim(region, evaluate(expr, coordinates), size, bound);
  return region;
}

Coordinates syncopate::getGrid(KernelOp kernel) {
  Coordinates grid{1, 1, 1};
  llvm::copy(kernel.getTiles(), grid.begin());
  return grid;
}

TileBoxes::TileBoxes(KernelOp kernel, FootprintOp footprint)
    : footprint(footprint), buffer(kernel.getBoundBuffer(footprint.getArg())) {
  Coordinates grid = getGrid(kernel), seen{1, 1, 1};
  int64_t regions = 1;
  for (size_t i = kernel.getTiles().size(); i-- > 0;)
    if (footprint.getMap().isFunctionOfDim(i)) {
      seen[i] = grid[i];
      strides[i] = regions;
      regions *= grid[i];
    }
  // Most offsets depend on one coordinate, by which they are then known.
  size_t dims = kernel.getTiles().size();
  ArrayRef<AffineExpr> offsets = footprint.getMap().getResults();
  std::vector<std::vector<std::optional<int64_t>>> known(offsets.size());
  SmallVector<size_t> knownBy(offsets.size(), 0);
  for (auto [number, expr] : llvm::enumerate(offsets)) {
    SmallVector<size_t> by;
    for (size_t i = 0; i < dims; ++i)
      if (expr.isFunctionOfDim(i))
        by.push_back(i);
    if (by.size() > 1)
      continue;
    knownBy[number] = by.empty() ? 0 : by.front();
    Coordinates at{0, 0, 0};
    int64_t &coordinate = at[knownBy[number]];
    for (; coordinate < seen[knownBy[number]]; ++coordinate)
      known[number].push_back(evaluate(expr, at));
  }
  boxes.reserve(regions);
  forEachTile(seen, [&](const Coordinates &tile) {
    Box &region = boxes.emplace_back();
    for (auto [number, expr] : llvm::enumerate(offsets))
      addDim(region,
             known[number].empty() ? evaluate(expr, tile)
                                   : known[number][tile[knownBy[number]]],
             footprint.getSizes()[number], buffer.getType().getShape()[number]);
    return true;
  });
}
