//===- TableWriter.cpp - the tables of one rank ---------------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/TableWriter.h"
#include "lowering/RowPlan.h"
#include "passes/Exchanges.h"
#include "passes/LibraryCalls.h"
#include "passes/Realizations.h"
#include "passes/SignalLayout.h"
#include "passes/Tables.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

std::optional<ArrayRef<int64_t>> syncopate::getTileWaits(ScheduleOp schedule) {
  if (!schedule.getWaits() || !schedule.getTiles())
    return std::nullopt;
  ArrayRef<int64_t> values = schedule.getWaits()->getValues();
  int64_t end = 0;
  for (std::optional<TableAttr> table :
       {schedule.getTiles(), schedule.getSteps()}) {
    if (!table)
      continue;
    int64_t column = table->getColumn("wait_end");
    if (column < 0)
      return std::nullopt;
    for (int64_t row = 0, rows = table->getNumRows(); row < rows; ++row)
      end = std::max(end, table->getRow(row)[column]);
  }
  if (schedule.getWaits()->getColumns().size() != 2 ||
      end > schedule.getWaits()->getNumRows())
    return std::nullopt;
  return values.take_front(2 * end);
}

namespace {

/// Writes the tables of one rank.
class TableWriter {
public:
  TableWriter(PlanAnalysis &analysis, CallProtocol &protocol,
              ArrayRef<std::pair<unsigned, int64_t>> handed, KernelOp kernel,
              ScheduleOp schedule, int64_t pause)
      : analysis(analysis), graph(analysis.getGraph()),
        tileGroups(analysis.getGroups()), protocol(protocol), handed(handed),
        kernel(kernel), schedule(schedule), pause(pause),
        layout(*SignalLayout::fromTable(graph.getPlan())),
        exchanges(numberExchanges(graph.getPlan())), rank(schedule.getRank()),
        waits(*getTileWaits(schedule)) {}

  void write() {
    writeStaging();
    for (unsigned id = 0; id < graph.size(); ++id)
      if (isMine(id) && !graph.getTransfer(id).getTile())
        writeCommand(id);
    writeLibraryCalls();
    writeHandedOver();
    writeGroups();
    writeCalls();
    MLIRContext *context = schedule.getContext();
    schedule.setWaitsAttr(TableAttr::get(context, kWaitColumns, waits));
    schedule.setSignalsAttr(TableAttr::get(context, kSignalColumns, signals));
    schedule.setCommandsAttr(
        TableAttr::get(context, kCommandColumns, commands));
    schedule.setCallsAttr(TableAttr::get(context, kCallColumns, calls));
    schedule.setGroupsAttr(TableAttr::get(context, kGroupColumns, groups));
    schedule.setTileGroupsAttr(
        TableAttr::get(context, kTileGroupColumns, groupOfTile));
  }

private:
  int64_t numCommands() const {
    return commands.size() / std::size(kCommandColumns);
  }
  int64_t numWaits() const { return waits.size() / 2; }
  int64_t numSignals() const { return signals.size() / 3; }
  void addWait(int64_t signal, int64_t count) {
    llvm::append_range(waits, std::array<int64_t, 2>{signal, count});
  }
  void addSignal(int64_t to, int64_t signal, SignalKind kind) {
    llvm::append_range(signals, std::array<int64_t, 3>{to, signal, kind});
  }

  /// Rows of the wait and signal tables that belong to one transfer.
  struct Protocols {
    int64_t waitBegin, waitEnd, signalBegin, signalEnd;
  };

  /// Whether the rank carries a transfer out, alone or with another one.
  bool isMine(unsigned id) {
    return graph.getTransfer(id).getExecutor() == rank ||
           graph.getReadingRank(id) == rank;
  }

