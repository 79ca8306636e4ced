//===- LibraryCalls.cpp - a collective as calls of a library --------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LibraryCalls.h"
#include "passes/Boxes.h"
#include "passes/KernelDependence.h"
#include "passes/Realizations.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

/// Calls that a collective becomes at most if nothing says how many.
static constexpr int64_t kMaxDefaultCalls = 8;

CollectiveOpInterface syncopate::findLibraryCall(PlanOp plan) {
  for (auto collective : plan.getBody().getOps<CollectiveOpInterface>())
    if (isLibraryCall(collective))
      return collective;
  return {};
}

LibraryCall syncopate::getLibraryCall(CollectiveOpInterface collective) {
  return TypeSwitch<Operation *, LibraryCall>(collective)
      .Case([](AllReduceOp) { return CallAllReduce; })
      .Case([](ReduceScatterOp) { return CallReduceScatter; })
      .Case([](AllToAllOp) { return CallAllToAll; });
}

/// Tiles of every rank compute all of the buffer, and the collective comes
/// after nothing else.
static LogicalResult verifyProduced(CollectiveOpInterface collective,
                                    int64_t ranks) {
  std::vector<SmallVector<Box>> missing;
  BufferType type = collective.getSrc().getType();
  for (int64_t rank = 0; rank < ranks; ++rank)
    missing.push_back(
        {Box(SmallVector<int64_t>(type.getRank(), 0), type.getShape())});
  for (Value token : collective.getDependencies()) {
    auto produce = token.getDefiningOp<ProduceOp>();
    if (!produce || produce.getReduction())
      return collective->emitOpError(
          "expects to come after what tiles compute, and after nothing else, "
          "to be library calls");
    if (produce.getBuffer() == collective.getSrc())
      subtract(missing[produce.getRank()],
               Box(produce.getOffsets(), produce.getSizes()));
  }
  for (auto [rank, boxes] : llvm::enumerate(missing))
    if (!boxes.empty())
      return collective->emitOpError()
             << "expects tiles of rank " << rank
             << " to compute all of its buffer, to be library calls, but at "
                "offsets ["
             << boxes.front().offsets << "] sizes [" << boxes.front().sizes
             << "] it does not come after a chunk.produce of it";
  return success();
}

/// A call gives back all that the collective brings to a rank, or nothing.
static LogicalResult verifyOutputs(CollectiveOpInterface collective) {
  auto plan = cast<PlanOp>(collective->getParentOp());
  for (OutputOp output : plan.getBody().getOps<OutputOp>()) {
    if (output.getBuffer() != collective.getSrc() &&
        output.getBuffer() != collective.getDst())
      continue;
    BufferType type = collective.getDst().getType();
    SmallVector<int64_t, 4> offsets(type.getRank(), 0), sizes(type.getShape());
    if (isa<ReduceScatterOp>(collective))
      std::tie(offsets, sizes) = collective.getBlock(output.getRank());
    if (output.getBuffer() != collective.getDst() ||
        output.getOffsets() != ArrayRef<int64_t>(offsets) ||
        output.getSizes() != ArrayRef<int64_t>(sizes)) {
      InFlightDiagnostic diag =
          output.emitOpError()
          << "expects to give back what library calls bring to rank "
          << output.getRank() << ", offsets [" << offsets << "] sizes ["
          << sizes << "] of their buffer";
      diag.attachNote(collective->getLoc()) << "the calls";
      return diag;
    }
  }
  return success();
}

/// Nothing comes after what `token` says but the kernel.
static LogicalResult verifyLast(CollectiveOpInterface collective, Value token) {
  for (Operation *user : token.getUsers()) {
    if (isa<KernelOp, ClaimOp>(user))
      continue;
    if (isa<JoinOp>(user)) {
      if (failed(verifyLast(collective, user->getResult(0))))
        return failure();
      continue;
    }
    InFlightDiagnostic diag = collective->emitOpError(
        "expects nothing to come after it, to be library calls");
    diag.attachNote(user->getLoc()) << "this comes after it";
    return diag;
  }
  return success();
}

