//===- Realizations.h - what a realization is -------------------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_REALIZATIONS_H
#define SYNCOPATE_PASSES_REALIZATIONS_H

#include "dialect/Chunk.h"

#include <set>

namespace syncopate {

/// The stream of a copy engine carries the transfer out, told by the host.
constexpr bool isEngine(chunk::Realization realization) {
  return realization == chunk::Realization::CopyEngine;
}

/// The host enqueues it on the rank's side stream, which carries out one after
/// another what is enqueued there.
constexpr bool isOnStream(chunk::Realization realization) {
  return isEngine(realization) || realization == chunk::Realization::Nccl;
}

/// A role of the fused kernel does, on CTAs of its own.
constexpr bool isDedicated(chunk::Realization realization) {
  return realization == chunk::Realization::TmaDedicated ||
         realization == chunk::Realization::LdstDedicated;
}

/// A role of the fused kernel does, beside the computing warps of each CTA.
constexpr bool isColocated(chunk::Realization realization) {
  return realization == chunk::Realization::TmaColocated ||
         realization == chunk::Realization::LdstColocated;
}

constexpr bool isDevice(chunk::Realization realization) {
  return isDedicated(realization) || isColocated(realization);
}

/// Both ranks of a transfer carry it out together: one sends, the other
/// receives. That one is its executor, as that of a get is.
constexpr bool isExchange(chunk::Realization realization) {
  return realization == chunk::Realization::Nccl;
}

/// Loads and stores can do arithmetic in between; TMA can add one part.
constexpr bool canReduce(chunk::Realization realization,
                         chunk::Reduction reduction, int64_t parts = 1) {
  return realization == chunk::Realization::LdstDedicated ||
         realization == chunk::Realization::LdstColocated ||
         (isDevice(realization) && reduction == chunk::Reduction::Sum &&
          parts == 1);
}

/// What carries out reductions that a realization cannot: loads and stores by
/// the same warps, or by those beside the computing ones.
constexpr chunk::Realization getReducing(chunk::Realization realization) {
  return isDedicated(realization) ? chunk::Realization::LdstDedicated
                                  : chunk::Realization::LdstColocated;
}

/// Whether a collective is to be calls of a library, and no transfers.
inline bool isLibraryCall(chunk::CollectiveOpInterface collective) {
  return collective.getRealization() == chunk::Realization::Nccl;
}

/// The device function that carries out the commands of a role.
inline std::string getCommandsFunction(chunk::Realization realization) {
  return ("run_commands_" + chunk::stringifyRealization(realization)).str();
}

/// The roles that the kernel of a plan needs for its transfers, all ranks
/// together: the device realizations that occur, ascending.
inline std::set<chunk::Realization> getRoles(chunk::PlanOp plan) {
  std::set<chunk::Realization> roles;
  for (auto transfer : plan.getBody().getOps<chunk::TransferOpInterface>())
    if (auto realization = transfer.getRealization();
        realization && isDevice(*realization))
      roles.insert(*realization);
  return roles;
}

/// The number of realizations.
constexpr int64_t kNumRealizations = chunk::getMaxEnumValForRealization() + 1;

} // namespace syncopate

#endif // SYNCOPATE_PASSES_REALIZATIONS_H
