//===- ConvertChunkToTritonGPU.cpp - device operations into Triton's ------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Triton's operations change their spelling between versions, so none is built
// here: the installed Triton has compiled the device library, and this pass
// moves its code into place.
//
//===----------------------------------------------------------------------===//

#include "lowering/Passes.h"
#include "lowering/TritonModule.h"
#include "passes/Realizations.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_CONVERTCHUNKTOTRITONGPUPASS
#include "lowering/Passes.h.inc"

using namespace chunk;

namespace {

class DeviceLibrary {
public:
  explicit DeviceLibrary(ModuleOp module) : module(module) {}

  /// Clones the body of the function called `name` at the builder's place,
  /// with `arguments` for its arguments. Returns the cloned operations.
  FailureOr<SmallVector<Operation *>> clone(OpBuilder &builder, Operation *user,
                                            StringRef name,
                                            ValueRange arguments) {
    ModuleOp owner = module ? findModule(module, name) : ModuleOp();
    Operation *function = owner ? findFunction(owner, "") : nullptr;
    if (!function)
      return user->emitOpError()
             << "needs function @" << name << " of module @" << kDeviceModule;
    Region &region = function->getRegion(0);
    if (!region.hasOneBlock())
      return user->emitOpError()
             << "expects device function @" << name << " to be one block";
    if (region.getArgumentTypes() != arguments.getTypes())
      return user->emitOpError()
             << "expects device function @" << name << " to take ("
             << arguments.getTypes() << "), but it takes ("
             << region.getArgumentTypes() << ')';
    IRMapping mapping;
    mapping.map(region.getArguments(), arguments);
    SmallVector<Operation *> cloned;
    // The last operation is Triton's return, opaque here like all the others.
    for (Operation &op : llvm::drop_end(region.front()))
      cloned.push_back(builder.clone(op, mapping));
    return cloned;
  }

private:
  ModuleOp module;
};

/// Finds the one marker in cloned code.
FailureOr<Operation *> findOnlyMarker(Operation *user,
                                      ArrayRef<Operation *> cloned,
                                      StringRef marker) {
  SmallVector<Operation *> found;
  for (Operation *op : cloned)
    llvm::append_range(found, findMarkers(op, marker));
  if (found.size() != 1)
    return user->emitOpError()
           << "expects one '" << marker << "' in its device function, but got "
           << found.size();
  return found.front();
}

struct ConvertChunkToTritonGPU
    : impl::ConvertChunkToTritonGPUPassBase<ConvertChunkToTritonGPU> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    ModuleOp ttgir = findModule(module, kTTGIRModule);
    if (!ttgir)
      return;
    ModuleOp device = findModule(module, kDeviceModule);
    DeviceLibrary library(device);
    // Roles first: they bring no other device operation, but hold all.
    SmallVector<Operation *> ops;
    ttgir.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<RolesOp, ReadTileOp, TileStepsOp, ReadStepOp, TileNumberOp,
              InputRowsOp, WaitOp, TileSumOp, TileSlotOp, StoreRowsOp,
              FinishTileOp, RunCommandsOp>(op))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      LogicalResult result =
          TypeSwitch<Operation *, LogicalResult>(op)
              .Case([&](RolesOp roles) { return convert(roles, library); })
              .Case([&](StoreRowsOp store) { return convert(store, library); })
              .Default([&](Operation *) { return convert(op, library); });
      if (failed(result))
        return signalPassFailure();
    }
    for (StringRef name : kPieces)
      if (failed(expandPieces(ttgir, name)))
        return signalPassFailure();
    if (device)
      device.erase();
    if (ModuleOp ttir = findModule(module, kTTIRModule))
      ttir.erase();
  }

