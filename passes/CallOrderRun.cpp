//===- CallOrderRun.cpp - a call of all ranks, carried out by its order ---===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/CallOrder.h"

#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

int64_t CallOrder::getNumSteps(const Strand &strand) {
  switch (strand.part) {
  case Part::Host:
  case Part::End:
    return 1;
  case Part::Queue:
    return queues[strand.number].size();
  case Part::Ring:
    return rings[strand.rank][strand.number].size();
  case Part::Cta: {
    int64_t tiles = tables[strand.rank].getTiles().size();
    return 2 * ((tiles - strand.number + ctas - 1) / ctas) + 1;
  }
  case Part::Group:
    return 0;
  }
  llvm_unreachable("unknown part");
}

RowRange CallOrder::getStepWaits(const Strand &strand) {
  const ScheduleTables &mine = tables[strand.rank];
  switch (strand.part) {
  case Part::Host:
    return mine.getCall().guard;
  case Part::End:
    return mine.getCall().closeWaits;
  case Part::Queue:
  case Part::Ring:
    return mine.getCommands()[getRow(strand)].waits;
  case Part::Cta: {
    TileStep step = getTileStep(strand);
    if (step.isStore)
      return getTileGroup(strand.rank, step.position).waits;
    return isTile(strand.rank, step) ? mine.getTiles()[step.position].waits
                                     : RowRange{0, 0};
  }
  case Part::Group:
    break;
  }
  llvm_unreachable("unknown part");
}

CallOrder::TileWaits *CallOrder::getTileWaits(const Strand &strand) {
  if (strand.part != Part::Cta || tileWaits[strand.rank].empty())
    return nullptr;
  TileStep step = getTileStep(strand);
  return step.isStore || !isTile(strand.rank, step)
             ? nullptr
             : &tileWaits[strand.rank][step.position];
}

ArrayRef<WaitRow> CallOrder::getWaits(const Strand &strand) {
  if (TileWaits *waits = getTileWaits(strand))
    return waits->rows;
  return tables[strand.rank].getWaits(getStepWaits(strand));
}

void CallOrder::noteSteps(const Strand &strand) {
  TileWaits *waits = getTileWaits(strand);
  if (!waits)
    return;
  if (strand.wait == waits->ofTile)
    tileSeen[strand.rank][getTileStep(strand).position] = strand.seen;
  for (auto [end, step] : llvm::zip(waits->ends, waits->steps))
    if (strand.wait == end)
      step.seen = strand.seen;
}

CallOrder::Seen CallOrder::getSeenAtStore(const Strand &cta, TileStep step) {
  TileStep next{step.number + 1, step.position + ctas, /*isStore=*/false};
  if (tileWaits[cta.rank].empty() || !isTile(cta.rank, next))
    return cta.seen;
  Seen seen = tileSeen[cta.rank][next.position];
  for (const WaitRow &wait : getWaits(cta))
    join(seen, *findFlag(cta.rank, wait.signal)->seen);
  return seen;
}

void CallOrder::start(unsigned number, const Seen &seen) {
  strands[number].seen = strands[number].started = seen;
  strands[number].running = true;
  ready.push_back(number);
}

void CallOrder::run() {
  for (int64_t rank = 0; rank < ranks; ++rank)
    start(getStrand(rank, Part::Host),
          std::make_shared<const Vector>(Vector{{endedComponent(rank), 1}}));
  while (!ready.empty()) {
    unsigned number = ready.front();
    ready.pop_front();
    advance(number);
  }
}

SmallVector<unsigned> CallOrder::getSharing(const Strand &cta) const {
  TileStep step = getTileStep(cta);
  std::optional<int64_t> part;
  if (step.isStore && kernel.getParts() > 1)
    part = kernel.getPartAt(step.position);
  SmallVector<unsigned> sharing;
  if (part)
    for (int64_t i = 0, e = kernel.getParts(); i < e; ++i)
      sharing.push_back(
          getStrand(cta.rank, Part::Cta, (step.position - *part + i) % ctas));
  return sharing;
}

