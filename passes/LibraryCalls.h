//===- LibraryCalls.h - a collective as calls of a library ------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_LIBRARYCALLS_H
#define SYNCOPATE_PASSES_LIBRARYCALLS_H

#include "passes/Tables.h"

namespace syncopate {

/// The collective of a plan that is to be library calls; null if there is none.
chunk::CollectiveOpInterface findLibraryCall(chunk::PlanOp plan);

/// Emits an error unless a collective can be library calls: of all ranks, of
/// rows of what their tiles compute and nobody else touches, and the last that
/// happens in its plan.
mlir::LogicalResult verifyLibraryCall(chunk::CollectiveOpInterface collective);

/// The number that stands for such a collective in the tables.
LibraryCall getLibraryCall(chunk::CollectiveOpInterface collective);

} // namespace syncopate

#endif // SYNCOPATE_PASSES_LIBRARYCALLS_H
