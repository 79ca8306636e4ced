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

/// Begins an error at a read, in words that name the tile and the step.
static InFlightDiagnostic reportTile(KernelOp kernel, FootprintOp footprint,
                                     int64_t rank,
                                     ArrayRef<int64_t> coordinates) {
  size_t dims = kernel.getTiles().size();
  InFlightDiagnostic diag = kernel.emitOpError();
  if (footprint.takesStep())
    diag << "step " << coordinates[dims] << " of ";
  diag << "tile [" << coordinates.take_front(dims) << "] of rank " << rank;
  return diag;
}

/// Reports the bytes in `missing`, and transfers that bring them to the rank
/// without the kernel coming after them.
static void reportMissing(PlanGraph &graph, KernelOp kernel,
                          FootprintOp footprint, int64_t rank,
                          ArrayRef<int64_t> coordinates, const Box &missing) {
  InFlightDiagnostic diag = reportTile(kernel, footprint, rank, coordinates);
  diag << " would wait for ever: it reads " << footprint.getArgAttr()
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
  InFlightDiagnostic diag = reportTile(kernel, footprint, rank, coordinates);
  diag << " reads of " << footprint.getArgAttr()
       << " what a transfer may be writing: the kernel does not come after it";
  diag.attachNote(graph.getTransfer(writer).getLoc()) << "the transfer";
  diag.attachNote(footprint.getLoc()) << "the tile reads by this footprint";
}

FailureOr<SmallVector<unsigned>> KernelDependence::findTransfers(
    PlanGraph &graph, KernelOp kernel, FootprintOp footprint, Place place,
    const Box &region, ArrayRef<int64_t> coordinates,
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
    reportMissing(graph, kernel, footprint, place.first, coordinates,
                  missing.front());
    return failure();
  }
  if (racing) {
    reportRace(graph, kernel, footprint, place.first, coordinates, *racing);
    return failure();
  }
  return found;
}

/// Whether transfers may bring to a place what tiles add to.
static bool mayAccumulate(PlanGraph &graph, Place place) {
  return !graph.getWriters(place).empty() &&
         llvm::any_of(graph.getProduced(place), [](ProduceOp produce) {
           return produce.getReduction().has_value();
         });
}

SmallVector<unsigned> KernelDependence::findAccumulated(PlanGraph &graph,
                                                        Place place,
                                                        const Box &region) {
  SmallVector<unsigned> found;
  if (!graph.isAccumulated(place, region))
    return found;
  graph.getWriters(place).forEachOverlap(region, [&](unsigned id) {
    if (graph.isBeforeTiles(id, place, region))
      found.push_back(id);
  });
  return found;
}

namespace {

/// What is known of the regions that tiles of a rank access by a footprint.
struct Accesses {
  static constexpr unsigned kUnknown = ~0u;

  explicit Accesses(const TileBoxes &boxes)
      : boxes(&boxes), found(boxes.size(), kUnknown) {}

