//===- CallWriter.cpp - what begins and ends a call -----------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/TableWriter.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

void TableWriter::writeCall() {
  call.open.begin = numSignals();
  call.guard.begin = numWaits();
  std::set<int64_t> readers, staged;
  std::set<std::pair<int64_t, bool>> opened;
  protocol.forEachReader(rank, [&](Queue queue) {
    // Communication roles hear of it from the staging command.
    if (isEngine(queue.second))
      opened.insert({queue.first, true});
    else
      staged.insert(queue.first);
    readers.insert(queue.first);
  });
  protocol.forEachWriter(rank, [&](Queue queue) {
    if (isEngine(queue.second)) {
      // The twin is raised again only when the stream has taken it down.
      opened.insert({queue.first, true});
      readers.insert(queue.first);
    } else if (!staged.count(queue.first)) {
      opened.insert({queue.first, false});
    }
  });
  for (auto [to, engine] : opened)
    engine ? addSignal(to, layout.readyTwin(rank), StoreOne)
           : addSignal(to, layout.ready(rank), StoreEpoch);
  // Before the input is replaced, all that read it must have ended.
  for (int64_t reader : readers)
    addWait(layout.done(reader), 0);
  call.open.end = numSignals();
  call.guard.end = call.closeWaits.begin = numWaits();
  bool hasEngine = static_cast<bool>(sources.collective);
  for (unsigned id : getMine())
    hasEngine |= isEngine(sources.queues[id].second);
  if (hasEngine)
    addWait(layout.engineDone(), 1);
  addArrivals();
  call.closeWaits.end = numWaits();
  call.closeSignals.begin = numSignals();
  addClosingSignals();
  call.closeSignals.end = numSignals();
  call.beforeTiles = countBeforeTiles();
  call.needsBuffer = kNoBuffer;
  call.needsIndex = 0;
  KernelOp kernel = sources.kernel;
  if (kernel.getNeeds()) {
    call.needsBuffer = graph.getBufferIndex(kernel.getNeeds());
    call.needsIndex = static_cast<int64_t>(*kernel.getNeedsAt());
  }
}

void TableWriter::addClosingSignals() {
  std::set<std::pair<int64_t, bool>> listeners;
  protocol.forEachGuardedBy(rank, [&](Queue queue) {
    listeners.insert({queue.first, isEngine(queue.second)});
  });
  // A rank also looks at `done` before it replaces its input.
  for (unsigned id : getMine()) {
    int64_t holder = graph.getSrcPlace(id).first;
    if (sources.readers[id] == rank && holder != rank)
      listeners.insert({holder, false});
  }
  // And before it opens a call to a stream.
  protocol.forEachOutputOfStream(
      rank, [&](int64_t owner) { listeners.insert({owner, false}); });
  for (auto [to, engine] : listeners)
    addSignal(to, engine ? layout.doneTwin(rank) : layout.done(rank),
              engine ? StoreOne : StoreEpoch);
}

void TableWriter::addArrivals() {
  std::map<Queue, unsigned> last;
  for (unsigned id : sources.arriving[rank])
    last[sources.queues[id]] = id;
  for (auto [queue, id] : last)
    addWait(layout.data(id), 1);
  for (auto [id, count] : protocol.getCounters(rank))
    addWait(layout.data(id), count);
}

int64_t TableWriter::countBeforeTiles() {
  if (commandsOfTile.empty())
    return 0;
  int64_t role = commands[commandsOfTile.begin()->second.begin].realization;
  int64_t count = 0;
  for (const CommandRow &command : commands) {
    if (command.realization != role)
      continue;
    if (command.transfer != kStaging &&
        sources.needsTile.test(command.transfer))
      break;
    ++count;
  }
  return count;
}
