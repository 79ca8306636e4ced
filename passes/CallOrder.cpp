//===- CallOrder.cpp - what comes before what, by the tables --------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/CallOrder.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

unsigned CallOrder::lookUp(const Seen &seen, unsigned component) {
  auto it = llvm::partition_point(
      *seen, [&](auto entry) { return entry.first < component; });
  return it != seen->end() && it->first == component ? it->second : 0;
}

void CallOrder::join(Seen &seen, const Vector &other) {
  // Most waits teach nothing new, and then the vector stays shared.
  bool covered = llvm::all_of(other, [&](auto entry) {
    return lookUp(seen, entry.first) >= entry.second;
  });
  if (covered)
    return;
  auto joined = std::make_shared<Vector>();
  auto a = seen->begin(), b = other.begin();
  while (a != seen->end() || b != other.end()) {
    if (b == other.end() || (a != seen->end() && a->first < b->first))
      joined->push_back(*a++);
    else if (a == seen->end() || b->first < a->first)
      joined->push_back(*b++);
    else {
      joined->emplace_back(a->first, std::max(a->second, b->second));
      ++a, ++b;
    }
  }
  seen = std::move(joined);
}

void CallOrder::join(Vector &seen, const Vector &other) {
  auto at = seen.begin();
  for (auto entry : other) {
    at = std::lower_bound(at, seen.end(), std::pair(entry.first, 0u));
    if (at == seen.end() || at->first != entry.first)
      at = seen.insert(at, entry);
    else
      at->second = std::max(at->second, entry.second);
  }
}

bool CallOrder::wasComplete(Position command, const Seen &seen) const {
  auto knew = [&](int64_t rank) {
    return lookUp(endSeen[rank], command.queue) > command.index;
  };
  // Whoever carries a command out mostly knows best.
  int64_t owner = queueRanks[command.queue];
  if (hasEnded(owner, seen) && knew(owner))
    return true;
  auto ended = llvm::partition_point(
      *seen, [&](auto entry) { return entry.first < endedComponent(0); });
  for (; ended != seen->end() && ended->first < endedComponent(ranks); ++ended)
    if (knew(ended->first - endedComponent(0)))
      return true;
  return false;
}

//===----------------------------------------------------------------------===//
// Strands and flags
//===----------------------------------------------------------------------===//

CallOrder::CallOrder(PlanOp plan, ArrayRef<ScheduleTables> tables, int64_t ctas)
    : plan(plan), kernel(*plan.getBody().getOps<KernelOp>().begin()),
      tables(tables), ranks(plan.getNumRanks()), ctas(ctas),
      counted(kernel.getNeeds() != nullptr),
      layout(*SignalLayout::fromTable(plan)), queues(ranks * kNumRealizations),
      positions(ranks), rings(ranks), ringQueues(ranks), ringSteps(ranks),
      tileSeen(ranks), storeSeen(ranks), tileWaits(ranks), hostSeen(ranks),
      endSeen(ranks), groups(ranks), tileNumbers(ranks), partsLeft(ranks, 0),
      partsSeen(ranks) {
  for (auto transfer : plan.getBody().getOps<TransferOpInterface>())
    transferLocations.push_back(transfer.getLoc());
  auto none = std::make_shared<const Vector>();
  for (int64_t rank = 0; rank < ranks; ++rank)
    queueRanks.insert(queueRanks.end(), kNumRealizations, rank);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    endSeen[rank] = partsSeen[rank] = none;
    tileSeen[rank].resize(tables[rank].getTiles().size(), none);
    storeSeen[rank].resize(tables[rank].getTiles().size(), none);
    firstStrand.push_back(strands.size());
    auto numbers = readTileOrder(kernel, tables[rank].getSchedule());
    if (failed(numbers))
      return;
    tileNumbers[rank].assign(numbers->begin(), numbers->end());
    addQueues(rank);
    addTileWaits(rank);
    int64_t numCtas = getNumCtas(rank);
    strands.push_back({rank, Part::Host, 0, 0, 0, none});
    partsLeft[rank] = numCtas;
    for (int64_t i = 0; i < kNumRealizations; ++i) {
      QueueId queue = rank * kNumRealizations + i;
      if (queues[queue].empty())
        continue;
      strands.push_back({rank, Part::Queue, queue, 0, 0, none});
      if (!isStream(strands.back()))
        ++partsLeft[rank];
    }
    firstCta.push_back(strands.size());
    for (int64_t cta = 0; cta < numCtas; ++cta)
      strands.push_back({rank, Part::Cta, cta, 0, 0, none});
    for (auto [number, group] : llvm::enumerate(tables[rank].getGroups())) {
      strands.push_back(
          {rank, Part::Group, static_cast<int64_t>(number), 0, 0, none});
      groups[rank].push_back({group.count, {}, none});
    }
    if (ringQueues[rank]) {
      for (int64_t cta = 0; cta < numCtas; ++cta)
        strands.push_back({rank, Part::Ring, cta, 0, 0, none});
      partsLeft[rank] += numCtas;
    }
    strands.push_back({rank, Part::End, 0, 0, 0, none});
  }
  if (failed(collectSent()))
    return;
  for (int64_t rank = 0; rank < ranks; ++rank)
    if (failed(collectRaisers(rank)))
      return;
  for (int64_t rank = 0; rank < ranks; ++rank)
    if (failed(checkWaits(rank)))
      return;
  run();
  valid = succeeded(reportStuck()) && succeeded(collectTwins());
}

