//===- TileStores.h - where a kernel's tiles are done -----------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_TILESTORES_H
#define SYNCOPATE_LOWERING_TILESTORES_H

#include "dialect/Chunk.h"

namespace syncopate {

/// Puts a `chunk.finish_tile` behind the last store of every tile to buffers of
/// which the plan says that tiles compute them, in every clone of the store
/// that Triton's passes have made, and lets stores of tiles that are to add to
/// what is there do so. How many stores a tile has, and in which loops, is
/// taken from `ttir`, the kernel before these passes, if it is given.
///
/// Emits an error where it cannot be told which tile stores, or which of its
/// stores is the last.
mlir::LogicalResult markFinishedTiles(chunk::KernelOp kernel,
                                      mlir::Operation *ttir,
                                      mlir::Operation *function,
                                      mlir::Value context);

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_TILESTORES_H
