//===- CheckTables.cpp - the tables keep what the plan promises -----------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/CallOrder.h"
#include "passes/CheckCalls.h"
#include "passes/CommandRegions.h"
#include "passes/KernelDependence.h"
#include "passes/Passes.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_CHECKTABLESPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

/// Compares what the plan and its kernel need with the order that the tables
/// impose. Of two accesses to the same bytes, one of which writes, one has to
/// come after the other: in the same call by the tokens of the plan, which
/// `chunk-check-plan` has found to suffice, and from one call to the next.
class Checker {
public:
  Checker(PlanGraph &graph, KernelOp kernel, ArrayRef<ScheduleTables> tables)
      : graph(graph), kernel(kernel), tables(tables),
        order(graph.getPlan(), tables, kernel.getCtas()) {}

  LogicalResult check() {
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

private:
  using Position = CallOrder::Position;
  using Seen = CallOrder::Seen;

  /// First and last command of every transfer, and the last that stages.
  void findRows() {
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

  const Seen &atStart(unsigned id) { return order.atStart(first[id]); }

  /// The first and the last of the commands that read what a transfer moves:
  /// those that send it, if one rank sends and another receives it.
  Position getFirstRead(unsigned id) {
    auto it = sending.find(id);
    return it == sending.end() ? first[id] : it->second.first;
  }
  Position getLastRead(unsigned id) {
    auto it = sending.find(id);
    return it == sending.end() ? last[id] : it->second.last;
  }

  InFlightDiagnostic report(unsigned id) {
    return graph.getTransfer(id).emitOpError()
           << "is carried out by rank " << graph.getTransfer(id).getExecutor()
           << " ";
  }

  /// The commands that bring a rank's input into its buffer. If streams read it
  /// the host does so, and then those commands copy nothing.
  ArrayRef<Position> getStagingCopies(int64_t rank) {
    RowRange opening = tables[rank].getCall().open;
    return opening.begin < opening.end ? ArrayRef<Position>() : staging[rank];
  }

  /// What tiles need is read where the kernel says. They then name the same
  /// waits, since a tile leaves out those of the one before it on its CTA, and
  /// stand in the order of what they need it by, of which the kernel may leave
  /// out the end.
  LogicalResult checkNeeds(const ScheduleTables &mine) {
    int64_t buffer = kNoBuffer, index = 0;
    if (kernel.getNeeds()) {
      buffer = graph.getBufferIndex(kernel.getNeeds());
      index = static_cast<int64_t>(*kernel.getNeedsAt());
    }
    const CallRow &call = mine.getCall();
    if (call.needsBuffer != buffer || call.needsIndex != index)
      return mine.getSchedule().emitOpError()
             << "expects what tiles need to be read from element " << index
             << " of buffer " << buffer << ", but got " << call.needsIndex
             << " of " << call.needsBuffer;
    if (buffer == kNoBuffer)
      return success();
    int64_t before = 0;
    for (const TileRow &tile : mine.getTiles()) {
      if (tile.coordinates.front() < before)
        return mine.getSchedule().emitOpError()
               << "expects tiles in the order of their first coordinate, by "
                  "which what they need is read, but tile ["
               << ArrayRef(tile.coordinates)
                      .take_front(kernel.getTiles().size())
               << "] comes behind one of " << before;
      before = tile.coordinates.front();
      if (tile.waits.begin != mine.getTiles().front().waits.begin ||
          tile.waits.end != mine.getTiles().front().waits.end)
        return mine.getSchedule().emitOpError()
               << "expects all tiles to name the same waits if what they need "
                  "is read at run time, but tile ["
               << ArrayRef(tile.coordinates)
                      .take_front(kernel.getTiles().size())
               << "] names [" << tile.waits.begin << ", " << tile.waits.end
               << ")";
    }
    return success();
  }

  /// What a transfer comes after is complete when it starts.
  LogicalResult checkTokens(unsigned id) {
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
      diag.attachNote(graph.getTransfer(before).getLoc())
          << "the other transfer";
      return diag;
    }
    return success();
  }

  /// An input that another rank holds is in place when it is read.
  LogicalResult checkInput(unsigned id) {
    Place place = graph.getSrcPlace(id);
    if (place.first == graph.getReadingRank(id) || !graph.readsInput(id))
      return success();
    ArrayRef<Position> copies = getStagingCopies(place.first);
    if (!order.isStaged(place.first, atStart(id)) ||
        (!copies.empty() && !order.isComplete(copies.back(), first[id])))
      return report(id) << "without a wait for the input of rank "
                        << place.first << " to be in place";
    return success();
  }

  /// Every transfer that writes what a tile reads is complete when it starts.
  LogicalResult checkTiles(const ScheduleTables &mine) {
    int64_t rank = mine.getRank();
    FailureOr<SmallVector<int64_t>> tiles =
        readTileOrder(kernel, mine.getSchedule());
    if (failed(tiles))
      return failure();
    KernelDependence dependence(graph, kernel, rank);
    if (!dependence.isValid())
      return failure();
    // Of the transfers of a queue, the last one stands for the others.
    SmallVector<SmallVector<unsigned>> lastOfSet;
    for (ArrayRef<unsigned> set : dependence.getSets()) {
      std::map<CallOrder::QueueId, unsigned> byQueue;
      for (unsigned id : set) {
        auto [it, isNew] = byQueue.try_emplace(last[id].queue, id);
        if (!isNew && last[it->second].index < last[id].index)
          it->second = id;
      }
      auto &ids = lastOfSet.emplace_back();
      for (auto [queue, id] : byQueue)
        ids.push_back(id);
    }
    for (auto [position, tile] : llvm::enumerate(*tiles)) {
      for (unsigned id : lastOfSet[dependence.getSet(tile)])
        if (!CallOrder::isComplete(last[id], order.atTile(rank, position)))
          return reportTile(mine, position,
                            "starts without a wait for a transfer that brings "
                            "what it reads",
                            id);
      if (failed(checkSteps(mine, position, tile, dependence, lastOfSet)))
        return failure();
      for (unsigned id : lastOfSet[dependence.getSummedSet(tile)])
        if (!CallOrder::isComplete(last[id], order.atStore(rank, position)))
          return reportTile(mine, position,
                            "stores without a wait for a transfer that brings "
                            "what it adds to",
                            id);
    }
    return success();
  }

  /// What a step reads has come when its loads may start. Later steps have seen
  /// no less than earlier ones.
  LogicalResult checkSteps(const ScheduleTables &mine, int64_t position,
                           int64_t tile, KernelDependence &dependence,
                           ArrayRef<SmallVector<unsigned>> lastOfSet) {
    ArrayRef<StepRow> steps = mine.getSteps(position);
    if (steps.empty())
      return success();
    ArrayRef<unsigned> sets =
        dependence.getStepSets(dependence.getSteps(tile).list);
    Seen seen = order.atTile(mine.getRank(), position);
    auto waiting = order.atSteps(mine.getRank(), position);
    llvm::BitVector found(lastOfSet.size());
    for (auto [number, step] : llvm::enumerate(steps)) {
      if (!waiting.empty() &&
          waiting.front().step == static_cast<int64_t>(number)) {
        seen = waiting.front().seen;
        waiting = waiting.drop_front();
      }
      unsigned set = sets[step.step];
      if (found.test(set))
        continue;
      found.set(set);
      for (unsigned id : lastOfSet[set])
        if (!CallOrder::isComplete(last[id], seen))
          return reportTile(mine, position,
                            "starts step " + Twine(step.step) +
                                " without a wait for a transfer that brings "
                                "what it reads",
                            id);
    }
    return success();
  }

  LogicalResult reportTile(const ScheduleTables &mine, int64_t position,
                           const Twine &what, unsigned id) {
    InFlightDiagnostic diag = kernel.emitOpError();
    diag << "tile ["
         << ArrayRef(mine.getTiles()[position].coordinates)
                .take_front(kernel.getTiles().size())
         << "] of rank " << mine.getRank() << " " << what;
    diag.attachNote(graph.getTransfer(id).getLoc()) << "the transfer";
    return diag;
  }

  /// A transfer that touches what a tile writes starts when the tile is done,
  /// and the tile when all that touched it in the call before is over.
  LogicalResult checkWrittenTiles() {
    for (const ScheduleTables &mine : tables) {
      int64_t rank = mine.getRank();
      auto tiles = readTileOrder(kernel, mine.getSchedule());
      if (failed(tiles))
        return failure();
      for (FootprintOp footprint : kernel.getFootprints()) {
        auto buffer = kernel.getBoundBuffer(footprint.getArg());
        Place place{rank, buffer};
        if (footprint.getAccess() != Access::Write ||
            graph.getProduced(place).empty())
          continue;
        for (auto [position, tile] : llvm::enumerate(*tiles)) {
          Box region =
              getAccessedBox(footprint, buffer.getType(),
                             KernelDependence::getCoordinates(kernel, tile));
          if (!region.isEmpty() &&
              failed(checkWrittenTile(mine, position, tile, place, region)))
            return failure();
        }
      }
    }
    return success();
  }

  LogicalResult checkWrittenTile(const ScheduleTables &mine, int64_t position,
                                 int64_t number, Place place,
                                 const Box &region) {
    ArrayRef<int64_t> coordinates =
        ArrayRef(mine.getTiles()[position].coordinates)
            .take_front(kernel.getTiles().size());
    std::optional<unsigned> early, late;
    Reuse &reuse = getReuse(place);
    for (BoxIndex *index : {&graph.getReaders(place), &graph.getWriters(place)})
      index->forEachOverlap(region, [&](unsigned id) {
        Position start =
            index == &graph.getReaders(place) ? getFirstRead(id) : first[id];
        if (!graph.isBeforeTiles(id, place, region) &&
            !order.isTileDone(place.first, position, order.atStart(start)))
          early = id;
      });
    for (BoxIndex *index : {&reuse.readers, &reuse.writers})
      index->forEachOverlap(region, [&](unsigned id) {
        Position end = index == &reuse.readers ? getLastRead(id) : last[id];
        if (!order.wasComplete(end, order.atStore(place.first, position)))
          late = id;
      });
    if (mine.getTileGroups()[number].accumulates !=
        graph.isAccumulated(place, region))
      return mine.getSchedule().emitOpError()
             << "expects tile_groups to say of tile [" << coordinates
             << "] whether it adds to what is there, as the plan does";
    if (!early && !late)
      return success();
    InFlightDiagnostic diag =
        early ? report(*early) << "without a wait for "
              : static_cast<InFlightDiagnostic>(kernel.emitOpError());
    diag << "tile [" << coordinates << "] of rank " << place.first;
    if (early) {
      diag << ", which computes what it touches";
      diag.attachNote(kernel.getLoc()) << "the kernel";
      return diag;
    }
    diag << " starts without a wait for a transfer of the call before, which "
            "touches what it writes";
    diag.attachNote(graph.getTransfer(*late).getLoc()) << "the transfer";
    return diag;
  }

  /// When a transfer writes to another rank, the call before of that rank is
  /// over, and so is all that has read or written the place in it.
  LogicalResult checkReuse(unsigned id) {
    Place place = graph.getDstPlace(id);
    Box box = graph.getDstBox(id);
    Reuse &reuse = getReuse(place);
    const Seen &seen = atStart(id);
    std::optional<unsigned> other;
    for (BoxIndex *index : {&reuse.readers, &reuse.writers})
      index->forEachOverlap(box, [&](unsigned before) {
        Position end =
            index == &reuse.readers ? getLastRead(before) : last[before];
        if (!isSameStream(end, first[id]) && !order.wasComplete(end, seen))
          other = before;
      });
    if (other) {
      InFlightDiagnostic diag =
          report(id) << "without a wait for a transfer of the call before, "
                        "which reads or writes the same place";
      diag.attachNote(graph.getTransfer(*other).getLoc())
          << "the other transfer";
      return diag;
    }
    if (place.first != graph.getTransfer(id).getExecutor() &&
        graph.getOutputIndex(place).overlaps(box) &&
        !order.isStaged(place.first, seen))
      return report(id) << "without a wait for rank " << place.first
                        << " to have begun its call: it writes to what the "
                           "call before has given back there";
    if (!order.hasEnded(place.first, seen))
      return report(id) << "without a wait for the call before of rank "
                        << place.first << ", to which it writes";
    return success();
  }

  /// A stream carries out the commands of one call after those of another.
  bool isSameStream(Position a, Position b) {
    return a.queue == b.queue && order.isEngineQueue(a.queue);
  }

  /// When a rank replaces its input, nobody reads that of the call before.
  LogicalResult checkStaging(int64_t rank) {
    for (BufferOp buffer : graph.getPlan().getBuffers()) {
      Place place{rank, buffer.getResult()};
      Reuse &reuse = getReuse(place);
      for (const Box &input : graph.getInputs(place)) {
        std::optional<unsigned> other;
        bool byRole = false;
        reuse.readers.forEachOverlap(input, [&](unsigned reader) {
          Position end = getLastRead(reader);
          if (!order.wasComplete(end, order.atStaging(rank)))
            other = reader;
          // For the rank's own reads it is the same whether host or role
          // copies.
          ArrayRef<Position> copies = getStagingCopies(rank);
          if (graph.getReadingRank(reader) != rank && !copies.empty() &&
              !order.wasComplete(end, order.atStart(copies.front()))) {
            other = reader;
            byRole = true;
          }
        });
        if (!other)
          continue;
        InFlightDiagnostic diag = tables[rank].getSchedule().emitOpError();
        diag << "replaces the input of rank " << rank
             << (byRole ? " by its communication role" : "")
             << " without a wait for a transfer that may still read that of "
                "the call before";
        diag.attachNote(graph.getTransfer(*other).getLoc()) << "the transfer";
        return diag;
      }
    }
    return success();
  }

  /// When a call ends, nothing is on its way to the rank's memory, and its own
  /// stream is through.
  LogicalResult checkEnd(int64_t rank) {
    const Seen &seen = order.atEnd(rank);
    if (order.getLength(CallOrder::getQueue(rank, Realization::CopyEngine)) &&
        !order.isThrough(rank, seen))
      return tables[rank].getSchedule().emitOpError()
             << "ends the call of rank " << rank
             << " without a wait for its copy engine";
    for (auto [queue, id] : arriving[rank])
      if (!CallOrder::isComplete(last[id], seen)) {
        InFlightDiagnostic diag = tables[rank].getSchedule().emitOpError();
        diag << "ends the call of rank " << rank
             << " without a wait for a transfer to it";
        diag.attachNote(graph.getTransfer(id).getLoc()) << "the transfer";
        return diag;
      }
    return success();
  }

  /// A twin is taken down before it is raised again.
  LogicalResult checkTwins() {
    for (const CallOrder::Twin &twin : order.getTwins()) {
      bool ordered;
      if (twin.raisingCommand) // in the next call
        ordered =
            isSameStream(twin.waiter, *twin.raisingCommand) ||
            order.wasComplete(twin.waiter, order.atStart(*twin.raisingCommand));
      else if (twin.raisingGroup) // likewise
        ordered = order.wasComplete(
            twin.waiter, order.atGroup(twin.raisingRank, *twin.raisingGroup));
      else if (twin.atEnd) // at the end of the call that took it down
        ordered =
            CallOrder::isComplete(twin.waiter, order.atEnd(twin.raisingRank));
      else
        ordered =
            order.wasComplete(twin.waiter, order.atStaging(twin.raisingRank));
      if (ordered)
        continue;
      return tables[twin.raisingRank].getSchedule().emitOpError()
             << "raises " << order.describe(twin.rank, twin.signal)
             << " again without a wait for the stream that takes it down";
    }
    return success();
  }

  /// Who touches a place, by the last one of each queue.
  struct Reuse {
    BoxIndex readers, writers;
  };

  Reuse &getReuse(Place place) {
    auto [it, isNew] =
        reuses.try_emplace({place.first, graph.getBufferIndex(place.second)});
    if (!isNew)
      return it->second;
    it->second.readers = keepLast(graph.getReaders(place),
                                  [&](unsigned id) { return getLastRead(id); });
    it->second.writers = keepLast(graph.getWriters(place),
                                  [&](unsigned id) { return last[id]; });
    return it->second;
  }

  /// The same regions, each with the last of a queue's transfers only.
  BoxIndex keepLast(BoxIndex &index, function_ref<Position(unsigned)> getEnd) {
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

  PlanGraph &graph;
  KernelOp kernel;
  ArrayRef<ScheduleTables> tables;
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
  std::vector<SmallVector<Position>> staging;
  std::vector<std::map<CallOrder::QueueId, unsigned>> arriving;
  std::map<std::pair<int64_t, int64_t>, Reuse> reuses;
};

struct CheckTables : impl::CheckTablesPassBase<CheckTables> {
  using Base::Base;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    PlanOp plan = getOperation();
    auto kernels = plan.getBody().getOps<KernelOp>();
    if (kernels.empty())
      return;
    KernelOp kernel = *kernels.begin();
    auto schedules = llvm::to_vector(plan.getBody().getOps<ScheduleOp>());
    llvm::sort(schedules, [](ScheduleOp a, ScheduleOp b) {
      return a.getRank() < b.getRank();
    });
    if (static_cast<int64_t>(schedules.size()) != plan.getNumRanks()) {
      plan.emitOpError() << "expects a schedule for each of its "
                         << plan.getNumRanks() << " ranks, but got "
                         << schedules.size();
      return signalPassFailure();
    }
    PlanGraph graph(plan);
    if (failed(graph.requireSignals()) || failed(graph.requireInputsKept()))
      return signalPassFailure();
    SmallVector<ScheduleTables> tables;
    for (ScheduleOp schedule : schedules) {
      FailureOr<ScheduleTables> read = ScheduleTables::read(schedule);
      if (failed(read) || failed(checkCommandRegions(graph, kernel, *read)))
        return signalPassFailure();
      tables.push_back(*read);
    }
    if (failed(Checker(graph, kernel, tables).check()))
      signalPassFailure();
  }
};

} // namespace
} // namespace syncopate
