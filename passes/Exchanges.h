//===- Exchanges.h - transfers that ranks make at the same time -*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_EXCHANGES_H
#define SYNCOPATE_PASSES_EXCHANGES_H

#include "dialect/Chunk.h"

#include <vector>

namespace syncopate {

/// What stands for the exchange of a transfer that one rank carries out alone.
constexpr int64_t kNoExchange = -1;

/// The number of the *exchange* that each transfer of a plan belongs to, in the
/// order of the plan. All sends and receives of a rank that belong to one start
/// and end together. So an exchange has one transfer at most from one rank to
/// another; none of them comes after another one, by tokens or since tiles that
/// compute what it sends may wait for that. All ranks have their exchanges in
/// the order of these numbers, and so none waits for one that is behind its
/// own.
std::vector<int64_t> numberExchanges(chunk::PlanOp plan);

/// Moves the transfers of a plan so that those of an exchange stand together,
/// exchange by exchange, and what comes after one of them behind it.
void orderExchanges(chunk::PlanOp plan);

} // namespace syncopate

#endif // SYNCOPATE_PASSES_EXCHANGES_H