  void writeCommand(unsigned id) {
    TransferOpInterface transfer = graph.getTransfer(id);
    Realization realization = *transfer.getRealization();
    Protocols rows;
    rows.waitBegin = numWaits();
    if (exchanges[id] == kNoExchange)
      addCommandWaits(id, isEngine(realization));
    else if (exchangesBegun.insert(exchanges[id]).second)
      // All of an exchange starts when the first of it does.
      for (unsigned other = id; other < graph.size(); ++other)
        if (exchanges[other] == exchanges[id] && isMine(other))
          addCommandWaits(other, /*engine=*/true);
    rows.waitEnd = numWaits();
    rows.signalBegin = numSignals();
    // Who receives tells all others.
    if (transfer.getExecutor() == rank)
      addCommandSignals(id);
    rows.signalEnd = numSignals();
    appendCommands(id, graph.getSrcPlace(id), transfer.getSrcOffsets(),
                   graph.getDstPlace(id), transfer.getDstOffsets(),
                   transfer.getSizes(), realization, rows);
  }

  /// A command of the stream for each library call. Its source is the slots of
  /// all its tiles; parts of the source are those of the ranks.
  void writeLibraryCalls() {
    CollectiveOpInterface collective = findLibraryCall(graph.getPlan());
    if (!collective)
      return;
    TileSlots slots = *TileSlots::find(kernel, collective);
    LibraryCall kind = getLibraryCall(collective);
    SmallVector<SlotRow> rows;
    for (int64_t row = 0; row < schedule.getSlots()->getNumRows(); ++row) {
      ArrayRef<int64_t> values = schedule.getSlots()->getRow(row);
      rows.push_back({values[0], values[1], values[2]});
    }
    int64_t reduction = kNoReduction, bytes = slots.getSlotBytes();
    if (auto op = dyn_cast<AllReduceOp>(*collective))
      reduction = 1 + static_cast<int64_t>(op.getReduction());
    if (auto op = dyn_cast<ReduceScatterOp>(*collective))
      reduction = 1 + static_cast<int64_t>(op.getReduction());
    int64_t before = 0;
    for (auto [number, call] : llvm::enumerate(slots.getCalls(rows))) {
      int64_t begin = numWaits(), part = call.slots * bytes;
      addWait(layout.groupTwin(tileGroups.getGroupOfCall(rank, number)), 1);
      auto [to, stride] = slots.getTarget(call, before, rank);
      before += call.slots;
      int64_t count = kind == CallAllToAll ? slots.getNumParts() : 1;
      int64_t parts = kind == CallReduceScatter ? slots.getNumParts() : 1;
      llvm::append_range(commands,
                         std::array<int64_t, std::size(kCommandColumns)>{
                             kind,
                             rank,
                             graph.getBufferIndex(collective.getSrc()),
                             call.begin * bytes,
                             rank,
                             graph.getBufferIndex(collective.getDst()),
                             to,
                             count,
                             part,
                             part,
                             stride,
                             begin,
                             numWaits(),
                             numSignals(),
                             numSignals(),
                             static_cast<int64_t>(Realization::Nccl),
                             reduction,
                             0,
                             parts,
                             parts > 1 ? part : 0,
                             0,
                             kNoBuffer,
                             0,
                             0,
                             kNoExchange});
    }
  }

  /// The commands that tiles hand over, tile by tile in their order.
  void writeHandedOver() {
    for (auto [id, cta] : handed) {
      if (graph.getTransfer(id).getExecutor() != rank)
        continue;
      int64_t begin = numCommands();
      writeCommand(id);
      auto it = commandsOfTile
                    .try_emplace(*graph.getTransfer(id).getTile(),
                                 RowRange{begin, begin})
                    .first;
      it->second.end = numCommands();
    }
  }

  /// How many commands of its queue a role carries out before the first tile
  /// hands one over: those that come after no tile.
  int64_t countBeforeTiles() {
    if (commandsOfTile.empty())
      return 0;
    constexpr size_t columns = std::size(kCommandColumns);
    auto row = [&](int64_t number) {
      return reinterpret_cast<const CommandRow *>(&commands[columns * number]);
    };
    int64_t role = row(commandsOfTile.begin()->second.begin)->realization;
    llvm::BitVector needsTile(graph.size());
    for (unsigned id = 0; id < graph.size(); ++id)
      if (graph.getTransfer(id).getTile() ||
          !tileGroups.getGroups(id).empty() ||
          llvm::any_of(graph.getPredecessors(id),
                       [&](unsigned before) { return needsTile.test(before); }))
        needsTile.set(id);
    int64_t count = 0;
    for (int64_t number = 0; number < numCommands(); ++number) {
      const CommandRow *command = row(number);
      if (command->realization != role)
        continue;
      if (command->transfer != kStaging && needsTile.test(command->transfer))
        break;
      ++count;
    }
    return count;
  }

