//===- TableWriter.h - the tables of one rank -------------------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_TABLEWRITER_H
#define SYNCOPATE_LOWERING_TABLEWRITER_H

#include "lowering/CallProtocol.h"

namespace syncopate {

/// The waits that tiles name, as `chunk-place-waits` left them: what stands
/// behind those belongs to tables built before. Nothing if there are none yet.
std::optional<llvm::ArrayRef<int64_t>> getTileWaits(chunk::ScheduleOp schedule);

/// Writes all tables of a schedule behind the order of its tiles and their
/// waits. `handed` are the transfers that tiles hand over, in the order in
/// which they do so, with the CTAs of those tiles; `pause` is how long a
/// co-located role rests after each block that it stores to another rank, in
/// nanoseconds.
void writeTables(PlanAnalysis &analysis, CallProtocol &protocol,
                 llvm::ArrayRef<std::pair<unsigned, int64_t>> handed,
                 chunk::KernelOp kernel, chunk::ScheduleOp schedule,
                 int64_t pause);

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_TABLEWRITER_H
