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
/// that Triton's pipeliner has made. Which tile it is follows from the offsets
/// of the store, since the coordinates at hand may be those of a later tile
/// already.
///
/// Emits an error where that cannot be told.
mlir::LogicalResult markFinishedTiles(chunk::KernelOp kernel,
                                      mlir::Operation *function,
                                      mlir::Value context);

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_TILESTORES_H