void CallOrder::addQueues(int64_t rank) {
  ArrayRef<CommandRow> commands = tables[rank].getCommands();
  auto none = std::make_shared<const Vector>();
  std::vector<std::optional<QueueId>> tileQueues(commands.size());
  rings[rank].resize(ctas);
  for (auto [position, tile] : llvm::enumerate(tileNumbers[rank])) {
    RowRange range = getTileGroup(rank, position).commands;
    for (int64_t row = range.begin; row < range.end; ++row) {
      auto &ring = rings[rank][position % ctas];
      ringSteps[rank][row] = {static_cast<int64_t>(position) % ctas,
                              static_cast<int64_t>(ring.size())};
      ring.push_back({row, static_cast<int64_t>(position) / ctas});
      tileQueues[row] = queues.size();
      ringQueues[rank] =
          getQueue(rank, static_cast<Realization>(commands[row].realization));
    }
    if (range.begin < range.end) {
      queues.emplace_back();
      queueRanks.push_back(rank);
    }
  }
  for (auto [row, command] : llvm::enumerate(commands)) {
    QueueId queue = tileQueues[row].value_or(
        getQueue(rank, static_cast<Realization>(command.realization)));
    positions[rank].push_back({queue, unsigned(queues[queue].size())});
    queues[queue].push_back({static_cast<int64_t>(row), none});
  }
}

void CallOrder::addTileWaits(int64_t rank) {
  if (!kernel.getSteps(rank))
    return;
  const ScheduleTables &mine = tables[rank];
  auto none = std::make_shared<const Vector>();
  for (auto [position, tile] : llvm::enumerate(mine.getTiles())) {
    TileWaits &waits = tileWaits[rank].emplace_back();
    llvm::append_range(waits.rows, mine.getWaits(tile.waits));
    waits.ofTile = waits.rows.size();
    for (auto [number, step] : llvm::enumerate(mine.getSteps(position))) {
      ArrayRef<WaitRow> rows = mine.getWaits(step.waits);
      if (rows.empty())
        continue;
      llvm::append_range(waits.rows, rows);
      waits.ends.push_back(waits.rows.size());
      waits.steps.push_back({static_cast<int64_t>(number), none});
    }
  }
}

unsigned CallOrder::getStrand(int64_t rank, Part part, int64_t number) const {
  unsigned first = firstStrand[rank];
  switch (part) {
  case Part::Host:
    return first;
  case Part::Queue:
    while (strands[++first].number != number)
      ;
    return first;
  case Part::Cta:
    return firstCta[rank] + number;
  case Part::Group:
    return firstCta[rank] + getNumCtas(rank) + number;
  case Part::Ring:
    return firstCta[rank] + getNumCtas(rank) + groups[rank].size() + number;
  case Part::End:
    return (rank + 1 < ranks ? firstStrand[rank + 1] : strands.size()) - 1;
  }
  llvm_unreachable("unknown part");
}

CallOrder::TileStep CallOrder::getTileStep(const Strand &cta) const {
  bool isStore = cta.step > 0 && cta.step % 2 == 0;
  int64_t number = isStore ? cta.step / 2 - 1 : (cta.step + 1) / 2;
  return {number, cta.number + number * ctas, isStore};
}

TileGroupRow CallOrder::getTileGroup(int64_t rank, int64_t position) const {
  ArrayRef<TileGroupRow> rows = tables[rank].getTileGroups();
  return rows.empty() ? TileGroupRow{kNoGroup, 0, {0, 0}, {0, 0}}
                      : rows[tileNumbers[rank][position]];
}

CallOrder::Flag *CallOrder::findFlag(int64_t rank, int64_t signal) {
  auto it = flagNumbers.find({rank, signal});
  return it == flagNumbers.end() ? nullptr : &flags[it->second];
}

