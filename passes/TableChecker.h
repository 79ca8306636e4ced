//===- TableChecker.h - the tables keep what the plan promises --*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_TABLECHECKER_H
#define SYNCOPATE_PASSES_TABLECHECKER_H

#include "passes/CallOrder.h"
#include "passes/KernelDependence.h"

namespace syncopate {

/// Compares what the plan and its kernel need with the order that the tables
/// impose. Of two accesses to the same bytes, one of which writes, one has to
/// come after the other: in the same call by the tokens of the plan, which
/// `chunk-check-plan` has found to suffice, and from one call to the next.
/// Methods stand by what they look at: those of tiles in TileChecks.cpp, those
/// of what one call leaves to the next, or at its end, in ReuseChecks.cpp.
class TableChecker {
public:
  TableChecker(PlanGraph &graph, chunk::KernelOp kernel,
               llvm::ArrayRef<ScheduleTables> tables)
      : graph(graph), kernel(kernel), tables(tables),
        order(graph.getPlan(), tables, kernel.getCtas()) {}

  mlir::LogicalResult check();

private:
  using Position = CallOrder::Position;
  using Seen = CallOrder::Seen;

  /// Who touches a place, by the last one of each queue.
  struct Reuse {
    BoxIndex readers, writers;
  };

  /// Who touches what a tile writes, alike for all tiles in one cell.
  struct Touching {
    BoxCell cell;
    /// Transfers that come after tiles, and where their first accesses stand.
    llvm::SmallVector<std::pair<unsigned, Position>> after;
    /// Those of the call before, and where their last accesses stand.
    llvm::SmallVector<std::pair<unsigned, Position>> before;
    bool accumulated = false;
  };

  /// First and last command of every transfer, and the last that stages.
  void findRows();

  const Seen &atStart(unsigned id) { return order.atStart(first[id]); }

  /// The first and the last of the commands that read what a transfer moves:
  /// those that send it, if one rank sends and another receives it.
  Position getFirstRead(unsigned id);
  Position getLastRead(unsigned id);
  mlir::InFlightDiagnostic report(unsigned id);
  /// The commands that bring a rank's input into its buffer. If streams read it
  /// the host does so, and then those commands copy nothing.
  llvm::ArrayRef<Position> getStagingCopies(int64_t rank);
  /// A stream carries out the commands of one call after those of another.
  bool isSameStream(Position a, Position b) {
    return a.queue == b.queue && order.isEngineQueue(a.queue);
  }
  Reuse &getReuse(Place place);
  /// The same regions, each with the last of a queue's transfers only.
  BoxIndex keepLast(BoxIndex &index,
                    llvm::function_ref<Position(unsigned)> getEnd);

  /// What a transfer comes after is complete when it starts.
  mlir::LogicalResult checkTokens(unsigned id);
  /// An input that another rank holds is in place when it is read.
  mlir::LogicalResult checkInput(unsigned id);

  /// What tiles need is read where the kernel says. They then name the same
  /// waits, since a tile leaves out those of the one before it on its CTA, and
  /// stand in the order of what they need it by, of which the kernel may leave
  /// out the end.
  mlir::LogicalResult checkNeeds(const ScheduleTables &mine);
  /// Every transfer that writes what a tile reads is complete when it starts.
  mlir::LogicalResult checkTiles(const ScheduleTables &mine);
  /// What a step reads has come when its loads may start. Later steps have seen
  /// no less than earlier ones.
  mlir::LogicalResult
  checkSteps(const ScheduleTables &mine, int64_t position, int64_t tile,
             KernelDependence &dependence,
             llvm::ArrayRef<llvm::SmallVector<unsigned>> lastOfSet);
  /// A transfer that touches what a tile writes starts when the tile is done,
  /// and the tile when all that touched it in the call before is over.
  mlir::LogicalResult checkWrittenTiles();
  mlir::LogicalResult checkWrittenTile(const ScheduleTables &mine,
                                       int64_t position, int64_t number,
                                       const Touching &touching);
  Touching findTouching(Place place, const Box &region);
  mlir::LogicalResult reportTile(const ScheduleTables &mine, int64_t position,
                                 const llvm::Twine &what, unsigned id);

  /// When a transfer writes to another rank, the call before of that rank is
  /// over, and so is all that has read or written the place in it.
  mlir::LogicalResult checkReuse(unsigned id);
  /// When a rank replaces its input, nobody reads that of the call before.
  mlir::LogicalResult checkStaging(int64_t rank);
  /// When a call ends, nothing is on its way to the rank's memory, and its own
  /// stream is through.
  mlir::LogicalResult checkEnd(int64_t rank);
  /// A twin is taken down before it is raised again.
  mlir::LogicalResult checkTwins();

  PlanGraph &graph;
  chunk::KernelOp kernel;
  llvm::ArrayRef<ScheduleTables> tables;
  CallOrder order;
  /// By transfer, where its first and its last command stand.
  std::vector<Position> first, last;
  /// Likewise, of those that one rank sends and another receives, the commands
  /// that send.
  struct Sending {
    Position first, last;
  };
  std::map<unsigned, Sending> sending;
  /// By rank, the commands that stage its input; and by queue, the last
  /// transfer that others carry out into its memory.
  std::vector<llvm::SmallVector<Position>> staging;
  std::vector<std::map<CallOrder::QueueId, unsigned>> arriving;
  std::map<std::pair<int64_t, int64_t>, Reuse> reuses;
};

} // namespace syncopate

#endif // SYNCOPATE_PASSES_TABLECHECKER_H