  /// Appends one command for each slice of a region that is rows with a stride.
  void appendCommands(int64_t id, Place src, ArrayRef<int64_t> srcOffsets,
                      Place dst, ArrayRef<int64_t> dstOffsets,
                      ArrayRef<int64_t> sizes, Realization realization,
                      const Protocols &rows) {
    // Stores to another rank hold up whatever else the SM asks the memory for;
    // remote loads do not, and beside a dedicated CTA nothing computes.
    bool rests =
        src.first == rank && dst.first != rank && isColocated(realization);
    Combination combination;
    std::array<int64_t, 3> count{kNoBuffer, 0, 0};
    if (id != kStaging) {
      TransferOpInterface transfer = graph.getTransfer(id);
      combination = getCombination(transfer);
      if (auto at = transfer.getCountAt())
        count = {graph.getBufferIndex(transfer.getCounts()), at->front(),
                 at->back()};
    }
    RowPlan plan = planRows(cast<BufferType>(src.second.getType()), srcOffsets,
                            cast<BufferType>(dst.second.getType()), dstOffsets,
                            sizes, count.front() != kNoBuffer);
    for (size_t i = 0; i < plan.starts.size(); ++i) {
      auto [from, to] = plan.starts[i];
      // Only the first slice waits, and only the last one signals.
      bool isFirst = i == 0, isLast = i + 1 == plan.starts.size();
      llvm::append_range(commands,
                         std::array<int64_t, std::size(kCommandColumns)>{
                             id,
                             src.first,
                             graph.getBufferIndex(src.second),
                             from.offset,
                             dst.first,
                             graph.getBufferIndex(dst.second),
                             to.offset,
                             plan.count,
                             plan.rowBytes,
                             from.stride,
                             to.stride,
                             rows.waitBegin,
                             isFirst ? rows.waitEnd : rows.waitBegin,
                             rows.signalBegin,
                             isLast ? rows.signalEnd : rows.signalBegin,
                             static_cast<int64_t>(realization),
                             combination.reduction,
                             rests ? pause : 0,
                             combination.parts,
                             combination.partStride,
                             combination.behind,
                             count[0],
                             count[1],
                             count[2],
                             id == kStaging ? kNoExchange : exchanges[id]});
    }
  }

  /// If other ranks' communication roles read this rank's input, a role of this
  /// rank first brings it into the buffer, from where the caller keeps it. The
  /// command copies a place onto itself; whoever issues it knows the source.
  /// The role is one that the kernel has for the readers' sake: the last of
  /// them, since loads and stores copy on one GPU as well as TMA does, and more
  /// CTAs share what is co-located.
  void writeStaging() {
    std::set<int64_t> readers;
    Realization role = Realization::CopyEngine;
    protocol.forEachReader(rank, [&](Queue queue) {
      if (!isDevice(queue.second))
        return;
      readers.insert(queue.first);
      role = std::max(role, queue.second);
    });
    if (readers.empty())
      return;
    SmallVector<std::pair<Place, Box>> inputs;
    for (BufferOp buffer : graph.getPlan().getBuffers()) {
      Place place{rank, buffer.getResult()};
      for (const Box &box : graph.getInputs(place))
        inputs.emplace_back(place, box);
    }
    Protocols rows;
    rows.waitBegin = numWaits();
    for (int64_t reader : readers)
      addWait(layout.done(reader), 0);
    rows.waitEnd = numWaits();
    rows.signalBegin = numSignals();
    for (int64_t reader : readers)
      addSignal(reader, layout.ready(rank), StoreEpoch);
    rows.signalEnd = numSignals();
    for (auto [index, input] : llvm::enumerate(inputs)) {
      Protocols part = rows;
      if (index > 0)
        part.waitEnd = part.waitBegin;
      if (index + 1 < inputs.size())
        part.signalEnd = part.signalBegin;
      auto &[place, box] = input;
      appendCommands(kStaging, place, box.offsets, place, box.offsets,
                     box.sizes, role, part);
    }
  }