LogicalResult CallOrder::addRaiser(unsigned strand, int64_t row,
                                   SignalRow signal) {
  Raiser raiser{strand, row, static_cast<SignalKind>(signal.kind)};
  auto report = [&]() {
    InFlightDiagnostic diag = emitError(locate(strands[strand].rank, row));
    diag << describe(raiser) << " raises ";
    return diag;
  };
  if (signal.rank < 0 || signal.rank >= ranks)
    return report() << "a flag of rank " << signal.rank
                    << ", but expects a rank in [0, " << ranks << ")";
  if (signal.signal < 0 || signal.signal >= layout.total())
    return report() << "flag " << signal.signal
                    << ", but expects a flag in [0, " << layout.total() << ")";
  if (signal.kind < StoreEpoch || signal.kind > AddOne ||
      (signal.kind == StoreOne) != layout.isTwin(signal.signal))
    return report() << describe(signal.rank, signal.signal) << " by kind "
                    << signal.kind << ", but expects "
                    << (layout.isTwin(signal.signal)
                            ? "kind 1, which stores one, for a twin"
                            : "kind 0, which stores the epoch, or 2, which "
                              "adds one, for a flag");
  bool isEnd = strands[strand].part == Part::End;
  if (signal.kind == StoreOne && isEnd != layout.isDoneTwin(signal.signal))
    return report()
           << describe(signal.rank, signal.signal)
           << ", but the ends of calls raise the twins of their flags, "
              "and nobody else does: only those start raised";
  if (signal.kind == AddOne && isStream(strands[strand]))
    return report() << describe(signal.rank, signal.signal)
                    << " by kind 2, but a copy engine cannot add";
  auto [it, isNew] =
      flagNumbers.try_emplace({signal.rank, signal.signal}, flags.size());
  if (isNew)
    flags.push_back({signal.rank,
                     signal.signal,
                     {},
                     0,
                     std::make_shared<const Vector>(),
                     {},
                     {}});
  Flag &flag = flags[it->second];
  if (!isNew && (signal.kind != AddOne || flag.raisers[0].kind != AddOne)) {
    const Raiser &other = flag.raisers[0];
    InFlightDiagnostic diag = report() << describe(signal.rank, signal.signal)
                                       << ", which is raised already";
    diag.attachNote(locate(strands[other.strand].rank, other.row))
        << describe(other) << " raises it too";
    return diag;
  }
  // A rank may be a call ahead of another, and would count in its stead.
  if (!isNew && strands[flag.raisers[0].strand].rank != strands[strand].rank) {
    const Raiser &other = flag.raisers[0];
    InFlightDiagnostic diag = report() << describe(signal.rank, signal.signal)
                                       << ", which another rank adds to";
    diag.attachNote(locate(strands[other.strand].rank, other.row))
        << describe(other) << " adds to it too";
    return diag;
  }
  flag.raisers.push_back(raiser);
  return success();
}

LogicalResult CallOrder::collectRaisers(int64_t rank) {
  const ScheduleTables &mine = tables[rank];
  const CallRow &call = mine.getCall();
  for (const SignalRow &signal : mine.getSignals(call.open))
    if (failed(addRaiser(getStrand(rank, Part::Host), -1, signal)))
      return failure();
  for (auto [row, command] : llvm::enumerate(mine.getCommands())) {
    auto handed = ringSteps[rank].find(row);
    unsigned strand =
        handed == ringSteps[rank].end()
            ? getStrand(rank, Part::Queue, positions[rank][row].queue)
            : getStrand(rank, Part::Ring, handed->second.first);
    for (const SignalRow &signal : mine.getSignals(command.signals))
      if (failed(addRaiser(strand, row, signal)))
        return failure();
  }
  for (auto [number, group] : llvm::enumerate(mine.getGroups()))
    for (const SignalRow &signal : mine.getSignals(group.signals))
      if (failed(addRaiser(getStrand(rank, Part::Group, number), -1, signal)))
        return failure();
  // The stream says by itself that it has come to its end.
  QueueId engine = getQueue(rank, Realization::CopyEngine);
  if (!queues[engine].empty())
    if (failed(addRaiser(getStrand(rank, Part::Queue, engine), -1,
                         {rank, layout.engineDone(), StoreEpoch})))
      return failure();
  for (const SignalRow &signal : mine.getSignals(call.closeSignals))
    if (failed(addRaiser(getStrand(rank, Part::End), -1, signal)))
      return failure();
  return success();
}

