//===- TileLoop.cpp - how a kernel walks its tiles ------------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/TileLoop.h"
#include "lowering/KernelValues.h"
#include "lowering/SplitTiles.h"
#include "lowering/TritonModule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

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
  unsigned given = coordinates + marksPart(kernel, marker);
  if (marker->getNumResults() == given + 1 &&
      marker->getNumOperands() == given + 2)
    return success();
  InFlightDiagnostic diag = kernel.emitOpError();
  diag << "expects markers of " << coordinates
       << " coordinates, as its grid has, but got "
       << static_cast<int64_t>(marker->getNumResults()) - 1;
  diag.attachNote(marker->getLoc()) << "the marker";
  return diag;
}

/// What a value is before changes of its width.
static Value stripCasts(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp,
             arith::IndexCastOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

bool syncopate::isProgramQuery(Value value, StringRef name) {
  Operation *op = stripCasts(value).getDefiningOp();
  if (!op || op->getName().getStringRef() != name)
    return false;
  auto axis = dyn_cast_or_null<IntegerAttr>(getTritonAttribute(op, "axis"));
  return axis && axis.getValue().isZero();
}

//===----------------------------------------------------------------------===//
// The loop over tiles
//===----------------------------------------------------------------------===//

namespace {

/// True if a loop ends at the last tile, or before at what is found out at run
/// time. Nobody waits for the tiles that are left out.
bool endsByTiles(KernelValues &values, scf::ForOp loop, int64_t tiles) {
  auto least = stripCasts(loop.getUpperBound()).getDefiningOp<arith::MinSIOp>();
  return least && llvm::any_of(least->getOperands(), [&](Value operand) {
           return values.getOffset(operand).getConstant() == tiles;
         });
}

/// True if a loop starts at the program's number, behind `first`.
bool startsAt(KernelValues &values, scf::ForOp loop, int64_t first) {
  Value start = stripCasts(loop.getLowerBound());
  if (isProgramQuery(start, kProgramId))
    return first == 0;
  auto sum = start.getDefiningOp<arith::AddIOp>();
  if (!sum)
    return false;
  for (auto [number, other] : {std::pair(sum.getLhs(), sum.getRhs()),
                               std::pair(sum.getRhs(), sum.getLhs())})
    if (isProgramQuery(number, kProgramId) &&
        values.getOffset(other).getConstant() == first)
      return true;
  return false;
}

LogicalResult verifyPosition(KernelOp kernel, KernelValues &values,
                             Operation *marker) {
  auto explain = [&](const Twine &text, Location where) -> LogicalResult {
    InFlightDiagnostic diag = kernel.emitOpError() << text;
    diag.attachNote(where) << "here";
    return diag;
  };
  auto ctas = static_cast<int64_t>(kernel.getCtas());
  int64_t tiles = kernel.getNumTiles(), first = 0;
  bool isPart = marksPart(kernel, marker);
  bool splits = isPart || kernel.getParts() > 1;
  // What the loop is over, in words.
  StringRef what =
      splits ? (isPart ? "parts of tiles" : "whole tiles") : "tiles";
  if (splits)
    tiles = kernel.getNumWholeTiles();
  if (isPart)
    first = std::exchange(tiles, kernel.getNumPositions());
  Value position = stripCasts(marker->getOperands().back());
  auto argument = dyn_cast<BlockArgument>(position);
  auto loop = argument
                  ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp())
                  : scf::ForOp();
  if (!loop && !splits) {
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
  if (!loop || position != loop.getInductionVar() ||
      marker->getParentOp() != loop.getOperation())
    return explain("expects the tile marker to stand in the body of the loop "
                   "over tiles and to take its variable for its position",
                   marker->getLoc());
  std::string walk = ("expects the loop over " + what + " to start at " +
                      (isPart ? Twine(first) + " and " : Twine()) +
                      "the program's number and to step by " + Twine(ctas) +
                      ", the CTAs of the kernel, but ")
                         .str();
  if (!startsAt(values, loop, first))
    return explain(walk + "it starts elsewhere", loop.getLoc());
  if (loop->getParentOfType<LoopLikeOpInterface>())
    return explain("expects the loop over tiles to run once, but it stands in "
                   "another loop",
                   loop.getLoc());
  std::optional<int64_t> step = values.getOffset(loop.getStep()).getConstant();
  if (!step && !isProgramQuery(loop.getStep(), kNumPrograms))
    return explain(walk + "its step is no constant", loop.getLoc());
  if (step && *step != ctas)
    return explain(walk + "it steps by " + Twine(*step), loop.getLoc());
  if (kernel.getNeeds() && endsByTiles(values, loop, tiles))
    return success();
  const Offset &last = values.getOffset(loop.getUpperBound());
  std::string wanted =
      ("expects the loop over " + what + " to end at " + Twine(tiles) + ", " +
       (isPart ? "behind them" : "the number of " + what) + ", but ")
          .str();
  std::optional<int64_t> end = last.getConstant();
  if (end && *end != tiles)
    return explain(wanted + "it ends at " + Twine(*end), loop.getLoc());
  if (!end)
    return explain(wanted +
                       "its end is not known: `integers` of the kernel may "
                       "give the values of arguments",
                   last.isKnown() ? loop.getLoc() : last.culprit.getLoc());
  return success();
}

} // namespace

LogicalResult syncopate::verifyTileLoop(KernelOp kernel, Operation *function) {
  SmallVector<Operation *> markers = findMarkers(function, kTileMarker);
  if (markers.empty())
    return kernel.emitOpError() << "expects a tile marker in the kernel";
  KernelValues values(kernel);
  for (Operation *marker : markers)
    if (failed(verifyMarkerShape(kernel, marker)) ||
        failed(verifyPosition(kernel, values, marker)))
      return failure();
  if (kernel.getParts() == 1)
    return success();
  auto has = [&](bool parts) {
    return llvm::any_of(markers, [&](Operation *marker) {
      return marksPart(kernel, marker) == parts;
    });
  };
  bool hasLast = kernel.getNumPositions() > kernel.getNumWholeTiles();
  if ((kernel.getNumWholeTiles() == 0 || has(false)) && (!hasLast || has(true)))
    return success();
  return kernel.emitOpError()
         << "expects a loop over the tiles of whole rounds and one over the "
            "parts of those of the last one, whose marker has one more "
            "coordinate";
}

LogicalResult syncopate::verifyNotSpecialized(KernelOp kernel,
                                              Operation *function,
                                              Operation *compiled) {
  Operation *specialized = nullptr;
  compiled->walk([&](Operation *op) {
    if (op->getName().getStringRef() == "ttg.warp_specialize")
      specialized = op;
  });
  if (!specialized)
    return success();
  InFlightDiagnostic diag =
      kernel.emitOpError()
      << "expects a kernel whose warps all walk the tiles, but Triton has "
         "specialized them: the tile marker stands in several partitions, of "
         "which each would wait; leave warp_specialize=True out of tl.range";
  bool told = false;
  if (function)
    function->walk([&](scf::ForOp loop) {
      auto flag = dyn_cast_or_null<BoolAttr>(
          loop->getDiscardableAttr("tt.warp_specialize"));
      if (loop->hasAttr("tt.warp_specialize") && (!flag || flag.getValue())) {
        diag.attachNote(loop.getLoc()) << "the loop";
        told = true;
      }
    });
  if (!told)
    diag.attachNote(specialized->getLoc()) << "the partitions";
  return diag;
}

LogicalResult syncopate::verifyCoordinatesUsed(KernelOp kernel,
                                               Operation *function) {
  for (Operation *marker : findMarkers(function, kTileMarker))
    for (OpResult coordinate :
         marker->getResults().take_front(kernel.getTiles().size())) {
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
