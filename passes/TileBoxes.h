//===- TileBoxes.h - what tiles access by a footprint -----------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_TILEBOXES_H
#define SYNCOPATE_PASSES_TILEBOXES_H

#include "dialect/Chunk.h"
#include "passes/Boxes.h"

#include <array>
#include <vector>

namespace syncopate {

/// The part of the buffer that the tile at `coordinates`, behind which the step
/// stands if there is one, accesses by `footprint`; empty if it lies outside.
Box getAccessedBox(chunk::FootprintOp footprint, chunk::BufferType type,
                   llvm::ArrayRef<int64_t> coordinates);

/// Coordinates of a tile, padded with ones, or sizes of a grid.
using Coordinates = std::array<int64_t, 3>;

/// The sizes of a kernel's grid of tiles.
Coordinates getGrid(chunk::KernelOp kernel);

/// Calls `visit` with each tile's coordinates, row-major in the grid, until it
/// says false. Returns whether it never did.
template <typename Visit>
bool forEachTile(const Coordinates &grid, Visit &&visit) {
  Coordinates tile;
  for (tile[0] = 0; tile[0] < grid[0]; ++tile[0])
    for (tile[1] = 0; tile[1] < grid[1]; ++tile[1])
      for (tile[2] = 0; tile[2] < grid[2]; ++tile[2])
        if (!visit(tile))
          return false;
  return true;
}

/// The regions that the tiles of a kernel access by one footprint, the same on
/// all ranks. Tiles that differ only in coordinates that the map does not look
/// at access one region.
class TileBoxes {
public:
  TileBoxes(chunk::KernelOp kernel, chunk::FootprintOp footprint);

  chunk::FootprintOp getFootprint() const { return footprint; }
  mlir::TypedValue<chunk::BufferType> getBuffer() const { return buffer; }
  /// How many regions there are.
  size_t size() const { return boxes.size(); }
  /// The number of the region of a tile.
  size_t getNumber(const Coordinates &tile) const {
    return tile[0] * strides[0] + tile[1] * strides[1] + tile[2] * strides[2];
  }
  const Box &operator[](size_t number) const { return boxes[number]; }
  /// Whether tiles that differ in this coordinate have other regions.
  bool dependsOn(size_t dim) const { return strides[dim] != 0; }

private:
  chunk::FootprintOp footprint;
  mlir::TypedValue<chunk::BufferType> buffer;
  Coordinates strides{0, 0, 0};
  std::vector<Box> boxes;
};

} // namespace syncopate

#endif // SYNCOPATE_PASSES_TILEBOXES_H
