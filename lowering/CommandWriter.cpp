//===- CommandWriter.cpp - the commands of one rank's transfers -----------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/RowPlan.h"
#include "lowering/TableWriter.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

void TableWriter::writeCommand(unsigned id) {
  TransferOpInterface transfer = graph.getTransfer(id);
  Realization realization = *transfer.getRealization();
  Protocols rows;
  rows.waits.begin = numWaits();
  if (exchanges[id] == kNoExchange)
    addCommandWaits(id, isEngine(realization));
  else if (exchangesBegun.insert(exchanges[id]).second)
    // All of an exchange starts when the first of it does.
    for (unsigned other : getMine())
      if (other >= id && exchanges[other] == exchanges[id])
        addCommandWaits(other, /*engine=*/true);
  rows.waits.end = numWaits();
  rows.signals.begin = numSignals();
  // Who receives tells all others.
  if (sources.executors[id] == rank)
    addCommandSignals(id);
  rows.signals.end = numSignals();
  appendCommands(id, graph.getSrcPlace(id), transfer.getSrcOffsets(),
                 graph.getDstPlace(id), transfer.getDstOffsets(),
                 transfer.getSizes(), realization, rows);
}

void TableWriter::writeHandedOver() {
  for (unsigned id : sources.handedOver[rank]) {
    int64_t begin = numCommands();
    writeCommand(id);
    auto it = commandsOfTile
                  .try_emplace(*graph.getTransfer(id).getTile(),
                               RowRange{begin, begin})
                  .first;
    it->second.end = numCommands();
  }
}

void TableWriter::appendCommands(int64_t id, Place src,
                                 ArrayRef<int64_t> srcOffsets, Place dst,
                                 ArrayRef<int64_t> dstOffsets,
                                 ArrayRef<int64_t> sizes,
                                 Realization realization,
                                 const Protocols &rows) {
  // Stores to another rank hold up whatever else the SM asks the memory for;
  // remote loads do not, and beside a dedicated CTA nothing computes.
  bool rests =
      src.first == rank && dst.first != rank && isColocated(realization);
  Combination combination;
  std::array<int64_t, 3> count{kNoBuffer, 0, 0};
  if (id != kStaging) {
    TransferOpInterface transfer = graph.getTransfer(id);
    combination = getCombination(transfer);
    if (auto at = transfer.getCountAt())
      count = {graph.getBufferIndex(transfer.getCounts()), at->front(),
               at->back()};
  }
  RowPlan plan = planRows(cast<BufferType>(src.second.getType()), srcOffsets,
                          cast<BufferType>(dst.second.getType()), dstOffsets,
                          sizes, count.front() != kNoBuffer);
  for (auto [from, to] : plan.starts)
    commands.push_back(
        {id,
         {src.first, graph.getBufferIndex(src.second), from.offset},
         {dst.first, graph.getBufferIndex(dst.second), to.offset},
         plan.count,
         plan.rowBytes,
         from.stride,
         to.stride,
         {rows.waits.begin, rows.waits.begin},
         {rows.signals.begin, rows.signals.begin},
         static_cast<int64_t>(realization),
         combination.reduction,
         rests ? sources.pause : 0,
         combination.parts,
         combination.partStride,
         combination.behind,
         count[0],
         count[1],
         count[2],
         id == kStaging ? kNoExchange : exchanges[id]});
  // Only the first slice waits, and only the last one signals.
  if (plan.starts.empty())
    return;
  commands[commands.size() - plan.starts.size()].waits = rows.waits;
  commands.back().signals = rows.signals;
}

void TableWriter::writeStaging() {
  std::set<int64_t> readers;
  Realization role = Realization::CopyEngine;
  protocol.forEachReader(rank, [&](Queue queue) {
    if (!isDevice(queue.second))
      return;
    readers.insert(queue.first);
    role = std::max(role, queue.second);
  });
  if (readers.empty())
    return;
  SmallVector<std::pair<Place, Box>> inputs;
  for (BufferOp buffer : graph.getPlan().getBuffers()) {
    Place place{rank, buffer.getResult()};
    for (const Box &box : graph.getInputs(place))
      inputs.emplace_back(place, box);
  }
  Protocols rows;
  rows.waits.begin = numWaits();
  for (int64_t reader : readers)
    addWait(layout.done(reader), 0);
  rows.waits.end = numWaits();
  rows.signals.begin = numSignals();
  for (int64_t reader : readers)
    addSignal(reader, layout.ready(rank), StoreEpoch);
  rows.signals.end = numSignals();
  for (auto [index, input] : llvm::enumerate(inputs)) {
    Protocols part = rows;
    if (index > 0)
      part.waits.end = part.waits.begin;
    if (index + 1 < inputs.size())
      part.signals.end = part.signals.begin;
    auto &[place, box] = input;
    appendCommands(kStaging, place, box.offsets, place, box.offsets, box.sizes,
                   role, part);
  }
}

void TableWriter::addCommandWaits(unsigned id, bool engine) {
  // Who sends leaves it to who receives that there is room.
  if (sources.executors[id] == rank) {
    for (int64_t peer : protocol.getGuards(id))
      engine ? addWait(layout.doneTwin(peer), 1)
             : addWait(layout.done(peer), 0);
    for (int64_t peer : protocol.getReady(id))
      addWait(engine ? layout.readyTwin(peer) : layout.ready(peer), 1);
  }
  for (unsigned before : graph.getPredecessors(id)) {
    if (graph.getWaitingRank(id, before) != rank)
      continue;
    // A stream carries its commands out one after another, and has taken
    // down a twin that it has waited for once.
    if (engine && (isOnMyStream(before) || !twinsSeen.insert(before).second))
      continue;
    addWait(engine ? layout.dataTwin(before) : layout.data(before), 1);
  }
  // What an executor has waited for once is done for the rest of the call.
  for (unsigned group : sources.tileGroups.getGroups(id))
    if (isHeardHere(id, group) &&
        groupsSeen.insert({sources.queues[id].second, group}).second)
      addWait(engine ? layout.groupTwin(group) : layout.group(group), 1);
}

void TableWriter::addCommandSignals(unsigned id) {
  int64_t dst = graph.getDstPlace(id).first;
  std::set<std::pair<int64_t, bool>> listeners;
  if (!protocol.isUnheard(id))
    listeners.insert({dst, false});
  else if (dst != rank)
    addSignal(dst, layout.data(protocol.getCounter(id)), AddOne);
  for (int64_t peer : protocol.getUnawareGuards(id))
    listeners.insert({peer, false});
  for (unsigned next : graph.getSuccessors(id)) {
    int64_t waiting = graph.getWaitingRank(next, id);
    bool engine = isEngine(sources.queues[next].second);
    if (waiting != rank || !engine || !isOnMyStream(id))
      listeners.insert({waiting, engine});
  }
  for (auto [to, engine] : listeners)
    engine ? addSignal(to, layout.dataTwin(id), StoreOne)
           : addSignal(to, layout.data(id), StoreEpoch);
}
