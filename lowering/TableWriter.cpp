//===- TableWriter.cpp - the tables of one rank ---------------------------===//
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

std::optional<ArrayRef<WaitRow>> syncopate::getTileWaits(ScheduleOp schedule) {
  if (!schedule.getWaits() || !schedule.getTiles())
    return std::nullopt;
  int64_t end = 0;
  for (std::optional<TableAttr> table :
       {schedule.getTiles(), schedule.getSteps()}) {
    if (!table)
      continue;
    int64_t column = table->getColumn("wait_end");
    if (column < 0)
      return std::nullopt;
    size_t columns = table->getColumns().size();
    ArrayRef<int64_t> values = table->getValues();
    for (size_t i = column; i < values.size(); i += columns)
      end = std::max(end, values[i]);
  }
  if (schedule.getWaits()->getColumns().size() != std::size(kWaitColumns) ||
      end > schedule.getWaits()->getNumRows())
    return std::nullopt;
  return getRows<WaitRow>(schedule.getWaits()->getValues()).take_front(end);
}

TableSources::TableSources(PlanAnalysis &analysis,
                           ArrayRef<std::pair<unsigned, int64_t>> handed,
                           KernelOp kernel, std::optional<TileSlots> slots,
                           int64_t pause)
    : analysis(analysis), graph(analysis.getGraph()),
      tileGroups(analysis.getGroups()), protocol(analysis, handed),
      kernel(kernel), pause(pause),
      layout(*SignalLayout::fromTable(graph.getPlan())),
      exchanges(numberExchanges(graph.getPlan())),
      collective(findLibraryCall(graph.getPlan())), slots(std::move(slots)),
      produces(!graph.getPlan().getBody().getOps<ProduceOp>().empty()) {
  MLIRContext *context = kernel.getContext();
  auto getNames = [&](ArrayRef<StringRef> columns) {
    return llvm::map_to_vector(columns, [&](StringRef name) {
      return StringAttr::get(context, name);
    });
  };
  waitNames = getNames(kWaitColumns);
  signalNames = getNames(kSignalColumns);
  commandNames = getNames(kCommandColumns);
  callNames = getNames(kCallColumns);
  groupNames = getNames(kGroupColumns);
  tileGroupNames = getNames(kTileGroupColumns);
  for (unsigned id = 0; id < graph.size(); ++id) {
    executors.push_back(graph.getTransfer(id).getExecutor());
    readers.push_back(graph.getReadingRank(id));
    queues.push_back(graph.getQueue(id));
  }
  sortByRank(handed);
}

void TableSources::sortByRank(ArrayRef<std::pair<unsigned, int64_t>> handed) {
  for (auto *lists : {&carriedOut, &arriving, &handedOver})
    lists->resize(layout.ranks);
  for (auto [id, cta] : handed)
    handedOver[executors[id]].push_back(id);
  needsTile.resize(graph.size());
  for (unsigned id = 0; id < graph.size(); ++id) {
    carriedOut[executors[id]].push_back(id);
    if (readers[id] != executors[id])
      carriedOut[readers[id]].push_back(id);
    if (graph.getTransfer(id).getTile() || !tileGroups.getGroups(id).empty() ||
        llvm::any_of(graph.getPredecessors(id),
                     [&](unsigned before) { return needsTile.test(before); }))
      needsTile.set(id);
    if (queues[id].tile != Queue::kNoTile)
      continue;
    SmallVector<int64_t> listeners = protocol.getUnawareGuards(id);
    listeners.push_back(graph.getDstPlace(id).first);
    for (int64_t rank : listeners)
      if (rank != queues[id].first)
        arriving[rank].push_back(id);
  }
}

TableWriter::TableWriter(TableSources &sources, ScheduleOp schedule,
                         ArrayRef<WaitRow> tileWaits)
    : sources(sources), graph(sources.graph), protocol(sources.protocol),
      layout(sources.layout), exchanges(sources.exchanges), schedule(schedule),
      rank(schedule.getRank()), waits(tileWaits) {}

void TableWriter::write() {
  writeStaging();
  for (unsigned id : getMine())
    if (!graph.getTransfer(id).getTile())
      writeCommand(id);
  writeLibraryCalls();
  writeHandedOver();
  writeGroups();
  writeTileGroups();
  writeCall();
  auto makeTable = [&](const TableSources::Names &names,
                       ArrayRef<int64_t> values) {
    return TableAttr::get(schedule.getContext(), names, values);
  };
  schedule.setWaitsAttr(
      makeTable(sources.waitNames, getValues<WaitRow>(waits)));
  schedule.setSignalsAttr(
      makeTable(sources.signalNames, getValues<SignalRow>(signals)));
  schedule.setCommandsAttr(
      makeTable(sources.commandNames, getValues<CommandRow>(commands)));
  schedule.setCallsAttr(makeTable(sources.callNames, getValues<CallRow>(call)));
  schedule.setGroupsAttr(
      makeTable(sources.groupNames, getValues<GroupRow>(groups)));
  schedule.setTileGroupsAttr(makeTable(sources.tileGroupNames,
                                       getValues<TileGroupRow>(tileGroupRows)));
}