LogicalResult CallOrder::collectSent() {
  std::map<std::pair<int64_t, int64_t>, std::pair<int64_t, int64_t>> received;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::map<int64_t, int64_t> count;
    int64_t last = -1;
    for (auto [row, command] : llvm::enumerate(tables[rank].getCommands())) {
      if (command.exchange < 0)
        continue;
      if (command.exchange < last)
        return emitError(locate(rank, row))
               << "command " << row << " of rank " << rank << " is of exchange "
               << command.exchange << ", behind one of exchange " << last;
      last = command.exchange;
      std::pair key(command.transfer, count[command.transfer]++);
      sentKeys[{rank, row}] = key;
      if (!isSend(rank, command)) {
        received[key] = {rank, row};
        continue;
      }
      Sent &mine = sent[key];
      mine.rank = rank;
      mine.row = row;
    }
  }
  for (auto [key, where] : received)
    if (!sent.count(key))
      return emitError(locate(where.first, where.second))
             << "command " << where.second << " of rank " << where.first
             << " receives what no rank sends";
  for (auto &[key, mine] : sent)
    if (!received.count(key))
      return emitError(locate(mine.rank, mine.row))
             << "command " << mine.row << " of rank " << mine.rank
             << " sends what no rank receives";
  return success();
}

CallOrder::Sent *CallOrder::findSent(int64_t rank, int64_t row) {
  auto it = sentKeys.find({rank, row});
  return it == sentKeys.end() ? nullptr : &sent.at(it->second);
}

CallOrder::Sent *CallOrder::findUnsent(const Strand &strand) {
  if (strand.part != Part::Queue || strand.step >= getNumSteps(strand))
    return nullptr;
  Sent *found = findSent(strand.rank, getRow(strand));
  return found && found->rank != strand.rank && !found->done ? found : nullptr;
}

LogicalResult CallOrder::checkWaits(int64_t rank) {
  for (unsigned number = firstStrand[rank];
       number < strands.size() && strands[number].rank == rank; ++number) {
    Strand strand = strands[number];
    for (int64_t steps = getNumSteps(strand); strand.step < steps;
         ++strand.step)
      for (const WaitRow &wait : getWaits(strand))
        if (failed(checkWait(strand, wait)))
          return failure();
  }
  return success();
}

int64_t CallOrder::getRow(const Strand &strand) {
  if (strand.part == Part::Ring)
    return rings[strand.rank][strand.number][strand.step].row;
  return strand.part == Part::Queue ? queues[strand.number][strand.step].row
                                    : -1;
}

LogicalResult CallOrder::checkWait(const Strand &strand, WaitRow wait) {
  bool engine = isStream(strand);
  auto report = [&]() {
    InFlightDiagnostic diag = emitError(locate(strand.rank, getRow(strand)));
    diag << describe(strand) << " waits for ";
    return diag;
  };
  if (wait.signal < 0 || wait.signal >= layout.total())
    return report() << "flag " << wait.signal << ", but expects a flag in [0, "
                    << layout.total() << ")";
  std::string what = describe(strand.rank, wait.signal);
  if (engine != layout.isTwin(wait.signal))
    return report() << what << ", but "
                    << (engine ? "a stream waits for twins only"
                               : "only a stream waits for twins");
  Flag *flag = findFlag(strand.rank, wait.signal);
  if (!flag) {
    InFlightDiagnostic diag = report() << what << ", which nobody raises";
    SignalLayout::Meaning meaning = layout.decode(wait.signal);
    if (meaning.kind == SignalLayout::Kind::Data)
      diag.attachNote(transferLocations[meaning.index])
          << "the transfer that should";
    return diag;
  }
  auto count = static_cast<int64_t>(flag->raisers.size());
  if (wait.count != count && (wait.count != 0 || engine))
    return report() << what << " to count to " << wait.count
                    << ", but in a call it counts to " << count;
  if (wait.count == 0 &&
      (count > 1 || strands[flag->raisers[0].strand].part != Part::End))
    return report() << "what the call before did to " << what
                    << ", but only what the end of a call raises says that";
  if (!engine)
    return success();
  if (flag->taken) {
    InFlightDiagnostic diag = report()
                              << what << ", which is taken down already";
    diag.attachNote(locate(flag->rank, *flag->taken)) << "here";
    return diag;
  }
  flag->taken = getRow(strand);
  return success();
}

LogicalResult CallOrder::collectTwins() {
  for (Flag &flag : flags) {
    Raiser &raiser = flag.raisers[0];
    if (raiser.kind != StoreOne)
      continue;
    if (!flag.taken)
      return emitError(locate(strands[raiser.strand].rank, raiser.row))
             << describe(raiser) << " raises "
             << describe(flag.rank, flag.signal)
             << ", which no stream takes down";
    Twin twin{flag.rank,
              flag.signal,
              positions[flag.rank][*flag.taken],
              std::nullopt,
              std::nullopt,
              strands[raiser.strand].rank,
              strands[raiser.strand].part == Part::End};
    if (raiser.row >= 0)
      twin.raisingCommand = positions[twin.raisingRank][raiser.row];
    if (strands[raiser.strand].part == Part::Group)
      twin.raisingGroup = strands[raiser.strand].number;
    twins.push_back(twin);
  }
  return success();
}
