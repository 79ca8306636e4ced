//===- KernelDependence.cpp - what each tile of a kernel waits for --------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KernelDependence.h"

#include "mlir/IR/AffineMap.h"

#include <algorithm>

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

std::array<int64_t, 3>
KernelDependence::getCoordinates(KernelOp kernel, int64_t tile,
                                 std::optional<int64_t> part) {
  std::array<int64_t, 3> coordinates{0, 0, 0};
  ArrayRef<int64_t> grid = kernel.getTiles();
  for (size_t i = grid.size(); i-- > 0;) {
    coordinates[i] = tile % grid[i];
    tile /= grid[i];
  }
  if (part)
    coordinates[2] = *part;
  return coordinates;
}

Box syncopate::getAccessedBox(FootprintOp footprint, BufferType type,
                              ArrayRef<int64_t> coordinates) {
  constexpr int64_t limit = BufferType::kMaxBytes;
  Box region;
  for (auto [expr, size, bound] :
       llvm::zip(footprint.getMap().getResults(), footprint.getSizes(),
                 type.getShape())) {
    // What does not fit lies outside every buffer.
    int64_t begin =
        std::clamp(evaluate(expr, coordinates).value_or(limit), -limit, limit);
    int64_t end = begin + size;
    begin = std::max<int64_t>(begin, 0);
    end = std::min(end, ShapedType::isDynamic(bound) ? limit : bound);
    region.offsets.push_back(begin);
    region.sizes.push_back(end - begin);
  }
  return region;
}

/// Reports the bytes in `missing`, and transfers that bring them to the rank
/// without the kernel coming after them.
static void reportMissing(PlanGraph &graph, KernelOp kernel,
                          FootprintOp footprint, int64_t rank,
                          ArrayRef<int64_t> coordinates, const Box &missing) {
  size_t dims = kernel.getTiles().size();
  InFlightDiagnostic diag = kernel.emitOpError();
  diag << "tile [" << coordinates.take_front(dims) << "] of rank " << rank
       << " would wait for ever: it reads " << footprint.getArgAttr()
       << " at offsets [" << missing.offsets << "] sizes [" << missing.sizes
       << "], which is no input of the rank and which no transfer that the "
          "kernel comes after brings";
  diag.attachNote(footprint.getLoc()) << "the tile reads by this footprint";
  Value buffer = kernel.getBoundBuffer(footprint.getArg());
  // The pieces of a transfer stand in the same place; say it once.
  llvm::DenseSet<Location> told;
  graph.getWriters({rank, buffer}).forEachOverlap(missing, [&](unsigned id) {
    Location where = graph.getTransfer(id).getLoc();
    if (told.insert(where).second)
      diag.attachNote(where) << "this transfer brings it, but the kernel does "
                                "not come after it";
  });
}

/// Reports a transfer that may overwrite what a tile reads.
static void reportRace(PlanGraph &graph, KernelOp kernel, FootprintOp footprint,
                       int64_t rank, ArrayRef<int64_t> coordinates,
                       unsigned writer) {
  InFlightDiagnostic diag = kernel.emitOpError();
  diag << "tile [" << coordinates.take_front(kernel.getTiles().size())
       << "] of rank " << rank << " reads of " << footprint.getArgAttr()
       << " what a transfer may be writing: the kernel does not come after it";
  diag.attachNote(graph.getTransfer(writer).getLoc()) << "the transfer";
  diag.attachNote(footprint.getLoc()) << "the tile reads by this footprint";
}

