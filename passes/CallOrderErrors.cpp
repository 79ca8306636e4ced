//===- CallOrderErrors.cpp - what the order of a call says of errors ------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/CallOrder.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

LogicalResult CallOrder::reportStuck() {
  auto stuck =
      llvm::find_if(strands, [](const Strand &strand) { return !strand.done; });
  if (stuck == strands.end())
    return success();
  // Every strand that is not done waits for one that is not done: following
  // them leads into a circle.
  auto getFlag = [&](const Strand &strand) {
    return findFlag(strand.rank, getWaits(strand)[strand.wait].signal);
  };
  // What it receives, if it waits for nothing else.
  auto getNeeded = [&](const Strand &strand) -> Sent * {
    if (!strand.running || strand.part != Part::Queue)
      return nullptr;
    auto waits = getWaits(strand);
    return strand.wait == static_cast<int64_t>(waits.size())
               ? findUnsent(strand)
               : nullptr;
  };
  auto getNext = [&](const Strand &strand) -> unsigned {
    if (strand.held)
      return *getHolder(strand);
    if (Sent *needed = getNeeded(strand))
      return getStrand(needed->rank, Part::Queue,
                       positions[needed->rank][needed->row].queue);
    if (strand.running)
      for (const Raiser &raiser : getFlag(strand)->raisers)
        if (!strands[raiser.strand].done)
          return raiser.strand;
    unsigned number = getStrand(strand.rank, Part::Host);
    if (strand.part == Part::End)
      while (strands[number].done || isStream(strands[number]))
        ++number;
    if (strand.part == Part::Group)
      for (int64_t cta = 0, e = getNumCtas(strand.rank); cta < e; ++cta) {
        const Strand &tiles = strands[getStrand(strand.rank, Part::Cta, cta)];
        Strand store = tiles;
        for (store.step = 2; !tiles.done && store.step < getNumSteps(tiles);
             store.step += 2)
          if (store.step >= tiles.step &&
              getTileGroup(tiles.rank, getTileStep(store).position).group ==
                  strand.number)
            return getStrand(strand.rank, Part::Cta, cta);
      }
    return number;
  };
  llvm::DenseMap<unsigned, unsigned> seenAt;
  SmallVector<unsigned> path;
  unsigned number = stuck - strands.begin();
  while (seenAt.try_emplace(number, path.size()).second) {
    path.push_back(number);
    number = getNext(strands[number]);
  }
  auto circle = ArrayRef(path).drop_front(seenAt[number]);
  const Strand &first = strands[circle[0]];
  InFlightDiagnostic diag = emitError(locate(first.rank, getRow(first)))
                            << describe(first)
                            << " waits for itself, in a circle";
  for (unsigned waiter : circle) {
    const Strand &strand = strands[waiter];
    Diagnostic &note = diag.attachNote(locate(strand.rank, getRow(strand)));
    note << describe(strand) << " waits for ";
    if (getNeeded(strand))
      note << "what is to be sent by ";
    else if (strand.running && !strand.held)
      note << describe(strand.rank, getFlag(strand)->signal)
           << ", which is to be raised by ";
    note << describe(strands[getNext(strand)]);
  }
  return diag;
}

std::string CallOrder::describe(const Strand &strand) {
  std::string text;
  llvm::raw_string_ostream out(text);
  switch (strand.part) {
  case Part::Host:
    out << "the start of the call of rank " << strand.rank;
    break;
  case Part::End:
    out << "the end of the call of rank " << strand.rank;
    break;
  case Part::Queue: {
    if (isStream(strand))
      out << "the copy engine of rank ";
    else
      out << "the " << stringifyRealization(getRealization(strand.number))
          << " role of rank ";
    out << strand.rank;
    auto &queue = queues[strand.number];
    if (static_cast<size_t>(strand.step) >= queue.size())
      break;
    int64_t transfer =
        tables[strand.rank].getCommands()[queue[strand.step].row].transfer;
    if (transfer == kStaging)
      out << " at the staging of its input";
    else if (isLibraryCall(transfer))
      out << " at a library call";
    else
      out << " at transfer " << transfer;
    break;
  }
  case Part::Cta: {
    out << "CTA " << strand.number << " of rank " << strand.rank;
    ArrayRef<TileRow> tiles = tables[strand.rank].getTiles();
    TileStep step = getTileStep(strand);
    if (isTile(strand.rank, step)) {
      out << (step.isStore ? " before the store of tile [" : " at tile [");
      llvm::interleaveComma(tiles[step.position].coordinates, out);
      out << "]";
    }
    break;
  }
  case Part::Group:
    out << "group " << strand.number << " of the tiles of rank " << strand.rank;
    break;
  case Part::Ring: {
    out << "the "
        << stringifyRealization(getRealization(*ringQueues[strand.rank]))
        << " role of rank " << strand.rank << " beside CTA " << strand.number;
    const auto &ring = rings[strand.rank][strand.number];
    if (static_cast<size_t>(strand.step) < ring.size())
      out << " at transfer "
          << tables[strand.rank].getCommands()[ring[strand.step].row].transfer;
    break;
  }
  }
  return text;
}

std::string CallOrder::describe(const Raiser &raiser) {
  Strand strand = strands[raiser.strand];
  if (raiser.row < 0)
    strand.step = getNumSteps(strand);
  else if (strand.part == Part::Ring)
    strand.step = ringSteps[strand.rank].lookup(raiser.row).second;
  else
    strand.step = positions[strand.rank][raiser.row].index;
  return describe(strand);
}

std::string CallOrder::describe(int64_t rank, int64_t signal) const {
  std::string text;
  llvm::raw_string_ostream out(text);
  SignalLayout::Meaning meaning = layout.decode(signal);
  out << (meaning.twin ? "the twin at rank " : "the flag at rank ") << rank;
  switch (meaning.kind) {
  case SignalLayout::Kind::Data:
    out << " of transfer " << meaning.index;
    break;
  case SignalLayout::Kind::Ready:
    out << " that rank " << meaning.index << " has its input in place";
    break;
  case SignalLayout::Kind::Done:
    out << " that rank " << meaning.index << " has ended its call";
    break;
  case SignalLayout::Kind::EngineDone:
    out << " that its copy engine is done";
    break;
  case SignalLayout::Kind::Group:
    out << " of group " << meaning.index << " of tiles";
    break;
  }
  return text;
}

Location CallOrder::locate(int64_t rank, int64_t row) {
  if (row >= 0) {
    int64_t transfer = tables[rank].getCommands()[row].transfer;
    if (transfer >= 0 && transfer < layout.transfers)
      return transferLocations[transfer];
  }
  return tables[rank].getSchedule().getLoc();
}
