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
  BoxIndex &writers = graph.getWriters(place);
  if (writers.empty() || !graph.isAccumulated(place, region))
    return found;
  writers.forEachOverlap(region, [&](unsigned id) {
    if (graph.isBeforeTiles(id, place, region))
      found.push_back(id);
  });
  return found;
}

namespace {

/// A footprint, and what was found for the regions that tiles access by it, by
/// the coordinates that these depend on: tiles of a row of the grid read the
/// same region of an operand.
struct Accesses {
  static constexpr unsigned kUnknown = ~0u;

  Accesses(KernelOp kernel, FootprintOp footprint)
      : footprint(footprint),
        buffer(kernel.getBoundBuffer(footprint.getArg())) {
    int64_t regions = 1;
    for (size_t i = kernel.getTiles().size(); i-- > 0;)
      if (footprint.getMap().isFunctionOfDim(i)) {
        strides[i] = regions;
        regions *= kernel.getTiles()[i];
      }
    found.assign(regions, kUnknown);
  }

  unsigned &at(const std::array<int64_t, 3> &tile) {
    return found[tile[0] * strides[0] + tile[1] * strides[1] +
                 tile[2] * strides[2]];
  }

  FootprintOp footprint;
  TypedValue<BufferType> buffer;
  std::array<int64_t, 3> strides{0, 0, 0};
  std::vector<unsigned> found;
};

/// Numbers for sets of transfers, in the order in which they are met.
class Numbering {
public:
  unsigned get(SmallVector<unsigned> transfers) {
    auto [it, isNew] =
        numbers.try_emplace(std::move(transfers), numbers.size());
    if (isNew)
      sets.push_back(&it->first);
    return it->second;
  }
  ArrayRef<unsigned> operator[](unsigned number) const { return *sets[number]; }
  size_t size() const { return sets.size(); }

private:
  std::map<SmallVector<unsigned>, unsigned> numbers;
  std::vector<const SmallVector<unsigned> *> sets;
};

} // namespace

KernelDependence::KernelDependence(PlanGraph &graph, KernelOp kernel,
                                   int64_t rank)
    : rank(rank) {
  llvm::BitVector isAncestor(graph.size());
  for (unsigned id : graph.getAncestors(kernel.getDependencies()))
    isAncestor.set(id);
  SmallVector<Accesses> reads, writes;
  for (FootprintOp footprint : kernel.getFootprints())
    (footprint.getAccess() == Access::Read ? reads : writes)
        .emplace_back(kernel, footprint);

  // What regions need, and what tiles need, which is that of several regions.
  Numbering perRegion, perTile;
  perRegion.get({});
  using Regions = SmallVector<unsigned, 4>;
  std::map<Regions, unsigned> setOfRegions;
  auto findSet = [&](Regions &regions) {
    llvm::sort(regions);
    regions.erase(llvm::unique(regions), regions.end());
    auto [it, isNew] = setOfRegions.try_emplace(regions);
    if (isNew) {
      SmallVector<unsigned> needed;
      for (unsigned region : regions)
        llvm::append_range(needed, perRegion[region]);
      llvm::sort(needed);
      needed.erase(llvm::unique(needed), needed.end());
      it->second = perTile.get(std::move(needed));
    }
    return it->second;
  };
  auto findRegion =
      [&](Accesses &access,
          const std::array<int64_t, 3> &tile) -> FailureOr<unsigned> {
    Box region =
        getAccessedBox(access.footprint, access.buffer.getType(), tile);
    if (region.isEmpty())
      return 0;
    Place place{rank, access.buffer};
    if (access.footprint.getAccess() == Access::Write)
      return perRegion.get(findAccumulated(graph, place, region));
    auto transfers = findTransfers(graph, kernel, access.footprint, place,
                                   region, tile, isAncestor);
    if (failed(transfers))
      return failure();
    return perRegion.get(std::move(*transfers));
  };
  int64_t count = kernel.getNumTiles();
  setOf.reserve(count);
  summedSetOf.reserve(count);
  // Neighbours mostly need the same.
  Regions last[2], used;
  unsigned lastSet[2] = {~0u, ~0u};
  std::array<int64_t, 3> grid{1, 1, 1}, tile{0, 0, 0};
  llvm::copy(kernel.getTiles(), grid.begin());
  for (tile[0] = 0; tile[0] < grid[0]; ++tile[0])
    for (tile[1] = 0; tile[1] < grid[1]; ++tile[1])
      for (tile[2] = 0; tile[2] < grid[2]; ++tile[2])
        for (int kind : {0, 1}) {
          used.clear();
          for (Accesses &access : kind ? writes : reads) {
            unsigned &known = access.at(tile);
            if (known == Accesses::kUnknown) {
              FailureOr<unsigned> region = findRegion(access, tile);
              if (failed(region)) {
                valid = false;
                return;
              }
              known = *region;
            }
            used.push_back(known);
          }
          if (lastSet[kind] == ~0u || used != last[kind]) {
            last[kind] = used;
            lastSet[kind] = findSet(used);
          }
          (kind ? summedSetOf : setOf).push_back(lastSet[kind]);
        }
  for (unsigned number = 0; number < perTile.size(); ++number)
    sets.emplace_back(perTile[number]);
}
