//===- CheckCalls.h - library calls take what tiles compute -----*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_CHECKCALLS_H
#define SYNCOPATE_PASSES_CHECKCALLS_H

#include "passes/CallOrder.h"
#include "passes/PlanGraph.h"

namespace syncopate {

/// Emits an error unless the commands that are library calls amount to the
/// collective of the plan that is to be such calls: on all ranks the same ones
/// in the same order, each of the slots of its tiles alone, and every tile in
/// one of them, at its rank's part. A call starts when its tiles are done, and
/// a tile is stored when the call before has taken what was in its slot.
/// Without such a collective, there are no such commands.
mlir::LogicalResult checkLibraryCalls(PlanGraph &graph, chunk::KernelOp kernel,
                                      llvm::ArrayRef<ScheduleTables> tables,
                                      const CallOrder &order);

} // namespace syncopate

#endif // SYNCOPATE_PASSES_CHECKCALLS_H
