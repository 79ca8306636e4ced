//===- StepLoop.h - how a kernel walks the steps of a tile ------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One marker gives the range of a tile's steps, (begin, end), as it takes it;
// another one, in a branch in a loop over that range, gives the step at the
// place that the loop has come to.
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_STEPLOOP_H
#define SYNCOPATE_LOWERING_STEPLOOP_H

#include "dialect/Chunk.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace syncopate {

class KernelValues;

/// True if `op` is the marker before the loops over the steps of a tile.
bool isStepsMarker(mlir::Operation *op);

/// All such markers in `function`, in order.
llvm::SmallVector<mlir::Operation *>
findStepsMarkers(mlir::Operation *function);

/// True if the turns of a loop are steps of a tile.
bool walksSteps(mlir::scf::ForOp loop);

/// The marker in a branch around it, which is always taken and yields what the
/// marker gives: the step of a turn. Null for another branch.
mlir::Operation *findStep(mlir::scf::IfOp branch);

/// True for what such a branch yields.
bool isStep(mlir::Value value);

/// The marker of the tile that a marker before a loop over steps belongs to:
/// the last one before it, in the same body; null if there is none.
mlir::Operation *findTileOfSteps(mlir::Operation *marker);

/// Emits an error unless `function`, a kernel before TritonGPU's passes, walks
/// the steps of its tiles as the schedule assumes, if it walks any: each loop
/// over all of them, and by what the markers return alone.
mlir::LogicalResult verifyStepLoops(chunk::KernelOp kernel,
                                    mlir::Operation *function);

/// Adds what says which steps a tile has, unless the kernel has it or its tiles
/// walk none. Emits an error if it does not follow from what the marker takes.
mlir::LogicalResult inferSteps(chunk::KernelOp kernel,
                               mlir::Operation *function, KernelValues &values);

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_STEPLOOP_H