std::optional<unsigned> CallOrder::getHolder(const Strand &strand) const {
  int64_t rank = strand.rank;
  // All parts of a tile are computed in the same round.
  if (strand.part == Part::Cta)
    for (unsigned other : getSharing(strand))
      if (!strands[other].done && strands[other].step < strand.step)
        return other;
  if (!ringQueues[rank])
    return std::nullopt;
  int64_t before = tables[rank].getCall().beforeTiles;
  switch (strand.part) {
  case Part::Queue:
    if (strand.number != *ringQueues[rank] || strand.step < before)
      return std::nullopt;
    for (int64_t cta = 0, e = getNumCtas(rank); cta < e; ++cta)
      if (unsigned ring = getStrand(rank, Part::Ring, cta); !strands[ring].done)
        return ring;
    return std::nullopt;
  case Part::Ring: {
    if (before > 0)
      if (unsigned queue = getStrand(rank, Part::Queue, *ringQueues[rank]);
          !strands[queue].done && strands[queue].step < before)
        return queue;
    unsigned cta = getStrand(rank, Part::Cta, strand.number);
    if (!isStored(strands[cta], rings[rank][strand.number][strand.step].tile))
      return cta;
    return std::nullopt;
  }
  case Part::Cta: {
    TileStep step = getTileStep(strand);
    if (!step.isStore)
      return std::nullopt;
    ArrayRef<Handed> ring = rings[rank][strand.number];
    auto first = llvm::partition_point(
        ring, [&](Handed handed) { return handed.tile < step.number; });
    unsigned number = getStrand(rank, Part::Ring, strand.number);
    if (first != ring.end() && first->tile == step.number &&
        strands[number].step < first - ring.begin())
      return number;
    return std::nullopt;
  }
  case Part::Host:
  case Part::Group:
  case Part::End:
    return std::nullopt;
  }
  llvm_unreachable("unknown part");
}

void CallOrder::advance(unsigned number) {
  Strand &strand = strands[number];
  int64_t first = strand.step;
  // What this strand does may be all that others of its rank were held by.
  llvm::scope_exit wake([&]() {
    bool holds = ringQueues[strand.rank] || kernel.getParts() > 1;
    if (!holds || (strand.step == first && !strand.done))
      return;
    for (unsigned other = getStrand(strand.rank, Part::Host) + 1,
                  end = getStrand(strand.rank, Part::End);
         other < end; ++other)
      if (strands[other].held) {
        strands[other].held = false;
        ready.push_back(other);
      }
  });
  for (int64_t steps = getNumSteps(strand); strand.step < steps;
       ++strand.step, strand.wait = 0) {
    if (strand.wait == 0 && getHolder(strand)) {
      strand.held = true;
      return;
    }
    ArrayRef<WaitRow> waits = getWaits(strand);
    for (int64_t count = waits.size(); strand.wait < count; ++strand.wait) {
      noteSteps(strand);
      if (!isOver(strand, waits[strand.wait])) {
        findFlag(strand.rank, waits[strand.wait].signal)
            ->waiting.push_back(number);
        return;
      }
    }
    noteSteps(strand);
    if (Sent *needed = findUnsent(strand)) {
      needed->waiting.push_back(number);
      return;
    }
    perform(strand);
  }
  strand.done = true;
  finish(strand);
}

bool CallOrder::isOver(Strand &strand, WaitRow wait) {
  Flag &flag = *findFlag(strand.rank, wait.signal);
  const Raiser &raiser = flag.raisers[0];
  // A guard, and the twin of one, speak of the call before.
  if (wait.count == 0 || layout.isDoneTwin(wait.signal)) {
    set(strand.seen, endedComponent(strands[raiser.strand].rank), 1);
    return true;
  }
  if (flag.raised < flag.raisers.size())
    return false;
  join(strand.seen, *flag.seen);
  return true;
}

void CallOrder::perform(Strand &strand) {
  const ScheduleTables &mine = tables[strand.rank];
  switch (strand.part) {
  case Part::Host:
    hostSeen[strand.rank] = strand.seen;
    break;
  case Part::End:
    endSeen[strand.rank] = strand.seen;
    for (const SignalRow &signal : mine.getSignals(mine.getCall().closeSignals))
      raise(signal.rank, signal.signal, *strand.seen);
    break;
  case Part::Queue:
    performCommand(strand, {static_cast<QueueId>(strand.number),
                            static_cast<unsigned>(strand.step)});
    break;
  case Part::Ring: {
    auto [row, tile] = rings[strand.rank][strand.number][strand.step];
    join(strand.seen, *storeSeen[strand.rank][strand.number + tile * ctas]);
    set(strand.seen, tileComponent(strand.rank, strand.number), tile + 1);
    // The role has waited for what stands before the tiles in its queue.
    if (int64_t before = mine.getCall().beforeTiles)
      join(strand.seen, *queues[*ringQueues[strand.rank]][before - 1].seen);
    performCommand(strand, positions[strand.rank][row]);
    break;
  }
  case Part::Cta:
    if (TileStep step = getTileStep(strand); step.isStore) {
      for (unsigned other : getSharing(strand))
        join(strand.seen, *strands[other].seen);
      const Seen &seen = storeSeen[strand.rank][step.position] =
          getSeenAtStore(strand, step);
      finishTile(strand, step, seen);
    } else if (isTile(strand.rank, step)) {
      if (!getTileWaits(strand))
        tileSeen[strand.rank][step.position] = strand.seen;
      // It has waited for what it reads, which may be nothing.
      if (counted)
        strand.seen = strand.started;
    }
    break;
  case Part::Group:
    break;
  }
}