LogicalResult syncopate::verifyLibraryCall(CollectiveOpInterface collective) {
  auto plan = cast<PlanOp>(collective->getParentOp());
  BufferType type = collective.getSrc().getType();
  if (type.getRank() != 2)
    return collective->emitOpError()
           << "expects a buffer of rows and columns, to be library calls, but "
              "got "
           << type;
  if (!isa<AllReduceOp>(collective) && collective.getCutAxis() != 0)
    return collective->emitOpError()
           << "expects axis 0, to be library calls, but got "
           << *collective.getCutAxis();
  int64_t ranks = plan.getNumRanks();
  if (isa<AllToAllOp>(collective) && type.getShape().front() % ranks)
    return collective->emitOpError()
           << "expects blocks of one size, to be library calls, but got "
           << type.getShape().front() << " rows for " << ranks << " ranks";
  if (!llvm::equal(collective.getGroup(), llvm::seq<int64_t>(0, ranks)))
    return collective->emitOpError()
           << "expects a group of all " << ranks
           << " ranks in order, to be library calls, but got ["
           << collective.getGroup() << "]";
  for (auto transfer : plan.getBody().getOps<TransferOpInterface>())
    for (Value buffer : {transfer.getSrc(), transfer.getDst()})
      if (buffer == collective.getSrc() || buffer == collective.getDst()) {
        InFlightDiagnostic diag = collective->emitOpError(
            "expects no transfer to touch its buffers, to be library calls");
        diag.attachNote(transfer.getLoc()) << "the transfer";
        return diag;
      }
  for (InputOp input : plan.getBody().getOps<InputOp>())
    if (input.getBuffer() == collective.getDst())
      return collective->emitOpError(
          "expects no input in its buffers, to be library calls");
  if (failed(verifyOutputs(collective)))
    return failure();
  if (failed(verifyProduced(collective, ranks)))
    return failure();
  return verifyLast(collective, collective.getToken());
}

/// The origin of a tile is that of its footprint with the smallest offsets; the
/// others are parts of it further on.
static std::optional<SmallVector<AffineExpr>>
findOrigin(ArrayRef<FootprintOp> footprints, ArrayRef<int64_t> coordinates) {
  FootprintOp first = footprints.front();
  auto offset = [&](FootprintOp footprint, unsigned dim) {
    return evaluate(footprint.getMap().getResult(dim), coordinates).value_or(0);
  };
  for (FootprintOp footprint : footprints)
    if (std::pair(offset(footprint, 0), offset(footprint, 1)) <
        std::pair(offset(first, 0), offset(first, 1)))
      first = footprint;
  return llvm::to_vector(first.getMap().getResults());
}

