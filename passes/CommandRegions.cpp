//===- CommandRegions.cpp - commands move what their transfers say --------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/CommandRegions.h"
#include "passes/Exchanges.h"
#include "passes/Realizations.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

/// The box of a buffer that rows of bytes come to, if they are one.
static std::optional<Box> findBox(BufferType type, int64_t offset, int64_t rows,
                                  int64_t rowBytes, int64_t stride) {
  int64_t bytes = type.getElementBytes();
  if (offset < 0 || rows < 1 || rowBytes < 1 || offset % bytes ||
      rowBytes % bytes || (rows > 1 && stride % bytes))
    return std::nullopt;
  ArrayRef<int64_t> shape = type.getShape();
  size_t dims = shape.size();
  SmallVector<int64_t> strides(dims, 1);
  Box box;
  box.offsets.resize(dims);
  box.sizes.assign(dims, 1);
  int64_t element = offset / bytes, elements = 1;
  for (size_t i = dims; i-- > 0;) {
    strides[i] = elements;
    elements *= shape[i];
    box.offsets[i] = element % shape[i];
    element /= shape[i];
  }
  if (element)
    return std::nullopt;
  // A row fills inner dimensions, and a part of the one before them.
  int64_t left = rowBytes / bytes;
  for (size_t i = dims; i-- > 0 && left > 1;) {
    if (left % shape[i] == 0 && box.offsets[i] == 0) {
      box.sizes[i] = shape[i];
      left /= shape[i];
    } else {
      box.sizes[i] = left;
      left = 1;
    }
  }
  if (left != 1)
    return std::nullopt;
  if (rows > 1) {
    bool found = false;
    for (size_t i = 0; i < dims && !found; ++i)
      if (strides[i] == stride / bytes && box.sizes[i] == 1 &&
          box.offsets[i] + rows <= shape[i]) {
        box.sizes[i] = rows;
        found = true;
      }
    if (!found)
      return std::nullopt;
  }
  for (size_t i = 0; i < dims; ++i)
    if (box.offsets[i] + box.sizes[i] > shape[i])
      return std::nullopt;
  return box;
}

static int64_t getVolume(const Box &box) {
  int64_t volume = 1;
  for (int64_t size : box.sizes)
    volume *= size;
  return volume;
}

namespace {

/// Goes through the commands of one rank.
class Checker {
public:
  Checker(PlanGraph &graph, KernelOp kernel, const CarriedOut &carriedOut,
          const ScheduleTables &tables)
      : graph(graph), kernel(kernel), carriedOut(carriedOut), tables(tables),
        rank(tables.getRank()), buffers(graph.getPlan().getBuffers()) {}

  LogicalResult check() {
    if (failed(findExpected()))
      return failure();
    for (auto [row, command] : llvm::enumerate(tables.getCommands())) {
      if (command.pause < 0 || command.pause > StrategyAttr::kMaxPause)
        return report(row) << "expects pause to be in [0, "
                           << StrategyAttr::kMaxPause << "], but got "
                           << command.pause;
      if (isLibraryCall(command.transfer)) {
        if (command.realization != static_cast<int64_t>(Realization::Nccl))
          return report(row) << "is a library call, but has realization "
                             << command.realization;
        continue;
      }
      if (command.transfer == kStaging) {
        if (failed(checkStaging(row, command)))
          return failure();
        continue;
      }
      if (started && missing.empty() && command.transfer != expected.front())
        pass();
      if (expected.empty() || command.transfer != expected.front())
        return report(row) << "carries out transfer " << command.transfer
                           << ", but expects "
                           << (expected.empty()
                                   ? "no further one"
                                   : "transfer " +
                                         Twine(expected.front()).str());
      if (failed(checkCommand(row, command)) ||
          failed(checkTile(row, command.transfer)))
        return failure();
    }
    if (started && missing.empty())
      pass();
    if (!expected.empty())
      return graph.getTransfer(expected.front()).emitOpError()
             << "is carried out "
             << (started ? "only in part by the commands of rank "
                         : "by no command of rank ")
             << rank;
    return checkAllStaged();
  }

private:
  /// The transfers of the rank in the order of their commands.
  LogicalResult findExpected() {
    std::map<int64_t, SmallVector<unsigned>> ofTile;
    for (unsigned id : carriedOut.ofRank[rank]) {
      if (auto tile = graph.getTransfer(id).getTile())
        ofTile[*tile].push_back(id);
      else
        transfers.push_back(id);
    }
    if (!ofTile.empty()) {
      FailureOr<SmallVector<int64_t>> order =
          readTileOrder(kernel, tables.getSchedule());
      if (failed(order))
        return failure();
      for (int64_t tile : *order)
        llvm::append_range(transfers, ofTile[tile]);
    }
    for (auto [tile, row] : llvm::enumerate(tables.getTileGroups()))
      for (int64_t number = row.commands.begin; number < row.commands.end;
           ++number)
        tileOf[number] = tile;
    expected = transfers;
    return success();
  }