  void addCommandWaits(unsigned id, bool engine) {
    // Who sends leaves it to who receives that there is room.
    if (graph.getTransfer(id).getExecutor() == rank) {
      for (int64_t peer : protocol.getGuards(id))
        engine ? addWait(layout.doneTwin(peer), 1)
               : addWait(layout.done(peer), 0);
      for (int64_t peer : protocol.getReady(id))
        addWait(engine ? layout.readyTwin(peer) : layout.ready(peer), 1);
    }
    for (unsigned before : graph.getPredecessors(id)) {
      if (graph.getWaitingRank(id, before) != rank)
        continue;
      // A stream carries its commands out one after another, and has taken
      // down a twin that it has waited for once.
      if (engine && (isOnMyStream(before) || !twinsSeen.insert(before).second))
        continue;
      addWait(engine ? layout.dataTwin(before) : layout.data(before), 1);
    }
    // What an executor has waited for once is done for the rest of the call.
    for (unsigned group : tileGroups.getGroups(id))
      if (isHeardHere(id, group) &&
          groupsSeen.insert({graph.getQueue(id).second, group}).second)
        addWait(engine ? layout.groupTwin(group) : layout.group(group), 1);
  }

  /// Whether this rank's stream carries a transfer out.
  bool isOnMyStream(unsigned id) {
    return graph.getQueue(id).first == rank &&
           isEngine(graph.getQueue(id).second);
  }

  /// Whether it is this rank that waits for a group of tiles before `id`: if
  /// two carry `id` out, each waits for its own tiles.
  bool isHeardHere(unsigned id, unsigned group) {
    return exchanges[id] == kNoExchange || tileGroups[group].rank == rank;
  }

  /// Whose executors wait for a group of this rank's tiles.
  void writeGroups() {
    int64_t first = tileGroups.getFirst(rank);
    int64_t end = tileGroups.getFirst(rank + 1);
    for (int64_t group = first; group < end; ++group) {
      std::set<std::pair<int64_t, bool>> listeners;
      for (unsigned id : tileGroups[group].transfers)
        listeners.insert(exchanges[id] == kNoExchange
                             ? std::pair(graph.getQueue(id).first,
                                         isEngine(graph.getQueue(id).second))
                             : std::pair(rank, true));
      if (tileGroups[group].call)
        listeners.insert({rank, true});
      int64_t begin = numSignals();
      for (auto [to, engine] : listeners)
        engine ? addSignal(to, layout.groupTwin(group), StoreOne)
               : addSignal(to, layout.group(group), StoreEpoch);
      llvm::append_range(groups, std::array<int64_t, 3>{tileGroups[group].tiles,
                                                        begin, numSignals()});
    }
    // The kernel looks at every tile, whether its rank has groups or not.
    if (graph.getPlan().getBody().getOps<ProduceOp>().empty())
      return;
    KernelDependence &dependence = analysis.getDependence(kernel, rank);
    std::vector<RowRange> storeWaits = addStoreWaits(dependence);
    groupOfTile.reserve(std::size(kTileGroupColumns) * kernel.getNumTiles());
    for (int64_t tile = 0, e = kernel.getNumTiles(); tile < e; ++tile) {
      int64_t group = tileGroups.getGroup(rank, tile);
      auto found = commandsOfTile.find(tile);
      RowRange handedOver =
          found == commandsOfTile.end() ? RowRange{0, 0} : found->second;
      llvm::append_range(
          groupOfTile,
          std::array<int64_t, 6>{
              group < 0 ? kNoGroup : group - first,
              !dependence.getSets()[dependence.getSummedSet(tile)].empty(),
              storeWaits[tile].begin, storeWaits[tile].end, handedOver.begin,
              handedOver.end});
    }
  }