FailureOr<TileSlots> TileSlots::find(KernelOp kernel,
                                     CollectiveOpInterface collective) {
  TileSlots result;
  result.kernel = kernel;
  result.collective = collective;
  result.shape =
      cast<PlanOp>(kernel->getParentOp()).getStrategyOrDefault().getSlots();
  SmallVector<FootprintOp> footprints;
  for (FootprintOp footprint : kernel.getFootprints())
    if (footprint.getAccess() == Access::Write &&
        kernel.getBoundBuffer(footprint.getArg()) == collective.getSrc())
      footprints.push_back(footprint);
  if (footprints.empty())
    return kernel.emitOpError(
        "expects a footprint of what its tiles write to the buffer of library "
        "calls; run chunk-infer-tile-footprints first");
  result.origin =
      *findOrigin(footprints, KernelDependence::getCoordinates(kernel, 0));
  if (!isa<AllReduceOp>(collective)) {
    result.parts = collective.getGroup().size();
    result.blockRows = collective.getBlock(0).second.front();
  }
  int64_t blockRows = result.blockRows;
  for (int64_t tile = 0, e = kernel.getNumTiles(); tile < e; ++tile) {
    auto coordinates = KernelDependence::getCoordinates(kernel, tile);
    SmallVector<int64_t> begin, end;
    for (unsigned dim = 0; dim < 2; ++dim) {
      begin.push_back(evaluate(result.origin[dim], coordinates).value_or(-1));
      end.push_back(0);
      for (FootprintOp footprint : footprints) {
        int64_t offset =
            evaluate(footprint.getMap().getResult(dim), coordinates)
                .value_or(-1);
        begin[dim] = std::min(begin[dim], offset);
        end[dim] = std::max(end[dim], offset + footprint.getSizes()[dim]);
      }
      end[dim] -= begin[dim];
    }
    auto shape = collective.getSrc().getType().getShape();
    if (tile == 0)
      result.sizes = end;
    if (result.sizes != end || begin[0] % end[0] || begin[1] % end[1] ||
        begin[0] < 0 || begin[1] < 0 || begin[0] >= shape[0] ||
        begin[1] >= shape[1])
      return kernel.emitOpError()
             << "expects tiles to write rectangles of one size, ["
             << result.sizes
             << "], at multiples of it, for library calls, but tile ["
             << ArrayRef(coordinates).take_front(kernel.getTiles().size())
             << "] writes offsets [" << begin << "] sizes [" << end << "]";
    int64_t part = blockRows ? begin[0] / blockRows : 0;
    int64_t last = std::min(begin[0] + end[0], shape[0]) - 1;
    int64_t lastPart = blockRows ? last / blockRows : 0;
    result.hasSplit |= lastPart > part;
    result.partOfTile.emplace_back(part, lastPart);
    int64_t row = begin[0] / end[0];
    result.places.emplace_back(row, begin[1] / end[1]);
    result.unitOfTile.push_back(result.areRows() ? row : tile);
    result.units = std::max(result.units, result.unitOfTile.back() + 1);
  }
  return result;
}

int64_t TileSlots::getSlotBytes() const {
  BufferType type = collective.getSrc().getType();
  return getRows() * (areRows() ? type.getShape()[1] : sizes[1]) *
         type.getElementBytes();
}

RowRange TileSlots::getBlock(int64_t part) const {
  int64_t rows = collective.getSrc().getType().getShape().front();
  if (parts == 1)
    return {0, rows};
  return {std::min(part * blockRows, rows),
          std::min((part + 1) * blockRows, rows)};
}

RowRange TileSlots::getRowsOfPart(int64_t tile, int64_t part) const {
  auto [begin, end] = getBlock(part);
  int64_t first = places[tile].first * sizes[0];
  return {std::clamp<int64_t>(begin - first, 0, sizes[0]),
          std::clamp<int64_t>(end - first, 0, sizes[0])};
}

bool TileSlots::isWhole(int64_t tile) const {
  if (!storesRows())
    return true;
  auto [begin, end] = getRowsOfPart(tile, getPart(tile));
  return end - begin == sizes[0];
}

SmallVector<SlotPartRow> TileSlots::getParts(int64_t tile) const {
  SmallVector<SlotPartRow> result;
  if (isWhole(tile))
    return result;
  int64_t covered = 0;
  for (int64_t part = getPart(tile); part <= getLastPart(tile); ++part) {
    auto [begin, end] = getRowsOfPart(tile, part);
    result.push_back({begin, end - begin, kNoSlot});
    covered = end;
  }
  if (covered < sizes[0])
    result.push_back({covered, sizes[0] - covered, kNoSlot});
  return result;
}

int64_t TileSlots::countSlots(int64_t tile, int64_t part) const {
  if (!storesRows())
    return 1;
  auto [begin, end] = getRowsOfPart(tile, part);
  return end - begin;
}

int64_t TileSlots::countSlots(int64_t waves) const {
  KernelOp op = kernel;
  int64_t tiles = partOfTile.size(), ctas = op.getCtas();
  // No kernel has as many waves as would make this product wrap.
  int64_t wanted = std::min(waves, llvm::divideCeilSigned(tiles, ctas)) * ctas;
  return llvm::divideCeilSigned(wanted * units * getHeight(), tiles * parts);
}