  /// Goes on to the next transfer.
  void pass() {
    started = false;
    expected = expected.drop_front();
  }

  LogicalResult checkTile(int64_t row, unsigned id) {
    auto it = tileOf.find(row);
    int64_t tile = it == tileOf.end() ? Queue::kNoTile : it->second;
    int64_t named = graph.getQueue(id).tile;
    if (tile == named)
      return success();
    InFlightDiagnostic diag = report(row);
    if (tile == Queue::kNoTile)
      diag << "is handed over by no tile";
    else
      diag << "is handed over by tile " << tile;
    if (named == Queue::kNoTile)
      return diag << ", but its transfer by none";
    return diag << ", but its transfer by tile " << named;
  }

  InFlightDiagnostic report(int64_t row) {
    int64_t transfer = tables.getCommands()[row].transfer;
    Location where =
        transfer >= 0 && transfer < static_cast<int64_t>(graph.size())
            ? graph.getTransfer(transfer).getLoc()
            : tables.getSchedule().getLoc();
    return emitError(where) << "command " << row << " of rank " << rank << " ";
  }

  LogicalResult checkCommand(int64_t row, const CommandRow &command) {
    unsigned id = command.transfer;
    TransferOpInterface transfer = graph.getTransfer(id);
    if (!started) {
      started = true;
      missing.assign({graph.getSrcBox(id)});
      left = getVolume(missing.front());
    }
    if (command.realization != static_cast<int64_t>(*transfer.getRealization()))
      return report(row) << "has realization " << command.realization
                         << ", but its transfer has '"
                         << stringifyRealization(*transfer.getRealization())
                         << "'";
    if (command.exchange != carriedOut.exchanges[id])
      return report(row) << "is of exchange " << command.exchange
                         << ", but its transfer of "
                         << carriedOut.exchanges[id];
    if (failed(checkCombination(row, command, getCombination(transfer),
                                "its transfer has")))
      return failure();
    std::array<int64_t, 3> count{kNoBuffer, 0, 0};
    if (auto at = transfer.getCountAt())
      count = {graph.getBufferIndex(transfer.getCounts()), at->front(),
               at->back()};
    if (count != std::array<int64_t, 3>{command.countBuffer, command.countIndex,
                                        command.countPast})
      return report(row) << "reads its number of rows from element "
                         << command.countIndex << " of buffer "
                         << command.countBuffer << " less " << command.countPast
                         << ", but its transfer from " << count[1] << " of "
                         << count[0] << " less " << count[2];
    if (count.front() != kNoBuffer &&
        command.rows != transfer.getSizes().front())
      return report(row) << "moves at most " << command.rows
                         << " rows, but its transfer "
                         << transfer.getSizes().front();
    std::optional<Box> src =
        checkEnd(row, "source", command.src, graph.getSrcPlace(id), command,
                 command.srcStride);
    if (!src || failed(checkParts(row, command, *src)))
      return failure();
    std::optional<Box> dst =
        checkEnd(row, "destination", command.dst, graph.getDstPlace(id),
                 command, command.dstStride);
    if (!dst)
      return failure();
    bool alike = src->sizes == dst->sizes;
    for (size_t i = 0; i < src->offsets.size() && alike; ++i)
      alike = src->offsets[i] - transfer.getSrcOffsets()[i] ==
              dst->offsets[i] - transfer.getDstOffsets()[i];
    if (!alike)
      return report(row) << "moves offsets [" << src->offsets << "] sizes ["
                         << src->sizes << "] to offsets [" << dst->offsets
                         << "] sizes [" << dst->sizes
                         << "], which is not how transfer " << id
                         << " moves them";
    // What is left to move becomes smaller by all that a command moves, unless
    // another one has moved some of it, or it is no part of the transfer.
    subtract(missing, *src);
    int64_t before = left;
    left = 0;
    for (const Box &box : missing)
      left += getVolume(box);
    if (before - left != getVolume(*src))
      return report(row) << "moves offsets [" << src->offsets << "] sizes ["
                         << src->sizes << "] of its source, but transfer " << id
                         << " moves no such part, or has moved some of it "
                            "before";
    return success();
  }

