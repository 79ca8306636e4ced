//===- CallProtocol.cpp - what ranks wait for in a call -------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/CallProtocol.h"
#include "passes/Realizations.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

CallProtocol::CallProtocol(PlanAnalysis &analysis,
                           ArrayRef<std::pair<unsigned, int64_t>> handed)
    : analysis(analysis), graph(analysis.getGraph()),
      groups(analysis.getGroups()) {
  for (unsigned id = 0; id < graph.size(); ++id)
    if (!graph.getTransfer(id).getTile())
      collect(id, graph.getQueue(id));
  // Each CTA carries out alone what its tiles hand over.
  for (auto [id, cta] : handed) {
    Queue queue = graph.getQueue(id);
    collect(id, Queue(queue.first, queue.second, cta));
  }
  findCounted();
}

SmallVector<int64_t> CallProtocol::getUnawareGuards(unsigned id) {
  SmallVector<int64_t> ranks;
  if (!isEngine(graph.getQueue(id).second))
    return ranks;
  for (int64_t rank : firstGuard[id])
    if (rank != graph.getDstPlace(id).first &&
        llvm::none_of(graph.getSuccessors(id), [&](unsigned next) {
          return graph.getWaitingRank(next, id) == rank;
        }))
      ranks.push_back(rank);
  return ranks;
}

void CallProtocol::collect(unsigned id, Queue queue) {
  for (int64_t rank : findGuards(id))
    if (guards[queue].insert(rank).second) {
      guardedBy[rank].insert(queue);
      firstGuard[id].push_back(rank);
    }
  int64_t holder = graph.getSrcPlace(id).first;
  if (holder != graph.getReadingRank(id) && graph.readsInput(id) &&
      needsReady[queue].insert(holder).second) {
    readersOf[holder].insert(queue);
    firstReady[id].push_back(holder);
  }
  int64_t owner = graph.getDstPlace(id).first;
  if (owner != queue.first && writesOutput(id) &&
      needsOpen[queue].insert(owner).second) {
    writersOf[owner].insert(queue);
    if (!needsReady[queue].count(owner))
      firstReady[id].push_back(owner);
  }
}

void CallProtocol::findCounted() {
  PlanOp plan = graph.getPlan();
  auto kernels = plan.getBody().getOps<KernelOp>();
  llvm::BitVector awaited(graph.size());
  if (!kernels.empty())
    for (int64_t rank = 0; rank < plan.getNumRanks(); ++rank) {
      for (ArrayRef<unsigned> set :
           analysis.getDependence(*kernels.begin(), rank).getSets())
        for (unsigned id : set)
          awaited.set(id);
    }
  std::map<std::pair<int64_t, int64_t>, SmallVector<unsigned>> counted;
  unheard.resize(graph.size());
  for (unsigned id = 0; id < graph.size(); ++id) {
    int64_t from = graph.getQueue(id).first;
    int64_t to = graph.getDstPlace(id).first;
    if (!graph.getTransfer(id).getTile() || awaited.test(id) ||
        llvm::any_of(graph.getSuccessors(id), [&](unsigned next) {
          return graph.getWaitingRank(next, id) == to;
        }))
      continue;
    unheard.set(id);
    if (from != to)
      counted[{from, to}].push_back(id);
  }
  for (auto &[ends, ids] : counted) {
    counters[ends.second][ids.back()] = ids.size();
    for (unsigned id : ids)
      counterOf[id] = ids.back();
  }
}

std::set<int64_t> CallProtocol::findGuards(unsigned id) {
  Place place = graph.getDstPlace(id);
  std::set<int64_t> ranks{place.first};
  graph.getReadingRanks(place).forEachOverlap(
      graph.getDstBox(id), [&](unsigned reader) { ranks.insert(reader); });
  for (unsigned next : graph.getSuccessors(id))
    if (isEngine(graph.getQueue(next).second))
      ranks.insert(graph.getWaitingRank(next, id));
  ranks.erase(graph.getQueue(id).first);
  return ranks;
}

bool CallProtocol::writesOutput(unsigned id) {
  Place place = graph.getDstPlace(id);
  return graph.getOutputIndex(place).overlaps(graph.getDstBox(id)) &&
         llvm::none_of(groups.getGroups(id), [&](unsigned group) {
           return groups[group].rank == place.first;
         });
}
