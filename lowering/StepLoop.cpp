//===- StepLoop.cpp - how a kernel walks the steps of a tile --------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/StepLoop.h"
#include "lowering/KernelValues.h"
#include "lowering/TileLoop.h"
#include "lowering/TritonModule.h"
#include "passes/KernelDependence.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

bool syncopate::isStepsMarker(Operation *op) {
  return isMarker(op, kStepsMarker) || isMarker(op, kOrderedStepsMarker);
}

SmallVector<Operation *> syncopate::findStepsMarkers(Operation *function) {
  SmallVector<Operation *> markers;
  function->walk([&](Operation *op) {
    if (isStepsMarker(op))
      markers.push_back(op);
  });
  return markers;
}

Operation *syncopate::findStep(scf::IfOp branch) {
  if (branch.getNumResults() != 1)
    return nullptr;
  Operation *marker = branch.thenYield()->getOperand(0).getDefiningOp();
  return marker && isMarker(marker, kStepMarker) &&
                 marker->getBlock() == branch.thenBlock()
             ? marker
             : nullptr;
}

bool syncopate::isStep(Value value) {
  auto branch = value.getDefiningOp<scf::IfOp>();
  return branch && findStep(branch);
}

bool syncopate::walksSteps(scf::ForOp loop) {
  return llvm::any_of(loop.getBody()->getOps<scf::IfOp>(),
                      [](scf::IfOp branch) { return findStep(branch); });
}

/// The branch around the marker of a step, if it stands in one as it should.
static scf::IfOp getBranch(Operation *marker) {
  auto branch = dyn_cast<scf::IfOp>(marker->getParentOp());
  return branch && findStep(branch) == marker ? branch : scf::IfOp();
}

