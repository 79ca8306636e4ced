//===- TileOrigins.h - which tile an address belongs to ---------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_TILEORIGINS_H
#define SYNCOPATE_LOWERING_TILEORIGINS_H

#include "dialect/Chunk.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace syncopate {

/// Follows the coordinates of tiles through a kernel, from each
/// `chunk.read_tile` to what is computed of them.
///
/// A pipelined loop begins with a tile before it has stored the one before, so
/// the coordinates at hand at a store may be those of a later tile, while those
/// of its own come through values that loops carry and branches choose. What an
/// address is made of is therefore followed back, and where a loop carries it
/// or a branch chooses it, the number of its tile is carried and chosen beside
/// it.
class TileOrigins {
public:
  TileOrigins(chunk::KernelOp kernel, mlir::Operation *function);

  /// The number, row-major in the grid, of the tile of whose coordinates the
  /// first of these values is computed that is computed of any; null if none
  /// is. May put another loop or branch in the place of one that it stands in;
  /// what it returned for other values before stays valid only if it is asked
  /// for again.
  mlir::Value find(mlir::ValueRange values);

private:
  /// An operand that is still to be set to the number of the tile that belongs
  /// to another operand: of the terminator of `block`, or, if `isInit`, of the
  /// loop around it.
  struct Pending {
    mlir::Block *block;
    bool isInit;
    unsigned slot, source;
  };

  void follow(mlir::Value coordinate);
  mlir::Value get(mlir::Value value);
  mlir::Value getCarried(mlir::BlockArgument argument);
  mlir::Value getResult(mlir::OpResult result);
  mlir::Value choose(mlir::Operation *select);
  void complete(const Pending &item);
  mlir::Operation *widen(mlir::Operation *op, mlir::ValueRange operands);

  /// All that is computed of coordinates.
  llvm::DenseSet<mlir::Value> computed;
  llvm::DenseMap<mlir::Value, mlir::Value> tiles;
  llvm::SmallVector<Pending> pending;
};

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_TILEORIGINS_H
