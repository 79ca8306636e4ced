//===- TileStores.cpp - where a kernel's tiles are done -------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/TileStores.h"
#include "lowering/MemoryAccess.h"
#include "lowering/SplitTiles.h"
#include "lowering/TileOrigins.h"
#include "lowering/TileSlotStores.h"
#include "lowering/TileSums.h"
#include "lowering/TritonModule.h"
#include "passes/LibraryCalls.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

/// True if tiles compute part of the buffer on some rank.
static bool isProduced(Value buffer) {
  return llvm::any_of(buffer.getUsers(),
                      [](Operation *user) { return isa<ProduceOp>(user); });
}

/// True if tiles add to what is in the buffer on some rank.
static bool isAccumulated(Value buffer) {
  return llvm::any_of(buffer.getUsers(), [](Operation *user) {
    auto produce = dyn_cast<ProduceOp>(user);
    return produce && produce.getReduction();
  });
}

/// True if TMA can add elements of this type.
static bool canAddInBulk(Type element) {
  return element.isF32() || element.isF16() || element.isBF16() ||
         element.isInteger(32);
}

/// The argument by which tiles write to what the plan says that they compute;
/// null if there is none.
static FailureOr<StringAttr> findProduced(KernelOp kernel) {
  StringAttr name;
  for (FootprintOp footprint : kernel.getFootprints()) {
    if (footprint.getAccess() != Access::Write ||
        !isProduced(kernel.getBoundBuffer(footprint.getArg())))
      continue;
    if (name && footprint.getArgAttr() != name)
      return kernel.emitOpError()
             << "expects tiles to compute chunks by one argument, but got "
             << name << " and " << footprint.getArgAttr();
    name = footprint.getArgAttr();
  }
  return name;
}

namespace {

/// The stores by which one tile writes to an argument.
class StoresOfTile {
public:
  StoresOfTile(KernelOp kernel, StringAttr name) : kernel(kernel), name(name) {}

  /// Looks at what one tile does in the kernel before TritonGPU's passes;
  /// without that, it is a store for each footprint.
  void collectDepths(Operation *ttir) {
    Value argument = ttir ? findArgument(ttir, name.getValue()) : Value();
    if (!argument) {
      depths[0].assign(llvm::count_if(kernel.getFootprints(),
                                      [&](FootprintOp footprint) {
                                        return footprint.getAccess() ==
                                                   Access::Write &&
                                               footprint.getArgAttr() == name;
                                      }),
                       std::nullopt);
      depths[1] = depths[0];
      return;
    }
    for (const MemoryAccess &access : findAccesses(ttir, argument))
      if (access.writes())
        depths[isShared(access.op)].push_back(
            getLoopsOfTile(access.op, [](Operation *loop) {
              return !findMarkers(loop, kTileMarker).empty();
            }).size());
  }

  /// Finds the stores in the kernel after TritonGPU's passes, which have made
  /// several clones of them.
  LogicalResult collect(Operation *function) {
    Value argument = findArgument(function, name.getValue());
    if (!argument)
      return kernel.emitOpError()
             << "binds argument " << name << ", which the kernel lacks";
    for (const MemoryAccess &access : findAccesses(function, argument)) {
      if (access.kind == MemoryAccess::Read)
        continue;
      if (!isNamed(access.op, kBulkStore) && !isNamed(access.op, kStore))
        return kernel.emitOpError()
               << "expects tiles to write " << name
               << " by stores of descriptors or pointers, but found "
               << access.op->getName()
               << "; store to another buffer, or let a transfer copy it "
                  "elsewhere";
      stores.push_back(access.op);
    }
    if (stores.empty())
      return kernel.emitOpError() << "expects a store to " << name
                                  << ", but found none in the kernel";
    return success();
  }

  ArrayRef<Operation *> getStores() const { return stores; }

  /// Behind what each tile is done: its last store, or the loop around that. By
  /// store, null for those that are not the last.
  FailureOr<SmallVector<Operation *>> findEnds() {
    SmallVector<Operation *> ends(stores.size());
    llvm::MapVector<Block *, SmallVector<size_t>> blocks;
    SmallVector<Operation *> sites;
    for (auto [index, store] : llvm::enumerate(stores)) {
      SmallVector<Operation *> loops = getLoops(store);
      sites.push_back(loops.empty() ? store : loops.back());
      blocks[sites.back()->getBlock()].push_back(index);
    }
    for (auto &[block, indices] : blocks) {
      // Those of whole tiles and of others stand in different loops.
      const auto &depths = this->depths[isShared(stores[indices.front()])];
      if (depths.empty() || indices.size() % depths.size()) {
        InFlightDiagnostic diag = fail();
        diag << "expects all " << depths.size() << " of them one after another";
        diag.attachNote(stores[indices.front()]->getLoc()) << "one of them";
        return diag;
      }
      for (auto [number, index] : llvm::enumerate(indices)) {
        size_t position = number % depths.size();
        std::optional<size_t> depth = depths[position];
        if (depth && *depth != getLoops(stores[index]).size()) {
          InFlightDiagnostic diag = fail();
          diag << "Triton has fused the loop around them with another; leave "
                  "flatten=True out of the loop over tiles";
          diag.attachNote(stores[index]->getLoc()) << "one of them";
          return diag;
        }
        if (position == depths.size() - 1)
          ends[index] = sites[index];
      }
    }
    return ends;
  }