  /// What tiles wait for before they add to what is there: of each queue the
  /// last transfer, unless an earlier tile of the CTA has waited for it.
  std::vector<RowRange> addStoreWaits(KernelDependence &dependence) {
    std::vector<RowRange> ranges(kernel.getNumTiles(), RowRange{0, 0});
    if (!dependence.hasSums())
      return ranges;
    std::map<SmallVector<unsigned>, RowRange> shared;
    std::map<std::pair<int64_t, Queue>, unsigned> waited;
    for (auto [position, tile] :
         llvm::enumerate(*analysis.getOrder(kernel, schedule))) {
      std::map<Queue, unsigned> last;
      for (unsigned id : dependence.getSets()[dependence.getSummedSet(tile)])
        last[graph.getQueue(id)] = id;
      SmallVector<unsigned> needed;
      // Which CTA stores a tile that several compute is not known, and so not
      // what it has waited for. It computes no other one after that.
      bool isShared = kernel.getPartAt(position).has_value();
      for (auto [queue, id] : last) {
        if (isShared) {
          needed.push_back(id);
          continue;
        }
        auto [it, isNew] = waited.try_emplace(
            {static_cast<int64_t>(position % kernel.getCtas()), queue}, id);
        if (!isNew && it->second >= id)
          continue;
        it->second = id;
        needed.push_back(id);
      }
      if (needed.empty())
        continue;
      auto [it, isNew] =
          shared.try_emplace(needed, RowRange{numWaits(), numWaits()});
      if (isNew) {
        for (unsigned id : needed)
          addWait(layout.data(id), 1);
        it->second.end = numWaits();
      }
      ranges[tile] = it->second;
    }
    return ranges;
  }

  /// Whoever waits for the transfer: the tiles and the end of the destination,
  /// the executors of what comes after it, and the ends of calls that a stream
  /// takes down twins of.
  void addCommandSignals(unsigned id) {
    int64_t dst = graph.getDstPlace(id).first;
    std::set<std::pair<int64_t, bool>> listeners;
    if (!protocol.isUnheard(id))
      listeners.insert({dst, false});
    else if (dst != rank)
      addSignal(dst, layout.data(protocol.getCounter(id)), AddOne);
    for (int64_t peer : protocol.getUnawareGuards(id))
      listeners.insert({peer, false});
    for (unsigned next : graph.getSuccessors(id)) {
      int64_t waiting = graph.getWaitingRank(next, id);
      bool engine = isEngine(graph.getQueue(next).second);
      if (waiting != rank || !engine || !isOnMyStream(id))
        listeners.insert({waiting, engine});
    }
    for (auto [to, engine] : listeners)
      engine ? addSignal(to, layout.dataTwin(id), StoreOne)
             : addSignal(to, layout.data(id), StoreEpoch);
  }

  /// A call ends only when all has come that others send, whether a tile reads
  /// it or not: what a rank says by \c done is that its memory is at rest. Nor
  /// before a stream that guards itself by this rank's twin has taken it down,
  /// for the end raises it again. The last transfer of a queue stands for those
  /// before it.
  void addArrivals() {
    std::map<Queue, unsigned> last;
    for (unsigned id = 0; id < graph.size(); ++id)
      if (graph.getQueue(id).first != rank &&
          !graph.getTransfer(id).getTile() &&
          (graph.getDstPlace(id).first == rank ||
           llvm::is_contained(protocol.getUnawareGuards(id), rank)))
        last[graph.getQueue(id)] = id;
    for (auto [queue, id] : last)
      addWait(layout.data(id), 1);
    for (auto [id, count] : protocol.getCounters(rank))
      addWait(layout.data(id), count);
  }

