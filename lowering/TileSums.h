//===- TileSums.h - stores that add to what is there ------------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_TILESUMS_H
#define SYNCOPATE_LOWERING_TILESUMS_H

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

namespace syncopate {

/// Lets a store of tile `tile` add to what is there if the table says so, and
/// then wait for that first: only here, since a pipelined loop begins with a
/// tile before it has stored the one before.
///
/// TMA adds by itself. A store by pointers loads what is there by the same
/// pointers under the same mask; floats are added before they are rounded to
/// the type of the buffer, in float32 if that is narrower.
void addWhatIsThere(mlir::Operation *store, mlir::Value context,
                    mlir::Value tile);

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_TILESUMS_H