  const TileBoxes *boxes;
  /// By region, the number of the set of transfers that bring it.
  std::vector<unsigned> found;
  /// The regions that need what the last one does that was looked up.
  BoxCell cell;
  unsigned last = kUnknown;
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
  const llvm::BitVector &isAncestor = graph.getBeforeKernel(kernel);
  SmallVector<Accesses> reads, writes;
  SmallVector<FootprintOp> stepReads;
  for (FootprintOp footprint : kernel.getFootprints())
    if (footprint.takesStep())
      stepReads.push_back(footprint);
    else if (footprint.getAccess() == Access::Read)
      reads.emplace_back(graph.getTileBoxes(footprint));
    else if (mayAccumulate(graph,
                           {rank, kernel.getBoundBuffer(footprint.getArg())}))
      writes.emplace_back(graph.getTileBoxes(footprint));

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
  auto lookUp = [&](Accesses &access, const Box &region,
                    const Coordinates &tile) -> FailureOr<unsigned> {
    FootprintOp footprint = access.boxes->getFootprint();
    Place place{rank, access.boxes->getBuffer()};
    bool writes = footprint.getAccess() == Access::Write;
    access.cell.surround(region, {&graph.getWriters(place),
                                  writes ? &graph.getProducedIndex(place)
                                         : &graph.getInputIndex(place)});
    if (writes)
      return perRegion.get(findAccumulated(graph, place, region));
    auto transfers = findTransfers(graph, kernel, footprint, place, region,
                                   tile, isAncestor);
    if (failed(transfers))
      return failure();
    return perRegion.get(std::move(*transfers));
  };
  auto findRegion = [&](Accesses &access, const Box &region,
                        const Coordinates &tile) -> FailureOr<unsigned> {
    if (region.isEmpty())
      return 0;
    if (!access.cell.contains(region)) {
      FailureOr<unsigned> number = lookUp(access, region, tile);
      if (failed(number))
        return failure();
      access.last = *number;
    }
    return access.last;
  };
  int64_t count = kernel.getNumTiles();
  for (int kind : {0, 1}) {
    std::vector<unsigned> &setOfTile = kind ? summedSetOf : setOf;
    MutableArrayRef<Accesses> accesses = kind ? writes : reads;
    // Neighbours mostly need the same.
    Regions last, used;
    unsigned lastSet = findSet(last);
    if (accesses.empty()) {
      setOfTile.assign(count, lastSet);
      continue;
    }
    // Tiles that differ in other coordinates only access the same.
    Coordinates grid = getGrid(kernel), seen{1, 1, 1}, strides{0, 0, 0};
    int64_t kinds = 1;
    for (size_t i = grid.size(); i-- > 0;)
      if (llvm::any_of(accesses, [&](const Accesses &access) {
            return access.boxes->dependsOn(i);
          })) {
        seen[i] = grid[i];
        strides[i] = kinds;
        kinds *= grid[i];
      }
    std::vector<unsigned> setOfKind;
    setOfKind.reserve(kinds);
    valid &= forEachTile(seen, [&](const Coordinates &tile) {
      used.clear();
      for (Accesses &access : accesses) {
        size_t number = access.boxes->getNumber(tile);
        unsigned &known = access.found[number];
        if (known == Accesses::kUnknown) {
          FailureOr<unsigned> region =
              findRegion(access, (*access.boxes)[number], tile);
          if (failed(region))
            return false;
          known = *region;
        }
        used.push_back(known);
      }
      if (used != last) {
        last = used;
        lastSet = findSet(used);
        sums |= kind == 1 && !perTile[lastSet].empty();
      }
      setOfKind.push_back(lastSet);
      return true;
    });
    if (!valid)
      return;
    // Those that differ in the last coordinates stand one behind the other.
    int64_t run = 1;
    for (size_t i = grid.size(); i-- > 0 && strides[i] == 0;)
      run *= std::exchange(grid[i], 1);
    setOfTile.reserve(count);
    forEachTile(grid, [&](const Coordinates &tile) {
      setOfTile.insert(setOfTile.end(), run,
                       setOfKind[tile[0] * strides[0] + tile[1] * strides[1] +
                                 tile[2] * strides[2]]);
      return true;
    });
  }
  auto findAtStep = [&](FootprintOp footprint,
                        ArrayRef<int64_t> coordinates) -> FailureOr<unsigned> {
    auto buffer = kernel.getBoundBuffer(footprint.getArg());
    Box region = getAccessedBox(footprint, buffer.getType(), coordinates);
    if (region.isEmpty())
      return 0;
    auto transfers = findTransfers(graph, kernel, footprint, {rank, buffer},
                                   region, coordinates, isAncestor);
    if (failed(transfers))
      return failure();
    return perRegion.get(std::move(*transfers));
  };
  valid = succeeded(findSteps(
      kernel, stepReads,
      [&](ArrayRef<int64_t> coordinates) -> FailureOr<unsigned> {
        Regions regions;
        for (FootprintOp footprint : stepReads) {
          FailureOr<unsigned> region = findAtStep(footprint, coordinates);
          if (failed(region))
            return failure();
          regions.push_back(*region);
        }
        return findSet(regions);
      }));
  if (!valid)
    return;
  for (unsigned number = 0; number < perTile.size(); ++number)
    sets.emplace_back(perTile[number]);
}

LogicalResult KernelDependence::findSteps(KernelOp kernel,
                                          ArrayRef<FootprintOp> reads,
                                          Numbered find) {
  StepsOp steps = kernel.getSteps(rank);
  if (!steps) {
    if (reads.empty())
      return success();
    FootprintOp read = reads.front();
    return read.emitOpError() << "expects a chunk.steps in the body of the "
                                 "kernel, which says what "
                                 "steps a tile has";
  }
  ArrayRef<int64_t> grid = kernel.getTiles();
  int64_t behind = 0;
  for (int64_t tile = 0, e = kernel.getNumTiles(); tile < e; ++tile) {
    auto coordinates = getCoordinates(kernel, tile);
    auto range = steps.getRange(coordinates);
    if (!range)
      return steps.emitOpError()
             << "expects steps in [0, " << StepsOp::kMaxStep
             << "), but those of tile ["
             << ArrayRef(coordinates).take_front(grid.size())
             << "] are not all in it";
    stepsOf.push_back({0, range->first, range->second});
    behind = std::max(behind, range->second);
  }
  // Tiles that differ in other coordinates only read alike.
  std::array<int64_t, 3> strides{0, 0, 0};
  int64_t kinds = 1;
  for (size_t i = grid.size(); i-- > 0;)
    if (llvm::any_of(reads, [&](FootprintOp read) {
          return read.getMap().isFunctionOfDim(i);
        })) {
      strides[i] = kinds;
      kinds *= grid[i];
    }
  if (kinds * behind > StepsOp::kMaxStep)
    return steps.emitOpError()
           << "expects at most " << StepsOp::kMaxStep
           << " steps of tiles that read differently, but got " << kinds
           << " kinds of tiles with steps up to " << behind;
  std::vector<std::vector<unsigned>> found(kinds);
  SmallVector<int64_t, 4> coordinates;
  for (int64_t tile = 0, e = kernel.getNumTiles(); tile < e; ++tile) {
    auto [c0, c1, c2] = getCoordinates(kernel, tile);
    TileSteps &mine = stepsOf[tile];
    mine.list = c0 * strides[0] + c1 * strides[1] + c2 * strides[2];
    std::vector<unsigned> &list = found[mine.list];
    list.resize(behind, Accesses::kUnknown);
    for (int64_t step = mine.begin; step < mine.end; ++step) {
      if (list[step] != Accesses::kUnknown)
        continue;
      coordinates = {c0, c1, c2};
      coordinates.resize(grid.size());
      coordinates.push_back(step);
      FailureOr<unsigned> set = find(coordinates);
      if (failed(set))
        return failure();
      list[step] = *set;
    }
  }
  // Whatever they read, what counts is which transfers bring it.
  std::map<std::vector<unsigned>, unsigned> numbers;
  std::vector<unsigned> numberOf;
  for (std::vector<unsigned> &list : found) {
    auto [it, isNew] = numbers.try_emplace(list, lists.size());
    if (isNew)
      lists.push_back(std::move(list));
    numberOf.push_back(it->second);
  }
  for (TileSteps &mine : stepsOf)
    mine.list = numberOf[mine.list];
  return success();
}