FailureOr<SmallVector<unsigned>>
KernelDependence::findTransfers(PlanGraph &graph, KernelOp kernel,
                                FootprintOp footprint, Place place,
                                const Box &region, ArrayRef<int64_t> tile,
                                const llvm::BitVector &isAncestor) {
  SmallVector<unsigned> found;
  SmallVector<Box> missing{region};
  graph.getInputIndex(place).forEachOverlap(region, [&](unsigned input) {
    subtract(missing, graph.getInputs(place)[input]);
  });
  mixed |=
      !missing.empty() && !(missing.size() == 1 && missing.front() == region);
  std::optional<unsigned> racing;
  graph.getWriters(place).forEachOverlap(region, [&](unsigned id) {
    if (!isAncestor.test(id)) {
      racing = id;
      return;
    }
    found.push_back(id);
    if (!missing.empty())
      subtract(missing, graph.getDstBox(id));
  });
  if (!missing.empty()) {
    reportMissing(graph, kernel, footprint, place.first, tile, missing.front());
    return failure();
  }
  if (racing) {
    reportRace(graph, kernel, footprint, place.first, tile, *racing);
    return failure();
  }
  return found;
}

SmallVector<unsigned> KernelDependence::findAccumulated(PlanGraph &graph,
                                                        Place place,
                                                        const Box &region) {
  SmallVector<unsigned> found;
  graph.getWriters(place).forEachOverlap(region, [&](unsigned id) {
    if (graph.isBeforeTiles(id, place, region))
      found.push_back(id);
  });
  return found;
}

KernelDependence::KernelDependence(PlanGraph &graph, KernelOp kernel,
                                   int64_t rank)
    : rank(rank) {
  llvm::BitVector isAncestor(graph.size());
  for (unsigned id : graph.getAncestors(kernel.getDependencies()))
    isAncestor.set(id);
  SmallVector<std::pair<FootprintOp, TypedValue<BufferType>>> accesses;
  for (FootprintOp footprint : kernel.getFootprints())
    accesses.emplace_back(footprint, kernel.getBoundBuffer(footprint.getArg()));

  // Tiles of a row of the grid read the same region of an operand, so the
  // transfers of a region are looked up once, and those of a set of regions
  // put together once. Region 0 is the empty one.
  std::map<
      std::tuple<unsigned, SmallVector<int64_t, 4>, SmallVector<int64_t, 4>>,
      unsigned>
      regions;
  SmallVector<SmallVector<unsigned>> perRegion(1);
  std::map<SmallVector<unsigned>, unsigned> setOfRegions, setNumbers;
  SmallVector<unsigned> used(accesses.size());
  // The set of what all accesses of one kind need.
  auto findSet = [&](Access kind) {
    SmallVector<unsigned> these = used;
    for (auto [region, access] : llvm::zip(these, accesses))
      if (FootprintOp footprint = access.first; footprint.getAccess() != kind)
        region = 0;
    auto [it, isNew] = setOfRegions.try_emplace(these);
    if (isNew) {
      SmallVector<unsigned> needed;
      for (unsigned region : these)
        llvm::append_range(needed, perRegion[region]);
      llvm::sort(needed);
      needed.erase(llvm::unique(needed), needed.end());
      it->second = setNumbers.try_emplace(needed, sets.size()).first->second;
      if (it->second == sets.size())
        sets.push_back(std::move(needed));
    }
    return it->second;
  };
  for (int64_t tile = 0, e = kernel.getNumTiles(); tile < e; ++tile) {
    std::array<int64_t, 3> coordinates = getCoordinates(kernel, tile);
    for (auto [number, access] : llvm::enumerate(accesses)) {
      auto [footprint, buffer] = access;
      Box region = getAccessedBox(footprint, buffer.getType(), coordinates);
      used[number] = 0;
      if (region.isEmpty())
        continue;
      auto [it, isNew] = regions.try_emplace(
          {number, region.offsets, region.sizes}, perRegion.size());
      used[number] = it->second;
      if (!isNew)
        continue;
      if (footprint.getAccess() == Access::Write) {
        perRegion.push_back(findAccumulated(graph, {rank, buffer}, region));
        continue;
      }
      auto transfers = findTransfers(graph, kernel, footprint, {rank, buffer},
                                     region, coordinates, isAncestor);
      if (failed(transfers)) {
        valid = false;
        return;
      }
      perRegion.push_back(std::move(*transfers));
    }
    setOf.push_back(findSet(Access::Read));
    summedSetOf.push_back(findSet(Access::Write));
  }
}
