//===- CommandRegions.h - commands move what their transfers say -*- C++ -*-==//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_COMMANDREGIONS_H
#define SYNCOPATE_PASSES_COMMANDREGIONS_H

#include "passes/PlanGraph.h"
#include "passes/Tables.h"

namespace syncopate {

/// Emits an error unless the commands of a rank are those of the transfers that
/// it carries out, in the order of the plan, each cut into commands that move
/// every element of it once; and unless those that stage its input, if there
/// are any, hold all of it and nothing else.
mlir::LogicalResult checkCommandRegions(PlanGraph &graph,
                                        const ScheduleTables &tables);

} // namespace syncopate

#endif // SYNCOPATE_PASSES_COMMANDREGIONS_H
