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
/// it carries out, in the order of the plan, and behind them those that tiles
/// hand over, in the order of the tiles; unless each transfer is cut into
/// commands that move every element of it once, all of them handed over by the
/// tile that the transfer names, if it does; and unless those that stage its
/// input, if there are any, hold all of it and nothing else.
mlir::LogicalResult checkCommandRegions(PlanGraph &graph,
                                        chunk::KernelOp kernel,
                                        const ScheduleTables &tables);

} // namespace syncopate

#endif // SYNCOPATE_PASSES_COMMANDREGIONS_H
