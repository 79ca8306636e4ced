//===- TableChecker.cpp - the tables keep what the plan promises ----------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TableChecker.h"
#include "passes/CheckCalls.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

LogicalResult TableChecker::check() {
  if (!order.isValid())
    return failure();
  for (const ScheduleTables &mine : tables)
    if (failed(checkNeeds(mine)))
      return failure();
  findRows();
  for (unsigned id = 0; id < graph.size(); ++id)
    if (failed(checkTokens(id)) || failed(checkInput(id)))
      return failure();
  if (failed(checkWrittenTiles()))
    return failure();
  for (const ScheduleTables &mine : tables)
    if (failed(checkTiles(mine)))
      return failure();
  for (unsigned id = 0; id < graph.size(); ++id)
    if (failed(checkReuse(id)))
      return failure();
  if (failed(checkLibraryCalls(graph, kernel, tables, order)))
    return failure();
  for (const ScheduleTables &mine : tables)
    if (failed(checkStaging(mine.getRank())) ||
        failed(checkEnd(mine.getRank())))
      return failure();
  return checkTwins();
}

void TableChecker::findRows() {
  first.resize(graph.size());
  last.resize(graph.size());
  for (const ScheduleTables &mine : tables) {
    int64_t rank = mine.getRank();
    staging.emplace_back();
    int64_t before = kStaging;
    for (auto [row, command] : llvm::enumerate(mine.getCommands())) {
      Position position = order.getPosition(rank, row);
      if (command.transfer == kStaging) {
        staging.back().push_back(position);
        continue;
      }
      if (isLibraryCall(command.transfer))
        continue;
      if (CallOrder::isSend(rank, command)) {
        sending.try_emplace(command.transfer, Sending{position, position})
            .first->second.last = position;
        continue;
      }
      if (command.transfer != before)
        first[command.transfer] = position;
      last[command.transfer] = position;
      before = command.transfer;
    }
  }
  arriving.resize(tables.size());
  for (unsigned id = 0; id < graph.size(); ++id) {
    int64_t rank = graph.getDstPlace(id).first;
    if (rank == graph.getTransfer(id).getExecutor())
      continue;
    auto [it, isNew] = arriving[rank].try_emplace(last[id].queue, id);
    if (!isNew && last[it->second].index < last[id].index)
      it->second = id;
  }
}

TableChecker::Position TableChecker::getFirstRead(unsigned id) {
  auto it = sending.find(id);
  return it == sending.end() ? first[id] : it->second.first;
}

TableChecker::Position TableChecker::getLastRead(unsigned id) {
  auto it = sending.find(id);
  return it == sending.end() ? last[id] : it->second.last;
}

InFlightDiagnostic TableChecker::report(unsigned id) {
  return graph.getTransfer(id).emitOpError()
         << "is carried out by rank " << graph.getTransfer(id).getExecutor()
         << " ";
}

ArrayRef<TableChecker::Position> TableChecker::getStagingCopies(int64_t rank) {
  RowRange opening = tables[rank].getCall().open;
  return opening.begin < opening.end ? ArrayRef<Position>() : staging[rank];
}

TableChecker::Reuse &TableChecker::getReuse(Place place) {
  auto [it, isNew] =
      reuses.try_emplace({place.first, graph.getBufferIndex(place.second)});
  if (!isNew)
    return it->second;
  it->second.readers = keepLast(graph.getReaders(place),
                                [&](unsigned id) { return getLastRead(id); });
  it->second.writers =
      keepLast(graph.getWriters(place), [&](unsigned id) { return last[id]; });
  return it->second;
}

BoxIndex TableChecker::keepLast(BoxIndex &index,
                                function_ref<Position(unsigned)> getEnd) {
  std::map<std::tuple<SmallVector<int64_t, 4>, SmallVector<int64_t, 4>,
                      CallOrder::QueueId>,
           unsigned>
      latest;
  index.forEach([&](const Box &box, unsigned id) {
    Position end = getEnd(id);
    auto [it, isNew] =
        latest.try_emplace({box.offsets, box.sizes, end.queue}, id);
    if (!isNew && getEnd(it->second).index < end.index)
      it->second = id;
  });
  BoxIndex result;
  for (auto &[key, id] : latest)
    result.add(Box(std::get<0>(key), std::get<1>(key)), id);
  return result;
}

LogicalResult TableChecker::checkTokens(unsigned id) {
  for (unsigned before : graph.getPredecessors(id)) {
    // What is sent has to be there; what is overwritten, where it arrives.
    Position start =
        graph.getWaitingRank(id, before) == graph.getReadingRank(id)
            ? getFirstRead(id)
            : first[id];
    if (order.isComplete(last[before], start))
      continue;
    InFlightDiagnostic diag =
        report(id) << "without a wait for a transfer that it comes after";
    diag.attachNote(graph.getTransfer(before).getLoc()) << "the other transfer";
    return diag;
  }
  return success();
}

LogicalResult TableChecker::checkInput(unsigned id) {
  Place place = graph.getSrcPlace(id);
  if (place.first == graph.getReadingRank(id) || !graph.readsInput(id))
    return success();
  ArrayRef<Position> copies = getStagingCopies(place.first);
  if (!order.isStaged(place.first, atStart(id)) ||
      (!copies.empty() && !order.isComplete(copies.back(), first[id])))
    return report(id) << "without a wait for the input of rank " << place.first
                      << " to be in place";
  return success();
}