  void writeCalls() {
    int64_t openBegin = numSignals();
    int64_t guardBegin = numWaits();
    std::set<int64_t> readers, staged;
    std::set<std::pair<int64_t, bool>> opened;
    protocol.forEachReader(rank, [&](Queue queue) {
      // Communication roles hear of it from the staging command.
      if (isEngine(queue.second))
        opened.insert({queue.first, true});
      else
        staged.insert(queue.first);
      readers.insert(queue.first);
    });
    protocol.forEachWriter(rank, [&](Queue queue) {
      if (isEngine(queue.second)) {
        // The twin is raised again only when the stream has taken it down.
        opened.insert({queue.first, true});
        readers.insert(queue.first);
      } else if (!staged.count(queue.first)) {
        opened.insert({queue.first, false});
      }
    });
    for (auto [to, engine] : opened)
      engine ? addSignal(to, layout.readyTwin(rank), StoreOne)
             : addSignal(to, layout.ready(rank), StoreEpoch);
    // Before the input is replaced, all that read it must have ended.
    for (int64_t reader : readers)
      addWait(layout.done(reader), 0);
    int64_t closeWaitBegin = numWaits();
    bool hasEngine = static_cast<bool>(findLibraryCall(graph.getPlan()));
    for (unsigned id = 0; id < graph.size(); ++id)
      hasEngine |= isMine(id) && isEngine(graph.getQueue(id).second);
    if (hasEngine)
      addWait(layout.engineDone(), 1);
    addArrivals();
    int64_t closeBegin = numSignals();
    std::set<std::pair<int64_t, bool>> listeners;
    protocol.forEachGuardedBy(rank, [&](Queue queue) {
      listeners.insert({queue.first, isEngine(queue.second)});
    });
    // A rank also looks at `done` before it replaces its input.
    for (unsigned id = 0; id < graph.size(); ++id) {
      int64_t holder = graph.getSrcPlace(id).first;
      if (graph.getReadingRank(id) == rank && holder != rank)
        listeners.insert({holder, false});
    }
    // And before it opens a call to a stream.
    for (int64_t owner = 0; owner < layout.ranks; ++owner)
      protocol.forEachWriter(owner, [&](Queue queue) {
        if (queue.first == rank && isEngine(queue.second))
          listeners.insert({owner, false});
      });
    for (auto [to, engine] : listeners)
      addSignal(to, engine ? layout.doneTwin(rank) : layout.done(rank),
                engine ? StoreOne : StoreEpoch);
    calls = {openBegin,          closeBegin, guardBegin, closeWaitBegin,
             closeWaitBegin,     numWaits(), closeBegin, numSignals(),
             countBeforeTiles(), kNoBuffer,  0};
    if (kernel.getNeeds()) {
      calls.end()[-2] = graph.getBufferIndex(kernel.getNeeds());
      calls.end()[-1] = static_cast<int64_t>(*kernel.getNeedsAt());
    }
  }

  PlanAnalysis &analysis;
  PlanGraph &graph;
  const TileGroups &tileGroups;
  CallProtocol &protocol;
  ArrayRef<std::pair<unsigned, int64_t>> handed;
  KernelOp kernel;
  ScheduleOp schedule;
  int64_t pause;
  SignalLayout layout;
  /// By transfer.
  std::vector<int64_t> exchanges;
  int64_t rank;
  SmallVector<int64_t> waits, signals, commands, calls, groups, groupOfTile;
  /// Exchanges that a command of this rank belongs to.
  std::set<int64_t> exchangesBegun;
  /// Transfers whose twin a stream's command of this rank waits for.
  std::set<unsigned> twinsSeen;
  /// Groups of tiles that a command of this rank waits for, by realization.
  std::set<std::pair<Realization, unsigned>> groupsSeen;
  /// By tile, the commands that it hands over.
  std::map<int64_t, RowRange> commandsOfTile;
};

} // namespace

void syncopate::writeTables(PlanAnalysis &analysis, CallProtocol &protocol,
                            ArrayRef<std::pair<unsigned, int64_t>> handed,
                            KernelOp kernel, ScheduleOp schedule,
                            int64_t pause) {
  TableWriter(analysis, protocol, handed, kernel, schedule, pause).write();
}