  /// True if some of a tile's stores are TMA's.
  bool isBulk() const {
    return llvm::any_of(
        stores, [](Operation *store) { return isNamed(store, kBulkStore); });
  }

private:
  /// True if the last of several CTAs stores for all of them.
  bool isShared(Operation *store) { return !!getLastPart(store); }

  /// The loops around an operation that stand inside a tile, the outermost
  /// last.
  static SmallVector<Operation *>
  getLoopsOfTile(Operation *op, function_ref<bool(Operation *)> walksTiles) {
    SmallVector<Operation *> loops;
    for (Operation *parent = op->getParentOp(); parent;
         parent = parent->getParentOp())
      if (isa<LoopLikeOpInterface>(parent)) {
        if (walksTiles(parent))
          break;
        loops.push_back(parent);
      }
    return loops;
  }

  static SmallVector<Operation *> getLoops(Operation *store) {
    return getLoopsOfTile(store, [](Operation *loop) {
      return loop->walk([](ReadTileOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
    });
  }

  InFlightDiagnostic fail() {
    return kernel.emitOpError()
           << "cannot tell where the stores of a tile to " << name << " end: ";
  }

  KernelOp kernel;
  StringAttr name;
  SmallVector<Operation *> stores;
  /// In how many loops each of a tile's stores stands, if that is known: those
  /// of a tile that one CTA computes, and of one that several do.
  SmallVector<std::optional<size_t>> depths[2];
};

} // namespace

/// What a value that loops inside `end` carry is before them. The tile is the
/// same in all of their turns.
static Value getBefore(Value tile, Operation *end) {
  while (end->isProperAncestor(tile.getParentBlock()->getParentOp()) ||
         tile.getParentBlock()->getParentOp() == end) {
    auto argument = dyn_cast<BlockArgument>(tile);
    auto loop = argument
                    ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp())
                    : scf::ForOp();
    if (!loop || argument == loop.getInductionVar())
      return {};
    tile = loop.getTiedLoopInit(argument)->get();
  }
  return tile;
}

LogicalResult syncopate::markFinishedTiles(KernelOp kernel, Operation *ttir,
                                           Operation *function, Value context) {
  FailureOr<StringAttr> name = findProduced(kernel);
  if (failed(name))
    return failure();
  if (!*name)
    return success();
  StoresOfTile tile(kernel, *name);
  tile.collectDepths(ttir);
  if (failed(tile.collect(function)))
    return failure();
  // Values that were found for one store may move when others are followed.
  TileOrigins origins(kernel, function);
  auto getAddress = [](Operation *store) {
    // A descriptor's offsets, or pointers.
    return isNamed(store, kBulkStore)
               ? ValueRange(store->getOperands().drop_front().drop_back())
               : ValueRange(store->getOperands().take_front());
  };
  for (Operation *store : tile.getStores())
    origins.find(getAddress(store));
  FailureOr<SmallVector<Operation *>> ends = tile.findEnds();
  if (failed(ends))
    return failure();
  TypedValue<BufferType> buffer = kernel.getBoundBuffer(name->getValue());
  bool accumulates = isAccumulated(buffer);
  Type element = buffer.getType().getElementType();
  if (accumulates && tile.isBulk() && !canAddInBulk(element))
    return kernel.emitOpError()
           << "expects f32, f16, bf16 or i32 where tiles add by TMA to what is "
              "there, but "
           << *name << " holds " << element
           << "; store by pointers, or leave the sums to a role";
  CollectiveOpInterface called =
      findLibraryCall(cast<PlanOp>(kernel->getParentOp()));
  std::optional<TileSlots> slots;
  if (called && called.getSrc() == buffer) {
    FailureOr<TileSlots> found = TileSlots::find(kernel, called);
    if (failed(found))
      return failure();
    slots = *found;
  }
  for (auto [index, store] : llvm::enumerate(tile.getStores())) {
    Operation *end = (*ends)[index];
    Value number = origins.find(getAddress(store));
    Value after = number && end ? getBefore(number, end) : number;
    if (!number && kernel.getNumTiles() == 1) {
      OpBuilder builder(end ? end : store);
      number = after =
          arith::ConstantIntOp::create(builder, store->getLoc(), 0, 32);
    }
    if (!after) {
      InFlightDiagnostic diag = kernel.emitOpError();
      diag << "cannot tell which tile stores to " << *name
           << ": expects addresses to be made of the coordinates that the tile "
              "marker returns";
      diag.attachNote(store->getLoc()) << "the store";
      return diag;
    }
    if (end) {
      OpBuilder builder(end->getContext());
      builder.setInsertionPointAfter(end);
      FinishTileOp::create(builder, end->getLoc(), context, after,
                           tile.isBulk());
    }
    if (accumulates)
      addWhatIsThere(store, context, number);
    if (slots && failed(storeToSlot(kernel, *slots, store, context, number)))
      return failure();
  }
  return success();
}