SmallVector<int64_t> TileSlots::chooseWaves(DenseI64ArrayAttr given) const {
  KernelOp op = kernel;
  if (given && !given.empty())
    return SmallVector<int64_t>(given.asArrayRef());
  int64_t all =
      llvm::divideCeilSigned<int64_t>(partOfTile.size(), op.getCtas());
  return {llvm::divideCeilSigned(all, kMaxDefaultCalls)};
}

TileSlots::Assignment TileSlots::assign(ArrayRef<int64_t> order,
                                        ArrayRef<int64_t> waves) const {
  // A unit is complete with its last tile, which stands for it.
  std::vector<std::pair<int64_t, int64_t>> last(units, {-1, -1});
  for (auto [position, tile] : llvm::enumerate(order))
    last[getUnit(tile)] = {position, tile};
  llvm::sort(last);
  std::vector<SmallVector<int64_t>> sequences(parts);
  for (auto [position, tile] : last)
    for (int64_t part = getPart(tile); part <= getLastPart(tile); ++part)
      sequences[part].push_back(tile);
  // A call takes as many slots of each block, whole units of them. One in
  // several blocks is in the last of their calls.
  std::vector<int64_t> callOfUnit(units, 0);
  for (auto [part, sequence] : llvm::enumerate(sequences)) {
    int64_t call = 0, slots = 0, end = countSlots(waves.front());
    for (int64_t tile : sequence) {
      if (slots >= end) {
        ++call;
        end = slots +
              countSlots(waves[std::min<int64_t>(call, waves.size() - 1)]);
      }
      int64_t &last = callOfUnit[getUnit(tile)];
      last = std::max(last, call);
      slots += countSlots(tile, part);
    }
  }
  // Rows that are complete together are as good in their own order.
  if (areRows())
    for (auto &sequence : sequences)
      llvm::sort(sequence, [&](int64_t a, int64_t b) {
        return std::pair(callOfUnit[getUnit(a)], getUnit(a)) <
               std::pair(callOfUnit[getUnit(b)], getUnit(b));
      });
  Assignment result;
  for (int64_t unit : unitOfTile)
    result.tiles.push_back({callOfUnit[unit], kNoSlot, {0, 0}});
  std::vector<Call> calls = getCalls(result.tiles);
  // By unit, its first slot in each block.
  std::vector<SmallVector<int64_t>> slots(units);
  for (auto [part, sequence] : llvm::enumerate(sequences)) {
    SmallVector<int64_t> next;
    for (const Call &call : calls)
      next.push_back(call.begin + part * call.slots);
    for (int64_t tile : sequence) {
      int64_t &slot = next[callOfUnit[getUnit(tile)]];
      slots[getUnit(tile)].push_back(slot);
      slot += countSlots(tile, part);
    }
  }
  std::vector<std::optional<RowRange>> ranges(units);
  for (auto [tile, row] : llvm::enumerate(result.tiles)) {
    int64_t unit = getUnit(tile);
    if (isWhole(tile)) {
      row.slot = slots[unit].front();
      continue;
    }
    if (!ranges[unit]) {
      int64_t begin = result.parts.size();
      llvm::append_range(result.parts, getParts(tile));
      for (auto [i, slot] : llvm::enumerate(slots[unit]))
        result.parts[begin + i].slot = slot;
      ranges[unit] = {begin, static_cast<int64_t>(result.parts.size())};
    }
    row.parts = *ranges[unit];
  }
  return result;
}

std::vector<TileSlots::Call> TileSlots::getCalls(ArrayRef<SlotRow> rows) const {
  std::vector<SmallVector<int64_t>> counts;
  llvm::BitVector seen(units);
  for (auto [tile, row] : llvm::enumerate(rows)) {
    if (row.call >= static_cast<int64_t>(counts.size()))
      counts.resize(row.call + 1, SmallVector<int64_t>(parts, 0));
    if (seen.test(getUnit(tile)))
      continue;
    seen.set(getUnit(tile));
    for (int64_t part = getPart(tile); part <= getLastPart(tile); ++part)
      counts[row.call][part] += countSlots(tile, part);
  }
  std::vector<Call> calls;
  int64_t begin = 0;
  if (areRows() && isa<ReduceScatterOp>(collective))
    for (const auto &count : counts)
      begin += *llvm::max_element(count);
  for (const auto &count : counts) {
    calls.push_back({begin, *llvm::max_element(count)});
    begin += parts * calls.back().slots;
  }
  return calls;
}

