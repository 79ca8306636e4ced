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

Box syncopate::getAccessedBox(FootprintOp footprint, BufferType type,
                              ArrayRef<int64_t> coordinates) {
  constexpr int64_t limit = BufferType::kMaxBytes;
  Box region;
  for (auto [expr, size, bound] :
       llvm::zip(footprint.getMap().getResults(), footprint.getSizes(),
                 type.getShape())) {
    // What does not fit lies outside every buffer.
    int64_t begin =
        std::clamp(evaluate(expr, coordinates).value_or(limit), -limit, limit);
    int64_t end = begin + size;
    begin = std::max<int64_t>(begin, 0);
    end = std::min(end, ShapedType::isDynamic(bound) ? limit : bound);
    region.offsets.push_back(begin);
    region.sizes.push_back(end - begin);
  }
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
  boxes.reserve(regions);
  forEachTile(seen, [&](const Coordinates &tile) {
    boxes.push_back(getAccessedBox(footprint, buffer.getType(), tile));
    return true;
  });
}