private:
  /// Puts a copy of a piece wherever it is used, and takes the piece away. A
  /// piece stands in a block around its uses, so that they see what it sees.
  static LogicalResult expandPieces(ModuleOp ttgir, StringRef name) {
    auto pieces = findMarkers(ttgir, (kPieceMarker + name).str());
    for (Operation *piece : pieces)
      if (!getEnd(piece))
        return piece->emitOpError()
               << "expects a yield behind piece '" << name << "'";
    for (Operation *use : findMarkers(ttgir, (kUseMarker + name).str())) {
      auto surrounds = [&](Operation *piece) {
        return piece->getBlock()->findAncestorOpInBlock(*use) != nullptr;
      };
      auto piece = llvm::find_if(pieces, surrounds);
      if (piece == pieces.end())
        return use->emitOpError()
               << "uses piece '" << name << "', which its outline lacks";
      Operation *end = getEnd(*piece);
      if ((*piece)->getResultTypes() != use->getOperandTypes() ||
          (end->getNumOperands() > 0 &&
           end->getOperandTypes() != use->getResultTypes()))
        return use->emitOpError()
               << "expects piece '" << name << "' to take ("
               << (*piece)->getResultTypes() << ") and to yield ("
               << end->getOperandTypes() << ')';
      OpBuilder builder(use);
      IRMapping mapping;
      mapping.map((*piece)->getResults(), use->getOperands());
      for (Operation *op = (*piece)->getNextNode(); op != end;
           op = op->getNextNode())
        builder.clone(*op, mapping);
      if (end->getNumOperands() > 0)
        use->getResult(0).replaceAllUsesWith(
            mapping.lookupOrDefault(end->getOperand(0)));
      use->erase();
    }
    for (Operation *piece : pieces) {
      // What else uses a constant of the piece may keep it.
      Operation *op = getEnd(piece);
      while (op != piece) {
        Operation *before = op->getPrevNode();
        if (op->use_empty())
          op->erase();
        op = before;
      }
      if (!piece->use_empty())
        return piece->emitOpError() << "expects piece '" << name
                                    << "' to be used by its own code only";
      piece->erase();
    }
    return success();
  }

  /// The yield of a piece, or null.
  static Operation *getEnd(Operation *piece) {
    while (piece && !isMarker(piece, kYieldMarker))
      piece = piece->getNextNode();
    return piece;
  }

  static std::string getFunctionName(Operation *op) {
    return TypeSwitch<Operation *, std::string>(op)
        .Case([](ReadTileOp) { return "read_tile"; })
        .Case([](TileStepsOp) { return "tile_steps"; })
        .Case([](ReadStepOp) { return "read_step"; })
        .Case([](TileNumberOp) { return "tile_number"; })
        .Case([](InputRowsOp) { return "input_rows"; })
        .Case([](WaitOp) { return "wait_signals"; })
        .Case([](TileSumOp) { return "tile_sum"; })
        .Case([](TileSlotOp) { return "tile_slot"; })
        .Case([](StoreRowsOp) { return "store_rows"; })
        .Case([](FinishTileOp finish) {
          return finish.getBulk() ? "finish_bulk_tile" : "finish_tile";
        })
        .Case([](RolesOp) { return "roles"; })
        .Case([](RunCommandsOp run) {
          return getCommandsFunction(run.getRealization());
        });
  }

  static LogicalResult convert(Operation *op, DeviceLibrary &library) {
    OpBuilder builder(op);
    auto cloned =
        library.clone(builder, op, getFunctionName(op), op->getOperands());
    if (failed(cloned))
      return failure();
    if (op->getNumResults() > 0) {
      auto yield = findOnlyMarker(op, *cloned, kYieldMarker);
      if (failed(yield))
        return failure();
      if ((*yield)->getOperandTypes() != op->getResultTypes())
        return op->emitOpError("expects its device function to yield its "
                               "results");
      op->replaceAllUsesWith((*yield)->getOperands());
      (*yield)->erase();
    }
    op->erase();
    return success();
  }

  /// A function takes no shared memory, so that one allocates what stands for
  /// the block that is stored.
  static LogicalResult convert(StoreRowsOp store, DeviceLibrary &library) {
    OpBuilder builder(store);
    auto cloned = library.clone(builder, store, getFunctionName(store),
                                store->getOperands().drop_back());
    if (failed(cloned))
      return failure();
    auto allocation = llvm::find_if(
        *cloned, [](Operation *op) { return isNamed(op, kLocalAlloc); });
    // The layout of shared memory is the kernel's own; all else is alike.
    auto getShape = [](Type type) {
      std::string text;
      llvm::raw_string_ostream(text) << type;
      return StringRef(text).split(',').first.str();
    };
    if (allocation == cloned->end() ||
        getShape((*allocation)->getResult(0).getType()) !=
            getShape(store.getSrc().getType()))
      return store.emitOpError()
             << "expects its device function to allocate a block like "
             << store.getSrc().getType();
    (*allocation)->getResult(0).replaceAllUsesWith(store.getSrc());
    (*allocation)->erase();
    store->erase();
    return success();
  }

  static LogicalResult convert(RolesOp roles, DeviceLibrary &library) {
    OpBuilder builder(roles);
    auto cloned = library.clone(builder, roles, getFunctionName(roles),
                                roles->getOperands());
    if (failed(cloned))
      return failure();
    if (failed(moveInto(roles, *cloned, kComputeMarker, roles.getCompute())))
      return failure();
    for (auto [index, role] : llvm::enumerate(roles.getCommunicate())) {
      StringRef name = stringifyRealization(roles.getRealization(index));
      if (failed(moveInto(roles, *cloned, (kCommunicateMarker + name).str(),
                          role)))
        return failure();
    }
    roles.erase();
    return success();
  }

  /// Puts the operations of `body` in the place of the marker. What the marker
  /// takes, if anything, stands for the operands of the roles there: a role
  /// may be isolated from above.
  static LogicalResult moveInto(RolesOp roles, ArrayRef<Operation *> cloned,
                                StringRef marker, Region &body) {
    auto place = findOnlyMarker(roles, cloned, marker);
    if (failed(place))
      return failure();
    if (body.empty() || !body.hasOneBlock())
      return roles.emitOpError("expects roles of one block");
    Operation *at = *place;
    for (auto [outer, captured] :
         llvm::zip(roles->getOperands(), at->getOperands()))
      for (Operation &op : body.front())
        op.walk([&](Operation *inner) {
          inner->replaceUsesOfWith(outer, captured);
        });
    at->getBlock()->getOperations().splice(at->getIterator(),
                                           body.front().getOperations());
    at->erase();
    return success();
  }
};

} // namespace
} // namespace syncopate