TileSlots::Target TileSlots::getTarget(Call call, int64_t before,
                                       int64_t rank) const {
  int64_t bytes = getSlotBytes(), part = call.slots * bytes;
  if (isa<ReduceScatterOp>(collective))
    return {areRows() ? before * bytes : call.begin * bytes + rank * part,
            part};
  if (leavesRows())
    return {before * bytes, blockRows / getRows() * bytes};
  return {call.begin * bytes, part};
}

bool TileSlots::leavesRows() const {
  return isa<AllToAllOp>(collective) && areRows() && !storesRows();
}

SmallVector<std::pair<Value, SlotBufferRow>>
TileSlots::getBuffers(ArrayRef<Call> calls) const {
  int64_t columns =
      areRows() ? collective.getSrc().getType().getShape()[1] : sizes[1];
  int64_t count = calls.back().begin + parts * calls.back().slots;
  SmallVector<std::pair<Value, SlotBufferRow>> buffers;
  for (Value buffer : {Value(collective.getSrc()), Value(collective.getDst())})
    if (buffers.empty() || (buffers.front().first != buffer && !leavesRows()))
      buffers.push_back({buffer, {0, getRows(), columns, count}});
  return buffers;
}

std::vector<OutputRow> TileSlots::getOutputs(ArrayRef<SlotRow> rows,
                                             ArrayRef<SlotPartRow> slotParts,
                                             ArrayRef<Call> calls,
                                             int64_t rank) const {
  std::vector<OutputRow> outputs;
  if (leavesRows())
    return outputs;
  ArrayRef<int64_t> shape = collective.getSrc().getType().getShape();
  int64_t columns =
      areRows() ? 1 : llvm::divideCeilSigned<int64_t>(shape[1], sizes[1]);
  // The first tiles of slots of rows of tiles, column by column.
  std::vector<std::optional<int64_t>> grid(
      llvm::divideCeilSigned<int64_t>(shape[0], sizes[0]) * columns);
  for (int64_t tile = 0, e = rows.size(); tile < e; ++tile) {
    auto [down, across] = places[tile];
    grid[down * columns + (areRows() ? 0 : across)] = tile;
  }
  // A block of the rank, and in front of which slots each call leaves it.
  int64_t part = parts > 1 ? rank : 0;
  auto [begin, end] = getBlock(part);
  if (begin == end)
    return outputs;
  SmallVector<Target> targets;
  int64_t before = 0, bytes = getSlotBytes();
  for (const Call &call : calls) {
    targets.push_back(getTarget(call, before, rank));
    before += call.slots;
  }
  int64_t peers = isa<AllToAllOp>(collective) ? parts : 1;
  for (int64_t peer = 0; peer < peers; ++peer)
    for (int64_t first = begin / sizes[0] * sizes[0]; first < end;
         first += sizes[0])
      for (int64_t column = 0; column < columns; ++column) {
        std::optional<int64_t> tile = grid[first / sizes[0] * columns + column];
        if (!tile)
          continue;
        const SlotRow &row = rows[*tile];
        const Call &call = calls[row.call];
        int64_t slot =
            isWhole(*tile)
                ? row.slot
                : slotParts[row.parts.begin + part - getPart(*tile)].slot;
        slot += (peer - part) * call.slots - call.begin +
                targets[row.call].offset / bytes;
        auto [from, to] = getRowsOfPart(*tile, part);
        outputs.push_back({peer * (end - begin) + first + from - begin,
                           to - from, column, slot});
      }
  return outputs;
}