  LogicalResult checkCombination(int64_t row, const CommandRow &command,
                                 const Combination &expected, StringRef whose) {
    for (auto [what, found, wanted] :
         {std::tuple("reduction", command.reduction, expected.reduction),
          std::tuple("parts", command.parts, expected.parts),
          std::tuple("part_stride", command.partStride, expected.partStride),
          std::tuple("behind", command.behind, expected.behind)})
      if (found != wanted)
        return report(row) << "has " << what << " " << found << ", but "
                           << whose << " " << wanted;
    return success();
  }

  /// The parts of a command lie to one another as those of its transfer, of
  /// which `first` is in the first one.
  LogicalResult checkParts(int64_t row, const CommandRow &command,
                           const Box &first) {
    TransferOpInterface transfer = graph.getTransfer(command.transfer);
    for (int64_t part = 1; part < command.parts; ++part) {
      CommandEnd end = command.src;
      end.offset += part * command.partStride;
      std::optional<Box> box =
          checkEnd(row, "source", end, graph.getSrcPlace(command.transfer),
                   command, command.srcStride);
      if (!box)
        return failure();
      Box expected = first;
      for (auto [offset, distance] :
           llvm::zip(expected.offsets, *transfer.getStep()))
        offset += part * distance;
      if (!(*box == expected))
        return report(row) << "has part " << part << " at offsets ["
                           << box->offsets << "], but its transfer at ["
                           << expected.offsets << "]";
    }
    return success();
  }

  /// The box of one end of a command, if it lies where the transfer says.
  std::optional<Box> checkEnd(int64_t row, StringRef what, CommandEnd end,
                              Place place, const CommandRow &command,
                              int64_t stride) {
    int64_t buffer = graph.getBufferIndex(place.second);
    if (end.rank != place.first || end.buffer != buffer) {
      report(row) << "has its " << what << " in buffer " << end.buffer
                  << " of rank " << end.rank << ", but its transfer in buffer "
                  << buffer << " of rank " << place.first;
      return std::nullopt;
    }
    auto type = cast<BufferType>(place.second.getType());
    std::optional<Box> box =
        findBox(type, end.offset, command.rows, command.rowBytes, stride);
    if (!box)
      report(row) << "has a " << what << " of " << command.rows << " rows of "
                  << command.rowBytes << " bytes with stride " << stride
                  << " at byte " << end.offset << ", which is no region of "
                  << type;
    return box;
  }