void CallOrder::performCommand(Strand &strand, Position position) {
  const ScheduleTables &mine = tables[strand.rank];
  Command &command = queues[position.queue][position.index];
  if (Sent *exchanged = findSent(strand.rank, command.row)) {
    if (exchanged->rank == strand.rank) {
      exchanged->done = true;
      exchanged->seen = strand.seen;
      llvm::append_range(ready, exchanged->waiting);
      exchanged->waiting.clear();
    } else {
      join(strand.seen, *exchanged->seen);
    }
  }
  command.seen = strand.seen;
  const CommandRow &row = mine.getCommands()[command.row];
  if (row.signals.begin == row.signals.end)
    return;
  Seen after = strand.seen;
  set(after, position.queue, position.index + 1);
  for (const SignalRow &signal : mine.getSignals(row.signals))
    raise(signal.rank, signal.signal, *after);
}

void CallOrder::finishTile(const Strand &cta, TileStep step, const Seen &seen) {
  int64_t number = getTileGroup(cta.rank, step.position).group;
  if (number == kNoGroup)
    return;
  Group &group = groups[cta.rank][number];
  join(group.collected, *seen);
  join(group.collected, Vector{{tileComponent(cta.rank, cta.number),
                                static_cast<unsigned>(step.number + 1)}});
  if (std::optional<int64_t> part = kernel.getPartAt(step.position))
    if (++storedParts[{cta.rank, step.position - *part}] <
        static_cast<int64_t>(kernel.getParts()))
      return;
  if (--group.left > 0)
    return;
  group.seen = std::make_shared<const Vector>(std::move(group.collected));
  strands[getStrand(cta.rank, Part::Group, number)].done = true;
  const ScheduleTables &mine = tables[cta.rank];
  for (const SignalRow &signal :
       mine.getSignals(mine.getGroups()[number].signals))
    raise(signal.rank, signal.signal, *group.seen);
}

void CallOrder::finish(Strand &strand) {
  int64_t rank = strand.rank;
  Seen seen = strand.seen;
  switch (strand.part) {
  case Part::Host: {
    const ScheduleTables &mine = tables[rank];
    // The host waits only if it has something to put in place, which is certain
    // only if it has to tell a stream of it.
    if (mine.getCall().open.begin == mine.getCall().open.end)
      seen = std::make_shared<const Vector>(Vector{{endedComponent(rank), 1}});
    set(seen, stagedComponent(rank), 1);
    for (const SignalRow &signal : mine.getSignals(mine.getCall().open))
      raise(signal.rank, signal.signal, *seen);
    for (unsigned number = getStrand(rank, Part::Host) + 1;
         number < strands.size() && strands[number].rank == rank; ++number)
      if (strands[number].part != Part::End &&
          strands[number].part != Part::Group)
        start(number, seen);
    break;
  }
  case Part::Queue:
    set(seen, strand.number, queues[strand.number].size());
    if (!isStream(strand)) {
      finishPart(rank, seen);
      break;
    }
    set(seen, throughComponent(rank), 1);
    raise(rank, layout.engineDone(), *seen);
    break;
  case Part::Cta:
    set(seen, tileComponent(rank, strand.number), strand.step / 2);
    finishPart(rank, seen);
    break;
  case Part::Ring:
    for (const Handed &handed : rings[rank][strand.number]) {
      auto [queue, index] = positions[rank][handed.row];
      set(seen, queue, index + 1);
    }
    finishPart(rank, seen);
    break;
  case Part::Group:
  case Part::End:
    break;
  }
}

void CallOrder::finishPart(int64_t rank, const Seen &seen) {
  join(partsSeen[rank], *seen);
  if (--partsLeft[rank] == 0)
    start(getStrand(rank, Part::End), partsSeen[rank]);
}

void CallOrder::raise(int64_t rank, int64_t signal, const Vector &seen) {
  Flag &flag = *findFlag(rank, signal);
  ++flag.raised;
  join(flag.seen, seen);
  llvm::append_range(ready, flag.waiting);
  flag.waiting.clear();
}
