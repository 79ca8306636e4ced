//===- TileSlotStores.h - stores of tiles to their slots --------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_TILESLOTSTORES_H
#define SYNCOPATE_LOWERING_TILESLOTSTORES_H

#include "dialect/Chunk.h"
#include "passes/TileSlots.h"

namespace syncopate {

/// Makes a store of tile `tile` go to its slot: by as much further as the slot
/// lies from where the kernel's code has the tile begin. If slots are rows,
/// tiles that have parts are stored row by row instead. Emits an error if it is
/// not by a descriptor.
mlir::LogicalResult storeToSlot(chunk::KernelOp kernel, const TileSlots &slots,
                                mlir::Operation *store, mlir::Value context,
                                mlir::Value tile);

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_TILESLOTSTORES_H
