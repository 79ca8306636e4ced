//===- AccessChecks.cpp - where a kernel may access memory ----------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/MemoryAccess.h"
#include "lowering/SplitTiles.h"
#include "lowering/StepLoop.h"
#include "lowering/TileLoop.h"
#include "lowering/TritonModule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

LogicalResult syncopate::verifyAccesses(KernelOp kernel, Operation *function,
                                        StringAttr name,
                                        ArrayRef<MemoryAccess> accesses) {
  SmallVector<Operation *> markers = findMarkers(function, kTileMarker);
  auto findMarker = [&](Operation *access) -> Operation * {
    for (Operation *marker : llvm::reverse(markers)) {
      Operation *there = marker->getBlock()->findAncestorOpInBlock(*access);
      if (there && marker->isBeforeInBlock(there))
        return marker;
    }
    return nullptr;
  };
  std::array<Operation *, 2> writing{};
  for (const MemoryAccess &access : accesses) {
    if (access.kind == MemoryAccess::Escape) {
      InFlightDiagnostic diag = kernel.emitOpError();
      diag << "expects " << name << " to be used by loads and stores only, but "
           << access.op->getName().getStringRef()
           << " hides what is accessed by it, which no footprint can make up "
              "for";
      diag.attachNote(access.op->getLoc()) << "here";
      return diag;
    }
    Operation *marker = findMarker(access.op);
    if (!marker) {
      InFlightDiagnostic diag = kernel.emitOpError();
      if (access.reads())
        diag << "expects loads from " << name
             << " to stand behind the tile marker, in the same loop body: "
                "before it, the kernel has waited for nothing";
      else
        diag << "expects stores to " << name
             << " to stand behind the tile marker, in the same loop body: "
                "elsewhere, they are no tile's";
      diag.attachNote(access.op->getLoc())
          << (access.reads() ? "the load" : "the store");
      diag.attachNote(markers.front()->getLoc()) << "the marker";
      return diag;
    }
    if (!access.writes())
      continue;
    bool isPart = marksPart(kernel, marker);
    if (canSplit(kernel, marker) && isPart != !!getLastPart(access.op)) {
      InFlightDiagnostic diag = kernel.emitOpError();
      diag << "expects stores to " << name << " of a tile that "
           << (isPart ? "several CTAs compute to stand in a branch that only "
                        "the last of them takes, by what last_part returns"
                      : "one CTA computes to stand in no branch by what "
                        "last_part returns");
      diag.attachNote(access.op->getLoc()) << "the store";
      return diag;
    }
    if (writing[isPart] && marker != writing[isPart]) {
      InFlightDiagnostic diag = kernel.emitOpError();
      diag << "expects " << name
           << " to be stored to behind one tile marker only: a tile is ready "
              "when it has been walked once";
      diag.attachNote(access.op->getLoc()) << "the store";
      diag.attachNote(writing[isPart]->getLoc()) << "the other marker";
      return diag;
    }
    writing[isPart] = marker;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Addresses made of the position in the order
//===----------------------------------------------------------------------===//

namespace {

/// Follows addresses back to the position in the order. What several addresses
/// are made of is looked at once.
class PositionFinder {
public:
  /// A kernel without a loop over tiles computes the tile of its program's
  /// number. In others, that number says which CTA runs, and may be used.
  explicit PositionFinder(bool hasTileLoop) : hasTileLoop(hasTileLoop) {}

  /// The position, or what follows it, if `address` is made of it.
  Value find(Value address) {
    SmallVector<Value> worklist{address};
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      if (!seen.insert(value).second)
        continue;
      if (isPosition(value))
        return value;
      if (auto argument = dyn_cast<BlockArgument>(value))
        appendCarried(argument, worklist);
      else
        appendOperands(cast<OpResult>(value), worklist);
    }
    return {};
  }

private:
  static std::pair<scf::ForOp, unsigned> getCarrier(BlockArgument argument) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (!loop || argument == loop.getInductionVar())
      return {loop, ~0u};
    return {loop, argument.getArgNumber() - loop.getNumInductionVars()};
  }

  bool isPosition(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument)
      return !hasTileLoop && isProgramQuery(value, "tt.get_program_id");
    auto [loop, index] = getCarrier(argument);
    if (!loop || (findMarkers(loop, kTileMarker).empty() && !walksSteps(loop)))
      return false;
    if (index == ~0u)
      return true;
    // What each turn changes follows the order of the turns, but the step of
    // the turn before is a step as well.
    Value yielded = loop.getYieldedValues()[index];
    return yielded != argument && !isStep(yielded);
  }

  static void appendCarried(BlockArgument argument,
                            SmallVectorImpl<Value> &worklist) {
    auto [loop, index] = getCarrier(argument);
    if (!loop)
      return;
    if (index == ~0u)
      worklist.append({loop.getLowerBound(), loop.getStep()});
    else
      worklist.append(
          {loop.getInitArgs()[index], loop.getYieldedValues()[index]});
  }

  static void appendOperands(OpResult result,
                             SmallVectorImpl<Value> &worklist) {
    Operation *op = result.getOwner();
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      worklist.append({loop.getInitArgs()[result.getResultNumber()],
                       loop.getYieldedValues()[result.getResultNumber()]});
    } else if (isStep(result)) {
      // A step is not the place at which it is taken.
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      worklist.append(
          {branch.thenYield()->getOperand(result.getResultNumber()),
           branch.elseYield()->getOperand(result.getResultNumber())});
    } else if (isa_and_nonnull<arith::ArithDialect>(op->getDialect()) ||
               llvm::is_contained<StringRef>(
                   {"tt.addptr", "tt.splat", "tt.unsplat", "tt.broadcast",
                    "tt.expand_dims", "tt.trans", "tt.reshape", "tt.bitcast",
                    "tt.make_tensor_descriptor"},
                   op->getName().getStringRef())) {
      // What is loaded is no address yet: where from is looked at by itself.
      // What the marker returns is not the position that it takes.
      llvm::append_range(worklist, op->getOperands());
    }
  }

  bool hasTileLoop;
  llvm::DenseSet<Value> seen;
};

} // namespace

LogicalResult syncopate::verifyAddresses(KernelOp kernel, Operation *function) {
  Operation *marker = findMarkers(function, kTileMarker).front();
  PositionFinder finder(marker->getParentOfType<scf::ForOp>() != nullptr);
  WalkResult result = function->walk([&](Operation *op) {
    if (op->getNumOperands() == 0)
      return WalkResult::advance();
    std::optional<MemoryAccess::Kind> kind = getAccessKind(op->getOpOperand(0));
    if (!kind || *kind == MemoryAccess::Escape)
      return WalkResult::advance();
    for (OpOperand &operand : op->getOpOperands()) {
      // What is stored may be made of anything.
      if (*kind != MemoryAccess::Read && operand.getOperandNumber() == 1)
        continue;
      Value position = finder.find(operand.get());
      if (!position)
        continue;
      InFlightDiagnostic diag = kernel.emitOpError();
      diag << "expects addresses to be made of the coordinates that the tile "
              "marker returns, but one is made of the position in the order, "
              "which is another tile's in the fused kernel";
      diag.attachNote(op->getLoc())
          << "the access by " << op->getName().getStringRef();
      diag.attachNote(position.getLoc()) << "the position";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return success(!result.wasInterrupted());
}
