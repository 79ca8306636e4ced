//===- TileLoop.h - how a kernel walks its tiles ----------------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_TILELOOP_H
#define SYNCOPATE_LOWERING_TILELOOP_H

#include "dialect/Chunk.h"
#include "lowering/MemoryAccess.h"

#include "mlir/IR/BuiltinOps.h"

namespace syncopate {

/// Calls `apply` on the kernels of the plans that stand directly in `module`,
/// until it fails. Emits an error at a plan that stands deeper, where passes
/// over plans do not look.
mlir::LogicalResult
forEachKernel(mlir::ModuleOp module,
              llvm::function_ref<mlir::LogicalResult(chunk::KernelOp)> apply);

/// Emits an error unless `marker`, of a kernel that has not been through
/// TritonGPU's passes or has, takes and gives as many coordinates as the grid.
///
/// A marker takes (coordinates, ordinal, position) and gives (coordinates,
/// ordinal). One of a part of a tile has the part for one more coordinate.
mlir::LogicalResult verifyMarkerShape(chunk::KernelOp kernel,
                                      mlir::Operation *marker);

/// True if the value is given by the operation called `name`, along x.
bool isProgramQuery(mlir::Value value, llvm::StringRef name);

/// Emits an error unless `function`, a kernel before TritonGPU's passes, walks
/// the positions 0 to the number of tiles, position p by CTA p modulo `ctas`,
/// and marks each, as the schedule assumes. A kernel that finds out at run time
/// what its tiles need may leave out the last positions. One that splits the
/// tiles of its last round walks their parts in a loop of their own.
mlir::LogicalResult verifyTileLoop(chunk::KernelOp kernel,
                                   mlir::Operation *function);

/// Emits an error if Triton has given the warps of `compiled`, which is
/// `function` after TritonGPU's passes, different work.
mlir::LogicalResult verifyNotSpecialized(chunk::KernelOp kernel,
                                         mlir::Operation *function,
                                         mlir::Operation *compiled);

/// Emits an error unless `function` uses every coordinate that its markers
/// return. One that goes by coordinates of its own computes another tile than
/// the one whose data its CTA has waited for.
mlir::LogicalResult verifyCoordinatesUsed(chunk::KernelOp kernel,
                                          mlir::Operation *function);

/// Emits an error if an access by the argument `name` is one that is not seen,
/// or stands where no tile has been marked: what it loads may not have come
/// yet, and what it stores is no tile's.
mlir::LogicalResult verifyAccesses(chunk::KernelOp kernel,
                                   mlir::Operation *function,
                                   mlir::StringAttr name,
                                   llvm::ArrayRef<MemoryAccess> accesses);

/// Emits an error if `function` accesses memory at an address, or under a mask,
/// that is made of the position in the order: in the fused kernel another tile
/// has that position.
mlir::LogicalResult verifyAddresses(chunk::KernelOp kernel,
                                    mlir::Operation *function);

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_TILELOOP_H