  LogicalResult checkStaging(int64_t row, const CommandRow &command) {
    if (!carriedOut.roles.count(static_cast<Realization>(command.realization)))
      return report(row) << "stages an input by realization "
                         << command.realization
                         << ", but expects that of a communication role which "
                            "carries out a transfer of the plan";
    // So that the end of the last copy is the end of all.
    if (stagingRole.value_or(command.realization) != command.realization)
      return report(row) << "stages an input by realization "
                         << command.realization
                         << ", but another part of it is staged by "
                         << *stagingRole;
    stagingRole = command.realization;
    if (failed(checkCombination(row, command, Combination(),
                                "stages an input, which is to have")))
      return failure();
    if (command.countBuffer != kNoBuffer)
      return report(row) << "stages an input, so it has to move all of it, but "
                            "reads its number of rows from buffer "
                         << command.countBuffer;
    if (command.src.rank != rank || command.dst.rank != rank ||
        command.src.buffer != command.dst.buffer ||
        command.src.offset != command.dst.offset ||
        command.srcStride != command.dstStride || command.src.buffer < 0 ||
        command.src.buffer >= static_cast<int64_t>(buffers.size()))
      return report(row) << "stages an input, so it has to copy a place of its "
                            "rank onto itself";
    Place place{rank, buffers[command.src.buffer].getResult()};
    std::optional<Box> box =
        checkEnd(row, "source", command.src, place, command, command.srcStride);
    if (!box)
      return failure();
    SmallVector<Box> outside{*box};
    for (const Box &input : graph.getInputs(place))
      subtract(outside, input);
    if (!outside.empty())
      return report(row) << "stages offsets [" << box->offsets << "] sizes ["
                         << box->sizes << "], which is no input of the rank";
    staged[command.src.buffer].push_back(*box);
    return success();
  }

  LogicalResult checkAllStaged() {
    if (staged.empty())
      return success();
    for (auto [index, buffer] : llvm::enumerate(buffers)) {
      auto inputs = graph.getInputs({rank, buffer.getResult()});
      SmallVector<Box> rest(inputs.begin(), inputs.end());
      for (const Box &box : staged[index])
        subtract(rest, box);
      if (!rest.empty())
        return tables.getSchedule().emitOpError()
               << "stages a part of its rank's input only: offsets ["
               << rest.front().offsets << "] sizes [" << rest.front().sizes
               << "] of " << buffer.getNameAttr() << " are missing";
    }
    return success();
  }

  PlanGraph &graph;
  KernelOp kernel;
  const CarriedOut &carriedOut;
  const ScheduleTables &tables;
  int64_t rank;
  SmallVector<BufferOp> buffers;
  /// The transfers of the rank, and those that are left; by command, the tile
  /// that hands it over.
  SmallVector<unsigned> transfers;
  ArrayRef<unsigned> expected;
  llvm::DenseMap<int64_t, int64_t> tileOf;
  /// Whether commands of the present transfer have been seen, and what of it
  /// they leave.
  bool started = false;
  SmallVector<Box> missing;
  int64_t left = 0;
  /// The realization of the role that stages.
  std::optional<int64_t> stagingRole;
  /// By buffer, what is staged.
  std::map<int64_t, SmallVector<Box>> staged;
};

} // namespace

CarriedOut::CarriedOut(PlanGraph &graph)
    : exchanges(numberExchanges(graph.getPlan())),
      ofRank(graph.getPlan().getNumRanks()), roles(getRoles(graph.getPlan())) {
  for (unsigned id = 0; id < graph.size(); ++id) {
    int64_t executor = graph.getTransfer(id).getExecutor();
    int64_t reader = graph.getReadingRank(id);
    ofRank[executor].push_back(id);
    // One that a rank sends and another receives is a command of both.
    if (reader != executor)
      ofRank[reader].push_back(id);
  }
}

LogicalResult syncopate::checkCommandRegions(PlanGraph &graph, KernelOp kernel,
                                             const CarriedOut &carriedOut,
                                             const ScheduleTables &tables) {
  return Checker(graph, kernel, carriedOut, tables).check();
}
