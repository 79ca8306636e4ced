//===- TileLoop.cpp - how a kernel walks its tiles ------------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/TileLoop.h"
#include "lowering/TritonModule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

LogicalResult
syncopate::forEachKernel(ModuleOp module,
                         function_ref<LogicalResult(KernelOp)> apply) {
  SmallVector<KernelOp> kernels;
  WalkResult result = module->walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto plan = dyn_cast<PlanOp>(op);
    if (!plan)
      return WalkResult::advance();
    if (plan->getParentOp() != module) {
      plan.emitOpError("expects to stand directly in the module that passes "
                       "run on, but stands in a module inside it");
      return WalkResult::interrupt();
    }
    llvm::append_range(kernels, plan.getBody().getOps<KernelOp>());
    return WalkResult::skip();
  });
  if (result.wasInterrupted())
    return failure();
  for (KernelOp kernel : kernels)
    if (failed(apply(kernel)))
      return failure();
  return success();
}

LogicalResult syncopate::verifyMarkerShape(KernelOp kernel, Operation *marker) {
  unsigned coordinates = kernel.getTiles().size();
  if (marker->getNumResults() == coordinates + 1 &&
      marker->getNumOperands() == coordinates + 2)
    return success();
  InFlightDiagnostic diag = kernel.emitOpError();
  diag << "expects markers of " << coordinates
       << " coordinates, as its grid has, but got "
       << static_cast<int64_t>(marker->getNumResults()) - 1;
  diag.attachNote(marker->getLoc()) << "the marker";
  return diag;
}

//===----------------------------------------------------------------------===//
// The loop over tiles
//===----------------------------------------------------------------------===//

namespace {

/// What a value is before changes of its width.
Value stripCasts(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp,
             arith::IndexCastOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// True if the value is given by the operation called `name`, along x.
bool isProgramQuery(Value value, StringRef name) {
  Operation *op = stripCasts(value).getDefiningOp();
  if (!op || op->getName().getStringRef() != name)
    return false;
  auto axis = dyn_cast_or_null<IntegerAttr>(getTritonAttribute(op, "axis"));
  return axis && axis.getValue().isZero();
}

/// Computes values that are arithmetic on constants.
class ConstantFolder {
public:
  std::optional<int64_t> fold(Value value) {
    auto constant = dyn_cast_or_null<IntegerAttr>(foldAttr(value, 0));
    if (!constant || !constant.getValue().isSignedIntN(64))
      return std::nullopt;
    return constant.getValue().getSExtValue();
  }

private:
  Attribute foldAttr(Value value, unsigned depth) {
    constexpr unsigned maxDepth = 256;
    Attribute constant;
    if (matchPattern(value, m_Constant(&constant)))
      return constant;
    Operation *op = value.getDefiningOp();
    if (!op || depth > maxDepth ||
        op->getName().getDialectNamespace() !=
            arith::ArithDialect::getDialectNamespace())
      return {};
    if (auto it = known.find(value); it != known.end())
      return it->second;
    SmallVector<Attribute> operands;
    for (Value operand : op->getOperands())
      operands.push_back(foldAttr(operand, depth + 1));
    SmallVector<OpFoldResult> results;
    // Without a constant for each operand, folding might change the operation.
    if (llvm::all_of(operands, [](Attribute attr) { return bool(attr); }) &&
        succeeded(op->fold(operands, results)) && results.size() == 1)
      constant = isa<Attribute>(results[0])
                     ? cast<Attribute>(results[0])
                     : foldAttr(cast<Value>(results[0]), depth + 1);
    return known[value] = constant;
  }

  llvm::DenseMap<Value, Attribute> known;
};

LogicalResult verifyPosition(KernelOp kernel, Operation *marker) {
  auto explain = [&](const Twine &text, Location where) -> LogicalResult {
    InFlightDiagnostic diag = kernel.emitOpError() << text;
    diag.attachNote(where) << "here";
    return diag;
  };
  auto ctas = static_cast<int64_t>(kernel.getCtas());
  int64_t tiles = kernel.getNumTiles();
  Value position = stripCasts(marker->getOperands().back());
  auto argument = dyn_cast<BlockArgument>(position);
  auto loop = argument
                  ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp())
                  : scf::ForOp();
  if (!loop) {
    if (marker->getParentOfType<LoopLikeOpInterface>() ||
        !isProgramQuery(position, kProgramId))
      return explain("expects the tile marker to take the variable of the loop "
                     "over tiles for its position, or, in a kernel without "
                     "such a loop, the program's number",
                     marker->getLoc());
    if (tiles != ctas)
      return explain("expects as many CTAs as tiles, since each program "
                     "computes one tile, but got " +
                         Twine(ctas) + " and " + Twine(tiles),
                     marker->getLoc());
    return success();
  }
  if (position != loop.getInductionVar() ||
      marker->getParentOp() != loop.getOperation())
    return explain("expects the tile marker to stand in the body of the loop "
                   "over tiles and to take its variable for its position",
                   marker->getLoc());
  std::string walk = "expects the loop over tiles to start at the program's "
                     "number and to step by " +
                     std::to_string(ctas) + ", the CTAs of the kernel, but ";
  if (!isProgramQuery(loop.getLowerBound(), kProgramId))
    return explain(walk + "it starts elsewhere", loop.getLoc());
  ConstantFolder folder;
  std::optional<int64_t> step = folder.fold(loop.getStep());
  if (!step && !isProgramQuery(loop.getStep(), kNumPrograms))
    return explain(walk + "its step is no constant", loop.getLoc());
  if (step && *step != ctas)
    return explain(walk + "it steps by " + Twine(*step), loop.getLoc());
  std::optional<int64_t> end = folder.fold(loop.getUpperBound());
  if (end && *end != tiles)
    return explain("expects the loop over tiles to end at " + Twine(tiles) +
                       ", the number of tiles, but it ends at " + Twine(*end),
                   loop.getLoc());
  return success();
}

} // namespace

