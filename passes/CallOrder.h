//===- CallOrder.h - what comes before what, by the tables ------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_CALLORDER_H
#define SYNCOPATE_PASSES_CALLORDER_H

#include "passes/Realizations.h"
#include "passes/SignalLayout.h"
#include "passes/Tables.h"

#include "llvm/ADT/DenseMap.h"

#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace syncopate {

/// The order that the schedule tables of all ranks impose on a call and on the
/// one after it, worked out from the rules of a call alone (docs/protocol.md):
/// nothing here knows how the tables were made.
///
/// A rank's call is cut into *strands*, each of which does one thing after
/// another: the host, which stages the input; the stream of the copy engine;
/// each communication role, of all CTAs; the tiles of each CTA, and what they
/// hand over to the role beside them; the end of the call. What a strand has
/// *seen* is a vector: of each queue of commands, and of the tiles of each CTA,
/// how many are known to be complete; of each rank, whether its input is in
/// place, and whether its call before has ended. A strand that waits for a flag
/// has seen whatever the one that raised it had.
class CallOrder {
public:
  /// A queue: the commands that one rank carries out by one realization, and so
  /// by its engine or by one role; or those that one tile hands over. They
  /// start and are complete in order.
  using QueueId = unsigned;

  /// Components of a vector and their values, ascending, zeros left out.
  using Vector = llvm::SmallVector<std::pair<unsigned, unsigned>, 4>;
  using Seen = std::shared_ptr<const Vector>;

  /// Where a command stands: in which queue, at which position there.
  struct Position {
    QueueId queue;
    unsigned index;
  };

  /// Emits an error, and leaves the result invalid, if tables are malformed,
  /// if a flag is raised more often than it may be, if no stream takes down a
  /// twin that is raised, if a wait waits for what
  /// nobody raises, or if strands wait for each other in a circle.
  ///
  /// A pipelined loop may wait for a tile before it stores the one before, so a
  /// CTA that cannot go on to its next tile has not stored the present one.
  ///
  /// A tile that hands commands over is taken to store only when the role
  /// beside it has carried out what the tile before has handed over: whatever
  /// the size of the ring, this is so when it is full. A role is taken to come
  /// to the rest of its queue only when it has carried out all that tiles hand
  /// over: it may do so earlier, but it only looks, and does not wait.
  ///
  /// A tile that walks steps is taken to wait for all of them before its CTA
  /// stores the tile before, as the first of them may be in a pipelined loop;
  /// and what these waits teach is taken to be known at that store no more than
  /// in one that is not.
  ///
  /// A tile that several CTAs compute is stored by the last that comes to its
  /// end, which has then seen what all of them had. Here each of them waits for
  /// the others and stores: whoever does it in truth, the others do no more.
  CallOrder(chunk::PlanOp plan, llvm::ArrayRef<ScheduleTables> tables,
            int64_t ctas);

  bool isValid() const { return valid; }

  /// Where row `row` of rank's commands stands.
  Position getPosition(int64_t rank, int64_t row) const {
    return positions[rank][row];
  }
  /// What is enqueued on a rank's stream, whatever it is, is one queue.
  static QueueId getQueue(int64_t rank, chunk::Realization realization) {
    if (isOnStream(realization))
      realization = chunk::Realization::CopyEngine;
    return rank * kNumRealizations + static_cast<int64_t>(realization);
  }
  bool isEngineQueue(QueueId queue) const {
    return queue < ranks * kNumRealizations && isEngine(getRealization(queue));
  }
  /// How many commands a queue has.
  unsigned getLength(QueueId queue) const { return queues[queue].size(); }

  /// Whether a command sends what another rank receives.
  static bool isSend(int64_t rank, const CommandRow &command) {
    return command.exchange >= 0 && command.src.rank == rank;
  }

