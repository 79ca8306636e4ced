//===- LibraryCallWriter.cpp - the commands of library calls --------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/TableWriter.h"
#include "passes/LibraryCalls.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

void TableWriter::writeLibraryCalls() {
  CollectiveOpInterface collective = sources.collective;
  if (!collective)
    return;
  const TileSlots &slots = *sources.slots;
  LibraryCall kind = getLibraryCall(collective);
  auto rows = getRows<SlotRow>(schedule.getSlots()->getValues());
  std::vector<TileSlots::Slots> ofRanks(graph.getPlan().getNumRanks());
  for (ScheduleOp other : graph.getPlan().getBody().getOps<ScheduleOp>())
    ofRanks[other.getRank()] = {
        getRows<SlotRow>(other.getSlots()->getValues()),
        getRows<SlotPartRow>(other.getSlotParts()->getValues())};
  int64_t reduction = kNoReduction, bytes = slots.getSlotBytes();
  if (auto op = dyn_cast<AllReduceOp>(*collective))
    reduction = 1 + static_cast<int64_t>(op.getReduction());
  if (auto op = dyn_cast<ReduceScatterOp>(*collective))
    reduction = 1 + static_cast<int64_t>(op.getReduction());
  int64_t before = 0;
  std::vector<TileSlots::Call> calls = slots.getCalls(rows);
  for (auto [number, call] : llvm::enumerate(calls)) {
    int64_t begin = numWaits(), part = call.slots * bytes;
    addWait(layout.groupTwin(sources.tileGroups.getGroupOfCall(rank, number)),
            1);
    auto [to, stride] = slots.getTarget(call, before, rank);
    before += call.slots;
    int64_t count = kind == CallAllToAll ? slots.getNumParts() : 1;
    int64_t parts = kind == CallReduceScatter ? slots.getNumParts() : 1;
    commands.push_back(
        {kind,
         {rank, graph.getBufferIndex(collective.getSrc()), call.begin * bytes},
         {rank, graph.getBufferIndex(collective.getDst()), to},
         count,
         part,
         part,
         stride,
         {begin, numWaits()},
         {numSignals(), numSignals()},
         static_cast<int64_t>(Realization::Nccl),
         reduction,
         0,
         parts,
         parts > 1 ? part : 0,
         0,
         kNoBuffer,
         0,
         0,
         kNoExchange});
  }
  schedule.setOutputsAttr(TableAttr::get(
      schedule.getContext(), kOutputColumns,
      getValues<OutputRow>(slots.getOutputs(ofRanks, calls, rank))));
  // All ranks have as many slots.
  SmallVector<SlotBufferRow> buffers;
  for (auto [buffer, row] : slots.getBuffers(calls)) {
    buffers.push_back(row);
    buffers.back().buffer = graph.getBufferIndex(buffer);
  }
  graph.getPlan().setSlotsAttr(
      TableAttr::get(schedule.getContext(), kSlotBufferColumns,
                     getValues<SlotBufferRow>(buffers)));
}
