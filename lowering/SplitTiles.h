//===- SplitTiles.h - tiles that several CTAs compute -----------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel that can split tiles walks the tiles of whole rounds in one loop,
// and the parts of the tiles of the last round in another one, as many of each
// as its plan says, which may be none. Each part is marked as whole tiles are,
// with its number for one more coordinate. What stores such a tile stands in a
// branch that only the last of its CTAs takes.
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_SPLITTILES_H
#define SYNCOPATE_LOWERING_SPLITTILES_H

#include "dialect/Chunk.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace syncopate {

/// True if a tile marker marks a part of a tile.
bool marksPart(chunk::KernelOp kernel, mlir::Operation *marker);

/// True if the function around an operation can split tiles.
bool canSplit(chunk::KernelOp kernel, mlir::Operation *op);

/// True if the branch is taken by the last CTA of a tile alone.
bool isLastPart(mlir::scf::IfOp branch);

/// The branch around an operation that the last CTA of a tile takes alone, or
/// null.
mlir::scf::IfOp getLastPart(mlir::Operation *op);

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_SPLITTILES_H
