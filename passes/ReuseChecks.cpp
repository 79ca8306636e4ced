//===- ReuseChecks.cpp - what one call leaves to the next, in the tables --===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TableChecker.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

LogicalResult TableChecker::checkReuse(unsigned id) {
  Place place = graph.getDstPlace(id);
  Box box = graph.getDstBox(id);
  Reuse &reuse = getReuse(place);
  const Seen &seen = atStart(id);
  std::optional<unsigned> other;
  for (BoxIndex *index : {&reuse.readers, &reuse.writers})
    index->forEachOverlap(box, [&](unsigned before) {
      Position end =
          index == &reuse.readers ? getLastRead(before) : last[before];
      if (!isSameStream(end, first[id]) && !order.wasComplete(end, seen))
        other = before;
    });
  if (other) {
    InFlightDiagnostic diag =
        report(id) << "without a wait for a transfer of the call before, "
                      "which reads or writes the same place";
    diag.attachNote(graph.getTransfer(*other).getLoc()) << "the other transfer";
    return diag;
  }
  if (place.first != graph.getTransfer(id).getExecutor() &&
      graph.getOutputIndex(place).overlaps(box) &&
      !order.isStaged(place.first, seen))
    return report(id) << "without a wait for rank " << place.first
                      << " to have begun its call: it writes to what the "
                         "call before has given back there";
  if (!order.hasEnded(place.first, seen))
    return report(id) << "without a wait for the call before of rank "
                      << place.first << ", to which it writes";
  return success();
}

LogicalResult TableChecker::checkStaging(int64_t rank) {
  for (BufferOp buffer : graph.getPlan().getBuffers()) {
    Place place{rank, buffer.getResult()};
    Reuse &reuse = getReuse(place);
    for (const Box &input : graph.getInputs(place)) {
      std::optional<unsigned> other;
      bool byRole = false;
      reuse.readers.forEachOverlap(input, [&](unsigned reader) {
        Position end = getLastRead(reader);
        if (!order.wasComplete(end, order.atStaging(rank)))
          other = reader;
        // For the rank's own reads it is the same whether host or role
        // copies.
        ArrayRef<Position> copies = getStagingCopies(rank);
        if (graph.getReadingRank(reader) != rank && !copies.empty() &&
            !order.wasComplete(end, order.atStart(copies.front()))) {
          other = reader;
          byRole = true;
        }
      });
      if (!other)
        continue;
      InFlightDiagnostic diag = tables[rank].getSchedule().emitOpError();
      diag << "replaces the input of rank " << rank
           << (byRole ? " by its communication role" : "")
           << " without a wait for a transfer that may still read that of "
              "the call before";
      diag.attachNote(graph.getTransfer(*other).getLoc()) << "the transfer";
      return diag;
    }
  }
  return success();
}

LogicalResult TableChecker::checkEnd(int64_t rank) {
  const Seen &seen = order.atEnd(rank);
  if (order.getLength(CallOrder::getQueue(rank, Realization::CopyEngine)) &&
      !order.isThrough(rank, seen))
    return tables[rank].getSchedule().emitOpError()
           << "ends the call of rank " << rank
           << " without a wait for its copy engine";
  for (auto [queue, id] : arriving[rank])
    if (!CallOrder::isComplete(last[id], seen)) {
      InFlightDiagnostic diag = tables[rank].getSchedule().emitOpError();
      diag << "ends the call of rank " << rank
           << " without a wait for a transfer to it";
      diag.attachNote(graph.getTransfer(id).getLoc()) << "the transfer";
      return diag;
    }
  return success();
}

LogicalResult TableChecker::checkTwins() {
  for (const CallOrder::Twin &twin : order.getTwins()) {
    bool ordered;
    if (twin.raisingCommand) // in the next call
      ordered =
          isSameStream(twin.waiter, *twin.raisingCommand) ||
          order.wasComplete(twin.waiter, order.atStart(*twin.raisingCommand));
    else if (twin.raisingGroup) // likewise
      ordered = order.wasComplete(
          twin.waiter, order.atGroup(twin.raisingRank, *twin.raisingGroup));
    else if (twin.atEnd) // at the end of the call that took it down
      ordered =
          CallOrder::isComplete(twin.waiter, order.atEnd(twin.raisingRank));
    else
      ordered =
          order.wasComplete(twin.waiter, order.atStaging(twin.raisingRank));
    if (ordered)
      continue;
    return tables[twin.raisingRank].getSchedule().emitOpError()
           << "raises " << order.describe(twin.rank, twin.signal)
           << " again without a wait for the stream that takes it down";
  }
  return success();
}