  /// What has been seen when a command starts; when the tile at a position of
  /// a rank's order starts; when the input is replaced; when the call is over.
  const Seen &atStart(Position command) const {
    return queues[command.queue][command.index].seen;
  }
  const Seen &atTile(int64_t rank, int64_t position) const {
    return tileSeen[rank][position];
  }
  /// The steps of that tile that wait, by their place among its steps, and what
  /// has been seen when the loads of each may start.
  struct StepSeen {
    int64_t step;
    Seen seen;
  };
  llvm::ArrayRef<StepSeen> atSteps(int64_t rank, int64_t position) const {
    return tileWaits[rank].empty() ? llvm::ArrayRef<StepSeen>()
                                   : tileWaits[rank][position].steps;
  }
  /// What has been seen when that tile stores what it has computed.
  const Seen &atStore(int64_t rank, int64_t position) const {
    return storeSeen[rank][position];
  }
  const Seen &atStaging(int64_t rank) const { return hostSeen[rank]; }
  const Seen &atEnd(int64_t rank) const { return endSeen[rank]; }

  /// Whether a command of this call is known to be complete, the input of a
  /// rank to be in place, the call before of a rank to have ended.
  static bool isComplete(Position command, const Seen &seen) {
    return lookUp(seen, command.queue) > command.index;
  }
  bool isComplete(Position command, Position before) const {
    return (before.queue == command.queue && command.index < before.index &&
            isEngineQueue(command.queue)) ||
           isComplete(command, atStart(before));
  }
  /// Whether the tile at a position of a rank's order is known to be done.
  bool isTileDone(int64_t rank, int64_t position, const Seen &seen) const {
    return lookUp(seen, tileComponent(rank, position % ctas)) > position / ctas;
  }
  bool isStaged(int64_t rank, const Seen &seen) const {
    return lookUp(seen, stagedComponent(rank));
  }
  bool hasEnded(int64_t rank, const Seen &seen) const {
    return lookUp(seen, endedComponent(rank));
  }
  /// Whether the stream of a rank's engine is known to be through. That is more
  /// than that its last command is complete: who knows that may have it from
  /// the first of the flags that the stream raises afterwards.
  bool isThrough(int64_t rank, const Seen &seen) const {
    return lookUp(seen, throughComponent(rank));
  }
  /// Whether a command of the call before is known to be complete, by someone
  /// who has seen this in the present call.
  bool wasComplete(Position command, const Seen &seen) const;

  /// What has been seen when all tiles of a group are done.
  const Seen &atGroup(int64_t rank, int64_t group) const {
    return groups[rank][group].seen;
  }

  /// The engine's waits for a twin, and who raises it: a command, a group of
  /// tiles, or the end or the opening of a rank's call.
  struct Twin {
    int64_t rank, signal;
    Position waiter;
    std::optional<Position> raisingCommand;
    std::optional<int64_t> raisingGroup;
    int64_t raisingRank;
    bool atEnd;
  };
  llvm::ArrayRef<Twin> getTwins() const { return twins; }

  /// A flag of a rank, in words.
  std::string describe(int64_t rank, int64_t signal) const;

private:
  /// A group of tiles stands among the strands of its rank, since flags wait
  /// for it, but takes no steps of its own.
  enum class Part { Host, Queue, Cta, Group, Ring, End };
  struct Strand {
    int64_t rank;
    Part part;
    /// The queue, or the number of the CTA, of that whose tiles hand commands
    /// over, or of the group.
    int64_t number;
    /// The next thing to do, and the next of its waits.
    int64_t step = 0, wait = 0;
    Seen seen;
    bool running = false, done = false;
    /// What had been seen when it started.
    Seen started;
    /// Whether another strand of the rank, and no flag, keeps it from its step.
    bool held = false;
  };
  /// A command that the how-manieth tile of a CTA hands over.
  struct Handed {
    int64_t row, tile;
  };
  struct Command {
    int64_t row;
    Seen seen;
  };
  struct Raiser {
    unsigned strand;
    /// Row of the commands; -1 for what is no command.
    int64_t row;
    SignalKind kind;
  };
  struct Flag {
    int64_t rank, signal;
    llvm::SmallVector<Raiser, 1> raisers;
    unsigned raised = 0;
    Seen seen;
    llvm::SmallVector<unsigned, 1> waiting;
    /// The row of the engine's command that takes a twin down.
    std::optional<int64_t> taken;
  };

