//===- TableWriter.h - the tables of one rank -------------------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_TABLEWRITER_H
#define SYNCOPATE_LOWERING_TABLEWRITER_H

#include "lowering/CallProtocol.h"
#include "passes/Exchanges.h"
#include "passes/Realizations.h"
#include "passes/SignalLayout.h"
#include "passes/TileSlots.h"

#include <optional>

namespace syncopate {

/// The waits that tiles name, as `chunk-place-waits` left them: what stands
/// behind those belongs to tables built before. Nothing if there are none yet.
std::optional<llvm::ArrayRef<WaitRow>> getTileWaits(chunk::ScheduleOp schedule);

/// What the tables of all ranks of a plan are written from.
struct TableSources {
  /// `handed` are the transfers that tiles hand over, in the order in which
  /// they do so, with the CTAs of those tiles; `pause` is how long a co-located
  /// role rests after each block that it stores to another rank, in
  /// nanoseconds.
  TableSources(PlanAnalysis &analysis,
               llvm::ArrayRef<std::pair<unsigned, int64_t>> handed,
               chunk::KernelOp kernel, std::optional<TileSlots> slots,
               int64_t pause);

  PlanAnalysis &analysis;
  PlanGraph &graph;
  const TileGroups &tileGroups;
  CallProtocol protocol;
  chunk::KernelOp kernel;
  int64_t pause;
  SignalLayout layout;
  /// By transfer, what is asked for once for each rank.
  std::vector<int64_t> exchanges, executors, readers;
  std::vector<Queue> queues;
  /// By rank, the transfers that it carries out, alone or with another one; the
  /// transfers of others, handed over by no tile, before whose arrival its call
  /// does not end; and what its tiles hand over, as `handed` has it.
  std::vector<llvm::SmallVector<unsigned>> carriedOut, arriving, handedOver;
  /// The transfers that come after tiles.
  llvm::BitVector needsTile;
  /// The collective that is library calls, null if there is none, and how it
  /// stores tiles.
  chunk::CollectiveOpInterface collective;
  std::optional<TileSlots> slots;
  /// Whether tiles of any rank compute chunks.
  bool produces;
  /// Names of the columns, which are looked up once for all ranks.
  using Names = llvm::SmallVector<mlir::StringAttr>;
  Names waitNames, signalNames, commandNames, callNames, groupNames,
      tileGroupNames;

private:
  void sortByRank(llvm::ArrayRef<std::pair<unsigned, int64_t>> handed);
};

/// Writes all tables of one rank behind the order of its tiles and their waits.
/// Methods stand by what they write: those of commands in CommandWriter.cpp, of
/// library calls in LibraryCallWriter.cpp, of groups of tiles in
/// TileGroupWriter.cpp, and of what begins and ends a call in CallWriter.cpp.
class TableWriter {
public:
  TableWriter(TableSources &sources, chunk::ScheduleOp schedule,
              llvm::ArrayRef<WaitRow> tileWaits);

  void write();

private:
  int64_t numCommands() const { return commands.size(); }
  int64_t numWaits() const { return waits.size(); }
  int64_t numSignals() const { return signals.size(); }
  void addWait(int64_t signal, int64_t count) {
    waits.push_back({signal, count});
  }
  void addSignal(int64_t to, int64_t signal, SignalKind kind) {
    signals.push_back({to, signal, kind});
  }

  /// Rows of the wait and signal tables that belong to one transfer.
  struct Protocols {
    RowRange waits, signals;
  };

  /// The transfers that the rank carries out, alone or with another one.
  llvm::ArrayRef<unsigned> getMine() { return sources.carriedOut[rank]; }
  /// Whether this rank's stream carries a transfer out.
  bool isOnMyStream(unsigned id) {
    const Queue &queue = sources.queues[id];
    return queue.first == rank && isEngine(queue.second);
  }
  /// Whether it is this rank that waits for a group of tiles before `id`: if
  /// two carry `id` out, each waits for its own tiles.
  bool isHeardHere(unsigned id, unsigned group) {
    return exchanges[id] == kNoExchange ||
           sources.tileGroups[group].rank == rank;
  }

  /// If other ranks' communication roles read this rank's input, a role of this
  /// rank first brings it into the buffer, from where the caller keeps it. The
  /// command copies a place onto itself; whoever issues it knows the source.
  /// The role is one that the kernel has for the readers' sake: the last of
  /// them, since loads and stores copy on one GPU as well as TMA does, and more
  /// CTAs share what is co-located.
  void writeStaging();
  void writeCommand(unsigned id);
  /// The commands that tiles hand over, tile by tile in their order.
  void writeHandedOver();
  /// Appends one command for each slice of a region that is rows with a stride.
  void appendCommands(int64_t id, Place src, llvm::ArrayRef<int64_t> srcOffsets,
                      Place dst, llvm::ArrayRef<int64_t> dstOffsets,
                      llvm::ArrayRef<int64_t> sizes,
                      chunk::Realization realization, const Protocols &rows);
  void addCommandWaits(unsigned id, bool engine);
  /// Whoever waits for the transfer: the tiles and the end of the destination,
  /// the executors of what comes after it, and the ends of calls that a stream
  /// takes down twins of.
  void addCommandSignals(unsigned id);

  /// A command of the stream for each library call. Its source is the slots of
  /// all its tiles; parts of the source are those of the ranks.
  void writeLibraryCalls();

  /// Whose executors wait for a group of this rank's tiles.
  void writeGroups();
  void writeTileGroups();
  /// What tiles wait for before they add to what is there: of each queue the
  /// last transfer, unless an earlier tile of the CTA has waited for it.
  std::vector<RowRange> addStoreWaits(KernelDependence &dependence);

  void writeCall();
  /// A call ends only when all has come that others send, whether a tile reads
  /// it or not: what a rank says by \c done is that its memory is at rest. Nor
  /// before a stream that guards itself by this rank's twin has taken it down,
  /// for the end raises it again. The last transfer of a queue stands for those
  /// before it.
  void addArrivals();
  void addClosingSignals();
  /// How many commands of its queue a role carries out before the first tile
  /// hands one over: those that come after no tile.
  int64_t countBeforeTiles();

  TableSources &sources;
  PlanGraph &graph;
  CallProtocol &protocol;
  const SignalLayout &layout;
  llvm::ArrayRef<int64_t> exchanges;
  chunk::ScheduleOp schedule;
  int64_t rank;
  std::vector<WaitRow> waits;
  std::vector<SignalRow> signals;
  std::vector<CommandRow> commands;
  std::vector<GroupRow> groups;
  std::vector<TileGroupRow> tileGroupRows;
  CallRow call;
  /// Exchanges that a command of this rank belongs to.
  std::set<int64_t> exchangesBegun;
  /// Transfers whose twin a stream's command of this rank waits for.
  std::set<unsigned> twinsSeen;
  /// Groups of tiles that a command of this rank waits for, by realization.
  std::set<std::pair<chunk::Realization, unsigned>> groupsSeen;
  /// By tile, the commands that it hands over.
  std::map<int64_t, RowRange> commandsOfTile;
};

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_TABLEWRITER_H