Operation *syncopate::findTileOfSteps(Operation *marker) {
  for (Operation *op = marker->getPrevNode(); op; op = op->getPrevNode())
    if (isMarker(op, kTileMarker))
      return op;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// The loops
//===----------------------------------------------------------------------===//

/// Emits an error unless a user of a range takes it for the bounds of a loop
/// over steps.
static LogicalResult verifyRangeUse(KernelOp kernel, Operation *marker,
                                    Operation *user) {
  auto explain = [&](const Twine &text, Operation *where) -> LogicalResult {
    InFlightDiagnostic diag = kernel.emitOpError() << text;
    diag.attachNote(where->getLoc()) << "here";
    return diag;
  };
  auto loop = dyn_cast<scf::ForOp>(user);
  if (!loop || loop.getLowerBound() != marker->getResult(0) ||
      loop.getUpperBound() != marker->getResult(1) ||
      !matchPattern(loop.getStep(), m_One()))
    return explain("expects what sy.steps returns to be used for the begin and "
                   "the end of loops over steps, each by 1, and for nothing "
                   "else: in the fused kernel they are rows of a table",
                   user);
  auto isStep = [&](Operation *op) {
    auto branch = dyn_cast<scf::IfOp>(op);
    return branch && findStep(branch) &&
           branch->getParentOp() == loop.getOperation();
  };
  Operation *step = nullptr;
  for (Operation *place : loop.getInductionVar().getUsers()) {
    // The condition of its branch takes it too.
    if (place->getNumResults() == 1 && place->getResult(0).hasOneUse() &&
        isStep(*place->getUsers().begin()))
      continue;
    if (step || !isMarker(place, kStepMarker) || !isStep(place->getParentOp()))
      return explain("expects the variable of a loop over steps to be taken by "
                     "one sy.step in its body, and by nothing else: in the "
                     "fused kernel it is a row of a table",
                     place);
    step = place;
  }
  if (!step)
    return explain("expects a loop over steps to take each from sy.step", loop);
  if (step->getParentOp()->use_empty())
    return explain("expects the kernel to take its addresses from what sy.step "
                   "returns, but it is never used",
                   step);
  return success();
}

LogicalResult syncopate::verifyStepLoops(KernelOp kernel, Operation *function) {
  SmallVector<Operation *> markers = findStepsMarkers(function);
  SmallVector<Operation *> steps = findMarkers(function, kStepMarker);
  auto explain = [&](const Twine &text, Operation *where) -> LogicalResult {
    InFlightDiagnostic diag = kernel.emitOpError() << text;
    diag.attachNote(where->getLoc()) << "the marker";
    return diag;
  };
  if (markers.empty() && kernel.getSteps(/*rank=*/0))
    return kernel.emitOpError()
           << "expects tiles to walk steps, as is said of them, but the kernel "
              "has no sy.steps";
  if (markers.size() > 1)
    return explain("expects one sy.steps in a kernel, but got " +
                       Twine(markers.size()),
                   markers[1]);
  if (!markers.empty()) {
    Operation *marker = markers.front();
    if (marker->getNumOperands() != 2 || marker->getNumResults() != 2 ||
        !findTileOfSteps(marker))
      return explain("expects sy.steps to stand behind the tile marker, in the "
                     "same body",
                     marker);
    for (Operation *user : marker->getUsers())
      if (failed(verifyRangeUse(kernel, marker, user)))
        return failure();
    if (kernel.getParts() > 1 || kernel.getNeeds())
      return explain("expects tiles that walk steps to be whole, and what they "
                     "need to be known before the kernel runs",
                     marker);
  }
  for (Operation *step : steps) {
    scf::IfOp branch = getBranch(step);
    auto loop =
        branch ? dyn_cast<scf::ForOp>(branch->getParentOp()) : scf::ForOp();
    if (step->getNumOperands() != 1 || step->getNumResults() != 1 || !loop ||
        step->getOperand(0) != loop.getInductionVar() ||
        !loop.getLowerBound().getDefiningOp() ||
        !isStepsMarker(loop.getLowerBound().getDefiningOp()))
      return explain("expects sy.step to take the variable of the loop around "
                     "it, which goes over what sy.steps returns",
                     step);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The range
//===----------------------------------------------------------------------===//

/// A bound as what is the least, or the greatest, of several expressions of
/// coordinates, at every tile; null if it is none.
static AffineMap getBound(KernelOp kernel, const Offset &offset, bool isEnd) {
  auto isOfTile = [](const Sum &sum) { return sum.isOfTile(); };
  MLIRContext *context = kernel.getContext();
  SmallVector<AffineExpr> exprs;
  SmallVector<SmallVector<AffineExpr>> conditions;
  for (const Case &item : offset.cases) {
    if (!item.exact || !item.sum.isValid() || !isOfTile(item.sum) ||
        !llvm::all_of(item.conditions, isOfTile))
      return {};
    exprs.push_back(item.sum.toExpr(context));
    conditions.push_back(
        llvm::map_to_vector(item.conditions, [&](const Sum &condition) {
          return condition.toExpr(context);
        }));
  }
  if (exprs.empty())
    return {};
  for (int64_t tile = 0, e = kernel.getNumTiles(); exprs.size() > 1 && tile < e;
       ++tile) {
    auto coordinates = KernelDependence::getCoordinates(kernel, tile);
    std::optional<int64_t> taken, best;
    for (auto [expr, requires] : llvm::zip(exprs, conditions)) {
      std::optional<int64_t> value = evaluate(expr, coordinates);
      if (!value)
        return {};
      if (!best || (isEnd ? *value < *best : *value > *best))
        best = value;
      if (llvm::all_of(requires, [&](AffineExpr condition) {
            return evaluate(condition, coordinates).value_or(-1) >= 0;
          }))
        taken = value;
    }
    if (taken != best)
      return {};
  }
  return AffineMap::get(kernel.getTiles().size(), 0, exprs, context);
}

LogicalResult syncopate::inferSteps(KernelOp kernel, Operation *function,
                                    KernelValues &values) {
  SmallVector<Operation *> markers = findStepsMarkers(function);
  if (markers.empty())
    return success();
  Operation *marker = markers.front();
  bool isOrdered = isMarker(marker, kOrderedStepsMarker);
  if (kernel.getSteps(/*rank=*/0)) {
    for (auto steps : kernel.getBody().getOps<StepsOp>())
      steps.setOrdered(steps.getOrdered() || isOrdered);
    return success();
  }
  SmallVector<AffineMapAttr> bounds;
  for (bool isEnd : {false, true}) {
    const Offset &offset = values.getOffset(marker->getOperand(isEnd));
    AffineMap map = getBound(kernel, offset, isEnd);
    if (map) {
      bounds.push_back(AffineMapAttr::get(map));
      continue;
    }
    InFlightDiagnostic diag = kernel.emitOpError();
    diag << "cannot infer which steps a tile has: where they "
         << (isEnd ? "end" : "begin") << ' '
         << (offset.isKnown()
                 ? StringRef("is not affine in the tile coordinates")
                 : offset.reason)
         << "; pass steps to compile, or write in its body: chunk.steps from "
            "affine_map<...> to affine_map<...>";
    diag.attachNote(marker->getLoc()) << "the marker";
    if (!offset.isKnown())
      diag.attachNote(offset.culprit.getLoc()) << "what is not understood";
    return diag;
  }
  OpBuilder builder = OpBuilder::atBlockEnd(&kernel.getBody().front());
  StepsOp::create(builder, kernel.getLoc(), bounds[0], bounds[1],
                  /*rank=*/IntegerAttr(),
                  isOrdered ? builder.getUnitAttr() : UnitAttr());
  return success();
}