  /// The components of a vector are the queues, and then these.
  unsigned stagedComponent(int64_t rank) const { return queues.size() + rank; }
  unsigned endedComponent(int64_t rank) const {
    return stagedComponent(ranks) + rank;
  }
  unsigned throughComponent(int64_t rank) const {
    return endedComponent(ranks) + rank;
  }
  unsigned tileComponent(int64_t rank, int64_t cta) const {
    return throughComponent(ranks) + rank * ctas + cta;
  }
  /// What a rank sends and another one receives: the how-manieth command of a
  /// transfer. Whoever receives has then seen what who sends had.
  struct Sent {
    int64_t rank = -1, row = -1;
    bool done = false;
    Seen seen;
    llvm::SmallVector<unsigned, 1> waiting;
  };
  /// The command that a receiving one needs, if it is not done yet.
  Sent *findUnsent(const Strand &strand);
  Sent *findSent(int64_t rank, int64_t row);
  mlir::LogicalResult collectSent();
  /// The realization of a queue that is no tile's.
  static chunk::Realization getRealization(QueueId queue) {
    return static_cast<chunk::Realization>(queue % kNumRealizations);
  }
  static unsigned lookUp(const Seen &seen, unsigned component);
  static void join(Seen &seen, const Vector &other);
  /// The same in place, of a vector that nobody else has yet.
  static void join(Vector &seen, const Vector &other);
  static void set(Seen &seen, unsigned component, unsigned value) {
    join(seen, Vector{{component, value}});
  }

  unsigned getStrand(int64_t rank, Part part, int64_t number = 0) const;
  static bool isStream(const Strand &strand) {
    return strand.part == Part::Queue &&
           isEngine(getRealization(strand.number));
  }
  /// CTAs of a rank that have tiles.
  int64_t getNumCtas(int64_t rank) const {
    return std::min<int64_t>(ctas, tables[rank].getTiles().size());
  }
  /// A CTA starts its first tile, and then by turns starts a tile and stores
  /// the one before it.
  struct TileStep {
    /// The how-manieth tile of the CTA it is, and where in the rank's order.
    int64_t number, position;
    bool isStore;
  };
  TileStep getTileStep(const Strand &cta) const;
  /// Whether there is such a tile: before the last store none is started.
  bool isTile(int64_t rank, TileStep step) const {
    return step.position < static_cast<int64_t>(tables[rank].getTiles().size());
  }
  /// Whether a CTA has stored its how-manieth tile.
  static bool isStored(const Strand &cta, int64_t tile) {
    return cta.done || cta.step > 2 * (tile + 1);
  }
  /// The group, of its rank, of the tile at a position of the order; and what
  /// it waits for before it stores.
  TileGroupRow getTileGroup(int64_t rank, int64_t position) const;
  Flag *findFlag(int64_t rank, int64_t signal);
  mlir::LogicalResult addRaiser(unsigned strand, int64_t row, SignalRow signal);
  mlir::LogicalResult collectRaisers(int64_t rank);
  mlir::LogicalResult checkWaits(int64_t rank);
  mlir::LogicalResult checkWait(const Strand &strand, WaitRow wait);
  mlir::LogicalResult collectTwins();
  void addQueues(int64_t rank);

  /// What a tile that walks steps waits for: `ofTile` rows, then those of its
  /// steps, of which each ends in front of the row in `ends`.
  struct TileWaits {
    llvm::SmallVector<WaitRow, 2> rows;
    int64_t ofTile;
    llvm::SmallVector<int64_t, 1> ends;
    llvm::SmallVector<StepSeen, 1> steps;
  };
  void addTileWaits(int64_t rank);
  /// The waits of a strand that starts a tile that walks steps, or null.
  TileWaits *getTileWaits(const Strand &strand);
  /// Keeps what has been seen when a tile, or one of its steps, has waited.
  void noteSteps(const Strand &strand);
  /// What is known when a tile is stored.
  Seen getSeenAtStore(const Strand &cta, TileStep step);

