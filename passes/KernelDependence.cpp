//===- KernelDependence.cpp - what each tile of a kernel waits for --------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KernelDependence.h"

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

std::array<int64_t, 3> KernelDependence::getCoordinates(KernelOp kernel,
                                                        int64_t tile) {
  std::array<int64_t, 3> coordinates{0, 0, 0};
  ArrayRef<int64_t> grid = kernel.getTiles();
  for (size_t i = grid.size(); i-- > 0;) {
    coordinates[i] = tile % grid[i];
    tile /= grid[i];
  }
  return coordinates;
}

/// The part of the buffer that tile `coordinates` accesses.
static Box getAccessedBox(FootprintOp footprint, BufferType type,
                          ArrayRef<int64_t> coordinates) {
  AffineMap map = footprint.getMap();
  SmallVector<Attribute> dims;
  Type index = IndexType::get(footprint.getContext());
  for (unsigned i = 0; i < map.getNumDims(); ++i)
    dims.push_back(IntegerAttr::get(index, coordinates[i]));
  SmallVector<Attribute> offsets;
  Box region;
  // A division by zero folds to nothing; read the whole buffer then.
  if (failed(map.constantFold(dims, offsets)))
    return {SmallVector<int64_t>(type.getRank(), 0), type.getShape()};
  for (auto [offset, size, bound] :
       llvm::zip(offsets, footprint.getSizes(), type.getShape())) {
    int64_t begin = cast<IntegerAttr>(offset).getInt();
    int64_t end = begin + size;
    begin = std::max<int64_t>(begin, 0);
    if (!ShapedType::isDynamic(bound))
      end = std::min(end, bound);
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
  graph.getWriters({rank, buffer}).forEachOverlap(missing, [&](unsigned id) {
    diag.attachNote(graph.getTransfer(id).getLoc())
        << "this transfer brings it, but the kernel does not come after it";
  });
}

KernelDependence::KernelDependence(PlanGraph &graph, KernelOp kernel,
                                   int64_t rank) {
  SmallVector<unsigned> ancestors =
      graph.getAncestors(kernel.getDependencies());
  llvm::BitVector isAncestor(graph.size());
  for (unsigned id : ancestors)
    isAncestor.set(id);
  SmallVector<FootprintOp> reads;
  for (FootprintOp footprint : kernel.getFootprints())
    if (footprint.getAccess() == Access::Read)
      reads.push_back(footprint);

  // Tiles of a row of the grid read the same region of an operand, so the
  // transfers of a region are looked up once.
  std::map<std::pair<unsigned, SmallVector<int64_t, 4>>, unsigned> lookedUp;
  std::map<SmallVector<unsigned>, unsigned> setNumbers;
  SmallVector<SmallVector<unsigned>> perRegion;
  for (int64_t tile = 0, e = kernel.getNumTiles(); tile < e; ++tile) {
    std::array<int64_t, 3> coordinates = getCoordinates(kernel, tile);
    SmallVector<unsigned> needed;
    for (auto [number, footprint] : llvm::enumerate(reads)) {
      auto buffer = kernel.getBoundBuffer(footprint.getArg());
      Box region = getAccessedBox(footprint, buffer.getType(), coordinates);
      if (region.isEmpty())
        continue;
      auto [it, isNew] =
          lookedUp.try_emplace({number, region.offsets}, perRegion.size());
      if (isNew) {
        SmallVector<unsigned> &found = perRegion.emplace_back();
        SmallVector<Box> missing{region};
        for (const Box &input : graph.getInputs({rank, buffer}))
          subtract(missing, input);
        mixed |= !missing.empty() &&
                 !(missing.size() == 1 && missing.front() == region);
        graph.getWriters({rank, buffer})
            .forEachOverlap(region, [&](unsigned id) {
              if (!isAncestor.test(id))
                return;
              found.push_back(id);
              subtract(missing, graph.getDstBox(id));
            });
        if (!missing.empty()) {
          reportMissing(graph, kernel, footprint, rank, coordinates,
                        missing.front());
          valid = false;
          return;
        }
      }
      llvm::append_range(needed, perRegion[it->second]);
    }
    llvm::sort(needed);
    needed.erase(llvm::unique(needed), needed.end());
    auto [it, isNew] = setNumbers.try_emplace(needed, sets.size());
    if (isNew)
      sets.push_back(needed);
    setOf.push_back(it->second);
  }
}
