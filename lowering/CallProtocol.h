//===- CallProtocol.h - what ranks wait for in a call -----------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_CALLPROTOCOL_H
#define SYNCOPATE_LOWERING_CALLPROTOCOL_H

#include "passes/PlanAnalysis.h"

#include <map>
#include <set>

namespace syncopate {

/// What one rank's transfers ask of others, found before any table is written,
/// since a rank raises what its peers wait for.
class CallProtocol {
public:
  /// `handed` are the transfers that tiles hand over, in the order in which
  /// they do so, and the CTAs of those tiles.
  CallProtocol(PlanAnalysis &analysis,
               llvm::ArrayRef<std::pair<unsigned, int64_t>> handed);

  /// Ranks whose call before must have ended before `id` starts, as far as no
  /// earlier transfer of its queue has waited for it.
  llvm::ArrayRef<int64_t> getGuards(unsigned id) { return firstGuard[id]; }
  /// Ranks whose twin an engine takes down for `id`, and whose call could end,
  /// and raise it again, before: none of their transfers comes after `id`, and
  /// it brings them nothing.
  llvm::SmallVector<int64_t> getUnawareGuards(unsigned id);
  /// Ranks whose input must be in place before `id` starts, likewise.
  llvm::ArrayRef<int64_t> getReady(unsigned id) { return firstReady[id]; }
  /// Whether nobody at the destination waits for a transfer alone that a tile
  /// hands over.
  bool isUnheard(unsigned id) const { return unheard.test(id); }
  /// The flag by which another rank, the destination, then counts it.
  unsigned getCounter(unsigned id) const { return counterOf.at(id); }
  /// The flags by which a rank counts what others bring it, and how far.
  const std::map<unsigned, int64_t> &getCounters(int64_t rank) {
    return counters[rank];
  }
  /// Calls `visit` for every queue that waits for the end of rank's call.
  void forEachGuardedBy(int64_t rank, llvm::function_ref<void(Queue)> visit) {
    llvm::for_each(guardedBy[rank], visit);
  }
  /// Calls `visit` for every queue that writes to rank's output, and so waits
  /// until the rank's stream has come to the call.
  void forEachWriter(int64_t rank, llvm::function_ref<void(Queue)> visit) {
    llvm::for_each(writersOf[rank], visit);
  }
  /// Calls `visit` for every rank to whose output the stream of rank `rank`
  /// writes, ascending.
  void forEachOutputOfStream(int64_t rank,
                             llvm::function_ref<void(int64_t)> visit) {
    auto it = needsOpen.find(Queue(rank, chunk::Realization::CopyEngine));
    if (it != needsOpen.end())
      llvm::for_each(it->second, visit);
  }
  /// Calls `visit` for every queue that reads rank's input.
  void forEachReader(int64_t rank, llvm::function_ref<void(Queue)> visit) {
    llvm::for_each(readersOf[rank], visit);
  }

private:
  /// Notes what `id` waits for and no earlier transfer of `queue` has.
  void collect(unsigned id, Queue queue);
  /// What tiles of one rank hand over is carried out in no order, so that no
  /// flag stands for several transfers, and the end of a call at the
  /// destination would wait for many. Of those that nothing else there waits
  /// for, the last one's flag counts all.
  void findCounted();
  /// The destination's kernel and all that read the destination from outside
  /// may still be at the call before, and so may a stream that has not yet
  /// taken down the twin that this transfer raised for it. What the executor
  /// itself does is ordered by its stream.
  std::set<int64_t> findGuards(unsigned id);
  /// The caller may still be using what the call before gave back, unless the
  /// transfer waits for tiles of this call there anyway.
  bool writesOutput(unsigned id);

  PlanAnalysis &analysis;
  PlanGraph &graph;
  const TileGroups &groups;
  std::map<Queue, std::set<int64_t>> guards, needsReady, needsOpen;
  /// The same by rank.
  std::map<int64_t, std::set<Queue>> guardedBy, readersOf, writersOf;
  std::map<unsigned, llvm::SmallVector<int64_t>> firstGuard, firstReady;
  llvm::BitVector unheard;
  std::map<unsigned, unsigned> counterOf;
  std::map<int64_t, std::map<unsigned, int64_t>> counters;
};

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_CALLPROTOCOL_H