  /// What strand `strand` waits for at its present step.
  RowRange getStepWaits(const Strand &strand);
  llvm::ArrayRef<WaitRow> getWaits(const Strand &strand);
  int64_t getNumSteps(const Strand &strand);
  void start(unsigned strand, const Seen &seen);
  void run();
  /// The strand of its rank that keeps a strand from its step, if one does.
  std::optional<unsigned> getHolder(const Strand &strand) const;
  /// The CTAs that compute parts of the tile that a CTA is about to store; none
  /// if it computes the tile alone.
  llvm::SmallVector<unsigned> getSharing(const Strand &cta) const;
  /// Goes on until the strand has to wait or is at its end.
  void advance(unsigned strand);
  bool isOver(Strand &strand, WaitRow wait);
  void perform(Strand &strand);
  void performCommand(Strand &strand, Position position);
  void finish(Strand &strand);
  void raise(int64_t rank, int64_t signal, const Vector &seen);
  void finishPart(int64_t rank, const Seen &seen);
  /// A tile of a CTA is done.
  void finishTile(const Strand &cta, TileStep step, const Seen &seen);

  /// Errors, and the words in which they speak.
  mlir::LogicalResult reportStuck();
  std::string describe(const Strand &strand);
  std::string describe(const Raiser &raiser);
  /// The row of the commands that a strand is at, or -1.
  int64_t getRow(const Strand &strand);
  mlir::Location locate(int64_t rank, int64_t row);

  chunk::PlanOp plan;
  mutable chunk::KernelOp kernel;
  llvm::ArrayRef<ScheduleTables> tables;
  int64_t ranks, ctas;
  /// Whether tiles wait for as many of their transfers as they find to need.
  bool counted;
  SignalLayout layout;
  std::vector<mlir::Location> transferLocations;
  bool valid = false;

  std::vector<Strand> strands;
  std::vector<unsigned> firstStrand, firstCta;
  std::deque<unsigned> ready;
  std::vector<Flag> flags;
  llvm::DenseMap<std::pair<int64_t, int64_t>, unsigned> flagNumbers;

  std::vector<std::vector<Command>> queues;
  /// By queue, the rank that carries its commands out.
  std::vector<int64_t> queueRanks;
  std::vector<std::vector<Position>> positions;
  /// By rank and CTA, what its tiles hand over, in order; and by rank, the
  /// queue of the role that they hand it over to, if they do.
  std::vector<std::vector<std::vector<Handed>>> rings;
  std::vector<std::optional<QueueId>> ringQueues;
  /// By rank and row, where the commands that tiles hand over stand there.
  std::vector<llvm::DenseMap<int64_t, std::pair<int64_t, int64_t>>> ringSteps;
  std::vector<std::vector<Seen>> tileSeen, storeSeen;
  /// By rank and position, if tiles walk steps.
  std::vector<std::vector<TileWaits>> tileWaits;
  std::vector<Seen> hostSeen, endSeen;
  /// By rank and group, the tiles left; what those that are done have seen; and
  /// that as of the last one.
  struct Group {
    int64_t left;
    Vector collected;
    Seen seen;
  };
  std::vector<std::vector<Group>> groups;
  /// Number of each tile in the grid, by its position in a rank's order.
  std::vector<std::vector<int64_t>> tileNumbers;
  /// By rank and position of its first part, how many CTAs have stored a tile
  /// that several compute.
  llvm::DenseMap<std::pair<int64_t, int64_t>, int64_t> storedParts;
  /// Parts of a rank's call that its end still waits for, and what those that
  /// are over have seen.
  std::vector<int64_t> partsLeft;
  std::vector<Seen> partsSeen;
  std::vector<Twin> twins;
  /// By transfer and number of its command; and the key of each such command,
  /// by its rank and row, at either end.
  std::map<std::pair<int64_t, int64_t>, Sent> sent;
  llvm::DenseMap<std::pair<int64_t, int64_t>, std::pair<int64_t, int64_t>>
      sentKeys;
};

} // namespace syncopate

#endif // SYNCOPATE_PASSES_CALLORDER_H