LogicalResult syncopate::verifyTileLoop(KernelOp kernel, Operation *function) {
  SmallVector<Operation *> markers = findMarkers(function, kTileMarker);
  if (markers.empty())
    return kernel.emitOpError() << "expects a tile marker in the kernel";
  for (Operation *marker : markers)
    if (failed(verifyMarkerShape(kernel, marker)) ||
        failed(verifyPosition(kernel, marker)))
      return failure();
  return success();
}

LogicalResult syncopate::verifyCoordinatesUsed(KernelOp kernel,
                                               Operation *function) {
  for (Operation *marker : findMarkers(function, kTileMarker))
    for (OpResult coordinate : marker->getResults().drop_back()) {
      if (!coordinate.use_empty() ||
          kernel.getTiles()[coordinate.getResultNumber()] == 1)
        continue;
      InFlightDiagnostic diag =
          kernel.emitOpError()
          << "expects the kernel to take its addresses from the coordinates "
             "that the tile marker returns, but coordinate "
          << coordinate.getResultNumber() << " is never used";
      diag.attachNote(marker->getLoc()) << "the marker";
      return diag;
    }
  return success();
}

//===----------------------------------------------------------------------===//
// Loads
//===----------------------------------------------------------------------===//

/// True if the operand is a pointer or descriptor that `op` reads memory by.
static bool isLoad(OpOperand &use) {
  StringRef name = use.getOwner()->getName().getStringRef();
  return use.getOperandNumber() == 0 &&
         llvm::is_contained<StringRef>({"tt.load", "tt.descriptor_load",
                                        "tt.descriptor_gather", "tt.atomic_rmw",
                                        "tt.atomic_cas"},
                                       name);
}

/// Appends the pointers and descriptors that `use` may hand its own on to.
static void appendAliases(OpOperand &use, SmallVectorImpl<Value> &values) {
  Operation *op = use.getOwner();
  if (op->hasTrait<OpTrait::IsTerminator>())
    op = op->getParentOp();
  auto append = [&](ValueRange candidates) {
    for (Value value : candidates)
      if (!getElementTypeOrSelf(value.getType()).isIntOrIndexOrFloat())
        values.push_back(value);
  };
  append(op->getResults());
  for (Region &region : op->getRegions())
    for (Block &block : region)
      append(block.getArguments());
}

LogicalResult syncopate::verifyLoads(KernelOp kernel, Operation *function,
                                     StringAttr name, Value argument) {
  SmallVector<Operation *> markers = findMarkers(function, kTileMarker);
  auto isMarked = [&](Operation *load) {
    return llvm::any_of(markers, [&](Operation *marker) {
      Operation *there = marker->getBlock()->findAncestorOpInBlock(*load);
      return there && marker->isBeforeInBlock(there);
    });
  };
  SmallVector<Value> worklist{argument};
  llvm::DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    for (OpOperand &use : value.getUses()) {
      if (!isLoad(use)) {
        appendAliases(use, worklist);
        continue;
      }
      if (isMarked(use.getOwner()))
        continue;
      InFlightDiagnostic diag = kernel.emitOpError();
      diag << "expects loads from " << name
           << " to stand behind the tile marker, in the same loop body: before "
              "it, the kernel has waited for nothing";
      diag.attachNote(use.getOwner()->getLoc()) << "the load";
      diag.attachNote(markers.front()->getLoc()) << "the marker";
      return diag;
    }
  }
  return success();
}
