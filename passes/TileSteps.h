//===- TileSteps.h - which steps a tile walks, in which order ---*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_TILESTEPS_H
#define SYNCOPATE_PASSES_TILESTEPS_H

#include "passes/KernelDependence.h"
#include "passes/Tables.h"

namespace syncopate {

/// Lists of steps, one behind the other, and of each position of a rank's order
/// of tiles, where the list of its tile lies.
struct StepOrder {
  std::vector<int64_t> steps;
  std::vector<RowRange> ofPosition;

  /// Writes both as tables of the schedule, the steps without their waits.
  void write(chunk::ScheduleOp schedule) const;
};

/// The steps of the tiles in `order`, by their numbers, those first whose data
/// arrive first, and else as the kernel would take them; all of them as the
/// kernel would, if `natural`. Tiles that need not differ share a list. Emits
/// an error if the lists are too long.
mlir::FailureOr<StepOrder> orderSteps(chunk::KernelOp kernel,
                                      KernelDependence &dependence,
                                      llvm::ArrayRef<int64_t> order,
                                      llvm::ArrayRef<int64_t> arrival,
                                      bool natural);

/// The steps that a schedule gives the tiles in `order`; nothing for a kernel
/// whose tiles walk none. Emits an error unless each tile has each of its steps
/// once.
mlir::FailureOr<StepOrder> readStepOrder(chunk::KernelOp kernel,
                                         chunk::ScheduleOp schedule,
                                         llvm::ArrayRef<int64_t> order);

} // namespace syncopate

#endif // SYNCOPATE_PASSES_TILESTEPS_H
