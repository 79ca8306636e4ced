//===- TileSlots.cpp - where tiles are stored for library calls -----------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileSlots.h"
#include "passes/KernelDependence.h"

#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

/// Calls that a collective becomes at most if nothing says how many.
static constexpr int64_t kMaxDefaultCalls = 8;

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
  auto exchange = dyn_cast<AllToAllOp>(*collective);
  if (exchange && exchange.getRows()) {
    int64_t rows = collective.getSrc().getType().getShape().front();
    result.blockRows =
        exchange.getDst().getType().getShape().front() / result.parts;
    for (int64_t from = 0; from < result.parts; ++from) {
      result.placeOf.emplace_back(rows, -1);
      for (int64_t to = 0; to < result.parts; ++to)
        for (auto [k, row] : llvm::enumerate(exchange.getRowsOf(from, to)))
          if (row >= 0)
            result.placeOf.back()[row] =
                to * result.blockRows + static_cast<int64_t>(k);
    }
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
    if (result.isRouted())
      std::tie(part, lastPart) =
          std::pair<int64_t, int64_t>(0, result.parts - 1);
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

TileSlots::Piece TileSlots::findRun(int64_t row, int64_t rank) const {
  int64_t rows = collective.getSrc().getType().getShape().front();
  if (row >= rows)
    return {-1, {row, std::numeric_limits<int64_t>::max()}};
  if (isRouted()) {
    int64_t place = placeOf[rank][row];
    return {place < 0 ? -1 : place / blockRows, {row, row + 1}};
  }
  if (parts == 1)
    return {0, {row, rows}};
  int64_t part = row / blockRows;
  return {part, {row, std::min((part + 1) * blockRows, rows)}};
}

SmallVector<TileSlots::Piece> TileSlots::getPieces(int64_t tile,
                                                   int64_t rank) const {
  int64_t first = places[tile].first * sizes[0];
  SmallVector<Piece> pieces;
  for (int64_t row = 0; row < sizes[0]; row = pieces.back().rows.end) {
    Piece run = findRun(first + row, rank);
    if (!run.isSent() && !storesRows())
      break;
    int64_t end = std::min(run.rows.end - first, sizes[0]);
    if (!pieces.empty() && pieces.back().part == run.part)
      pieces.back().rows.end = end;
    else
      pieces.push_back({run.part, {row, end}});
  }
  return pieces;
}

bool TileSlots::isWhole(int64_t tile) const {
  return !storesRows() || (!isRouted() && getPieces(tile, 0).size() == 1);
}

int64_t TileSlots::countSlots(int64_t tile, int64_t part, int64_t rank) const {
  if (!storesRows())
    return 1;
  int64_t count = 0;
  for (const Piece &piece : getPieces(tile, rank))
    if (piece.part == part)
      count += piece.size();
  return count;
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
                                        ArrayRef<int64_t> waves,
                                        int64_t rank) const {
  // A unit is complete with its last tile, which stands for it.
  std::vector<std::pair<int64_t, int64_t>> last(units, {-1, -1});
  for (auto [position, tile] : llvm::enumerate(order))
    last[getUnit(tile)] = {position, tile};
  // What comes row by row is taken in the order of rows, whichever are complete
  // first.
  if (!leavesRows())
    llvm::sort(last);
  // A call takes as many slots of each block, whole units of them. One in
  // several blocks is in the last of their calls.
  std::vector<int64_t> callOfUnit(units, 0);
  for (int64_t kind = 0; kind < countKinds(); ++kind)
    for (int64_t part = 0; part < parts; ++part) {
      int64_t call = 0, slots = 0, end = countSlots(waves.front());
      for (auto [position, tile] : last) {
        if (part < getPart(tile) || part > getLastPart(tile))
          continue;
        int64_t count = countSlots(tile, part, kind);
        if (count == 0)
          continue;
        if (slots >= end) {
          ++call;
          end = slots +
                countSlots(waves[std::min<int64_t>(call, waves.size() - 1)]);
        }
        int64_t &ofUnit = callOfUnit[getUnit(tile)];
        ofUnit = std::max(ofUnit, call);
        slots += count;
      }
    }
  // Rows that are complete together are as good in their own order.
  if (areRows())
    llvm::sort(last, [&](auto a, auto b) {
      int64_t one = getUnit(a.second), other = getUnit(b.second);
      return std::pair(callOfUnit[one], one) <
             std::pair(callOfUnit[other], other);
    });
  Assignment result;
  for (int64_t unit : unitOfTile)
    result.tiles.push_back({callOfUnit[unit], kNoSlot, {0, 0}});
  // By call and part, the next slot.
  std::vector<SmallVector<int64_t>> next;
  for (const Call &call : getCalls(result.tiles)) {
    next.emplace_back();
    for (int64_t part = 0; part < parts; ++part)
      next.back().push_back(call.begin + part * call.slots);
  }
  std::vector<SlotRow> rows(units);
  for (auto [position, tile] : last) {
    SlotRow &row = rows[getUnit(tile)] = result.tiles[tile];
    SmallVector<int64_t> &slots = next[row.call];
    if (isWhole(tile)) {
      row.slot = slots[getPart(tile)];
      slots[getPart(tile)] += getHeight();
      continue;
    }
    row.parts.begin = result.parts.size();
    for (const Piece &piece : getPieces(tile, rank)) {
      result.parts.push_back({piece.rows.begin, piece.size(), kNoSlot});
      if (!piece.isSent())
        continue;
      result.parts.back().slot = slots[piece.part];
      slots[piece.part] += piece.size();
    }
    row.parts.end = result.parts.size();
  }
  for (auto [row, unit] : llvm::zip(result.tiles, unitOfTile))
    row = rows[unit];
  return result;
}

std::vector<TileSlots::Call> TileSlots::getCalls(ArrayRef<SlotRow> rows) const {
  // By call, the slots of the part that has the most.
  std::vector<int64_t> longest;
  for (int64_t kind = 0; kind < countKinds(); ++kind) {
    std::vector<SmallVector<int64_t>> counts(longest.size(),
                                             SmallVector<int64_t>(parts, 0));
    llvm::BitVector seen(units);
    for (auto [tile, row] : llvm::enumerate(rows)) {
      if (row.call >= static_cast<int64_t>(counts.size()))
        counts.resize(row.call + 1, SmallVector<int64_t>(parts, 0));
      if (seen.test(getUnit(tile)))
        continue;
      seen.set(getUnit(tile));
      for (int64_t part = getPart(tile); part <= getLastPart(tile); ++part)
        counts[row.call][part] += countSlots(tile, part, kind);
    }
    longest.resize(counts.size(), 0);
    for (auto [most, count] : llvm::zip(longest, counts))
      most = std::max(most, *llvm::max_element(count));
  }
  std::vector<Call> calls;
  int64_t begin = 0;
  if (areRows() && isa<ReduceScatterOp>(collective))
    for (int64_t slots : longest)
      begin += slots;
  for (int64_t slots : longest) {
    calls.push_back({begin, slots});
    begin += parts * slots;
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

std::optional<int64_t> TileSlots::getPlaceInBlock(int64_t tile) const {
  if (!leavesRows())
    return std::nullopt;
  return places[tile].first - getPart(tile) * (blockRows / sizes[0]);
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

std::vector<OutputRow> TileSlots::getOutputs(ArrayRef<Slots> slots,
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
  for (int64_t tile = 0, e = places.size(); tile < e; ++tile) {
    auto [down, across] = places[tile];
    grid[down * columns + (areRows() ? 0 : across)] = tile;
  }
  // The rank's block, and in front of which slots each call leaves it.
  bool exchanges = isa<AllToAllOp>(collective);
  int64_t part = parts > 1 ? rank : 0;
  SmallVector<Target> targets;
  int64_t before = 0, bytes = getSlotBytes();
  for (const Call &call : calls) {
    targets.push_back(getTarget(call, before, rank));
    before += call.slots;
  }
  for (int64_t peer = 0; peer < (exchanges ? parts : 1); ++peer) {
    const Slots &ofPeer = slots[exchanges ? peer : rank];
    // Where in the block a row of the buffer comes to lie.
    auto getPlace = [&](int64_t row) {
      int64_t begin = part * blockRows;
      return peer * blockRows + (isRouted() ? placeOf[peer][row] : row) - begin;
    };
    for (std::optional<int64_t> tile : grid) {
      if (!tile || part < getPart(*tile) || part > getLastPart(*tile))
        continue;
      const SlotRow &row = ofPeer.tiles[*tile];
      const Call &call = calls[row.call];
      int64_t moved = (peer - part) * call.slots - call.begin +
                      targets[row.call].offset / bytes;
      int64_t first = places[*tile].first * sizes[0];
      int64_t column = areRows() ? 0 : places[*tile].second;
      for (auto [index, piece] : llvm::enumerate(getPieces(*tile, peer))) {
        if (piece.part != part)
          continue;
        int64_t slot = isWhole(*tile)
                           ? row.slot
                           : ofPeer.parts[row.parts.begin + index].slot;
        // Rows that go to one rank side by side may part there.
        for (int64_t at = piece.rows.begin, end; at < piece.rows.end;
             at = end) {
          end = isRouted() ? at + 1 : piece.rows.end;
          while (end < piece.rows.end &&
                 getPlace(first + end) == getPlace(first + end - 1) + 1)
            ++end;
          outputs.push_back({getPlace(first + at), end - at, column,
                             slot + at - piece.rows.begin + moved});
        }
      }
    }
  }
  return outputs;
}
