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

#include <set>

namespace syncopate {

/// What the commands of all ranks of a plan are compared with.
struct CarriedOut {
  explicit CarriedOut(PlanGraph &graph);

  /// By transfer, the exchange that it is of.
  std::vector<int64_t> exchanges;
  /// By rank, the transfers that it carries out, alone or with another one.
  std::vector<llvm::SmallVector<unsigned>> ofRank;
  /// Realizations of roles that the kernel has.
  std::set<chunk::Realization> roles;
};

/// Emits an error unless the commands of a rank are those of the transfers that
/// it carries out, in the order of the plan, and behind them those that tiles
/// hand over, in the order of the tiles; unless each transfer is cut into
/// commands that move every element of it once, all of them handed over by the
/// tile that the transfer names, if it does; and unless those that stage its
/// input, if there are any, hold all of it and nothing else.
mlir::LogicalResult checkCommandRegions(PlanGraph &graph,
                                        chunk::KernelOp kernel,
                                        const CarriedOut &carriedOut,
                                        const ScheduleTables &tables);

} // namespace syncopate

#endif // SYNCOPATE_PASSES_COMMANDREGIONS_H
