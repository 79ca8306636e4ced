//===- KernelValues.cpp - what a kernel computes addresses of -------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/KernelValues.h"
#include "lowering/SplitTiles.h"
#include "lowering/StepLoop.h"
#include "lowering/TritonModule.h"
#include "passes/KernelDependence.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

static unsigned getWidth(Value value) {
  Type type = getElementTypeOrSelf(value.getType());
  return type.isInteger() ? type.getIntOrFloatBitWidth() : 64;
}

/// False if a value of the sum would wrap around in the value's type.
static bool fits(const Sum &sum, Value value) {
  unsigned width = getWidth(value);
  Bounds range = sum.getBounds();
  if (!sum.isValid() || width < 2)
    return false;
  return (!range.least || llvm::isIntN(width, *range.least)) &&
         (!range.greatest || llvm::isIntN(width, *range.greatest));
}

std::optional<SmallVector<unsigned>> syncopate::getMovedAxes(Operation *op) {
  auto from = op->getNumOperands() == 1
                  ? dyn_cast<RankedTensorType>(op->getOperand(0).getType())
                  : RankedTensorType();
  auto to = op->getNumResults() == 1
                ? dyn_cast<RankedTensorType>(op->getResult(0).getType())
                : RankedTensorType();
  if (!from || !to)
    return std::nullopt;
  SmallVector<unsigned> moved(from.getRank(), 0);
  if (isNamed(op, "tt.trans")) {
    auto order =
        dyn_cast_or_null<DenseI32ArrayAttr>(getTritonAttribute(op, "order"));
    if (!order || order.size() != from.getRank())
      return std::nullopt;
    for (auto [axis, source] : llvm::enumerate(order.asArrayRef())) {
      if (source < 0 || source >= from.getRank())
        return std::nullopt;
      moved[source] = axis;
    }
    return moved;
  }
  auto axis = dyn_cast_or_null<IntegerAttr>(getTritonAttribute(op, "axis"));
  if (isNamed(op, "tt.expand_dims") && axis) {
    for (auto [source, target] : llvm::enumerate(moved))
      target = source + (static_cast<int64_t>(source) >= axis.getInt());
    return moved;
  }
  // Axes of one element may come and go. Others keep their order, unless the
  // operation may change that.
  if (!isNamed(op, "tt.reshape") || getTritonAttribute(op, "allow_reorder"))
    return std::nullopt;
  int64_t next = 0;
  for (auto [source, target] : llvm::enumerate(moved)) {
    if (from.getDimSize(source) == 1)
      continue;
    while (next < to.getRank() && to.getDimSize(next) == 1)
      ++next;
    if (next == to.getRank() || to.getDimSize(next) != from.getDimSize(source))
      return std::nullopt;
    target = next++;
  }
  return moved;
}

Sum syncopate::moveLanes(const Sum &sum, ArrayRef<unsigned> moved) {
  return sum.mapLanes(
      [&](unsigned lane) { return lane < moved.size() ? moved[lane] : lane; });
}

void syncopate::moveLanes(Offset &offset, ArrayRef<unsigned> moved) {
  for (Case &item : offset.cases) {
    item.sum = moveLanes(item.sum, moved);
    for (Sum &condition : item.conditions)
      condition = moveLanes(condition, moved);
  }
}

bool syncopate::collectAdded(Value yielded, Value carried,
                             SmallVectorImpl<std::pair<Value, bool>> &added) {
  for (unsigned length = 0; yielded != carried; ++length) {
    Operation *op = yielded.getDefiningOp();
    if (!op || length > kMaxDepth)
      return false;
    if (isNamed(op, "tt.addptr") || isa<arith::AddIOp, arith::SubIOp>(op)) {
      added.push_back({op->getOperand(1), isa<arith::SubIOp>(op)});
      yielded = op->getOperand(0);
      // An integer may be added from either side.
      if (isa<arith::AddIOp>(op) && op->getOperand(1) == carried) {
        added.back().first = op->getOperand(0);
        yielded = carried;
      }
      continue;
    }
    return false;
  }
  return true;
}

scf::ForOp syncopate::getInnerLoop(BlockArgument argument) {
  auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
  // The loop over tiles holds the marker. Steps come in the order of the
  // schedule.
  return loop && findMarkers(loop, kTileMarker).empty() && !walksSteps(loop)
             ? loop
             : scf::ForOp();
}

std::optional<int64_t> KernelValues::getLastStep() {
  if (lastStep)
    return *lastStep;
  lastStep.emplace(0);
  int64_t ranks = cast<PlanOp>(kernel->getParentOp()).getNumRanks();
  for (int64_t rank = 0; rank < ranks && *lastStep; ++rank) {
    StepsOp steps = kernel.getSteps(rank);
    for (int64_t tile = 0, e = kernel.getNumTiles(); steps && tile < e;
         ++tile) {
      auto range =
          steps.getRange(KernelDependence::getCoordinates(kernel, tile));
      if (!range) {
        *lastStep = std::nullopt;
        break;
      }
      *lastStep = std::max(**lastStep, range->second - 1);
    }
    if (steps && !steps.getRank())
      break;
  }
  return *lastStep;
}

const Offset &KernelValues::getOffset(Value value, unsigned depth) {
  if (auto it = known.find(value); it != known.end())
    return *it->second;
  // What depends on itself is not understood.
  known[value] = std::make_unique<Offset>(Offset::unknown(value, kNotAffine));
  if (depth > kMaxDepth)
    return *known[value];
  Offset offset = evaluate(value, depth);
  // The map may have grown, the offset stays where it is.
  Offset &slot = *known[value];
  slot = std::move(offset);
  return slot;
}

const Offset &KernelValues::getFitting(Value value, unsigned depth) {
  const Offset &offset = getOffset(value, depth);
  if (llvm::all_of(offset.cases,
                   [&](const Case &item) { return fits(item.sum, value); }))
    return offset;
  std::unique_ptr<Offset> &misfit = misfits[value];
  if (!misfit)
    misfit = std::make_unique<Offset>(Offset::unknown(value, kWraps));
  return *misfit;
}

Variable KernelValues::getHidden(Value value) {
  auto number = hidden.try_emplace(value, hidden.size()).first->second;
  return {Variable::Hidden, number, {}, std::nullopt, false};
}

Offset KernelValues::hide(Value value, ArrayRef<const Sum *> sums,
                          StringRef reason, std::optional<int64_t> greatest) {
  for (const Sum *sum : sums)
    if (sum->has(Variable::Counter) || sum->has(Variable::Hidden)) {
      Variable variable = getHidden(value);
      variable.greatest = greatest;
      Offset offset = Offset::exactly(Sum(variable));
      offset.cases.front().exact = greatest.has_value();
      return offset;
    }
  return Offset::unknown(value, reason);
}

Variable KernelValues::getCounter(scf::ForOp loop) {
  unsigned number = loops.try_emplace(loop, loops.size()).first->second;
  Variable counter{Variable::Counter, number, {}, std::nullopt, false};
  const Offset &begin = getOffset(loop.getLowerBound());
  const Offset &end = getOffset(loop.getUpperBound());
  std::optional<int64_t> step = getOffset(loop.getStep()).getConstant();
  if (begin.cases.size() != 1 || end.cases.size() != 1 || !step || *step <= 0)
    return counter;
  Sum distance = end.cases.front().sum - begin.cases.front().sum;
  Bounds range = distance.getBounds();
  if (!range.greatest)
    return counter;
  // A loop that never runs accesses nothing: one turn is more than that.
  int64_t turns =
      *range.greatest <= 0 ? 0 : llvm::divideCeilSigned(*range.greatest, *step);
  counter.greatest = std::max<int64_t>(turns - 1, 0);
  counter.exact = distance.isConstant() && turns > 0 &&
                  begin.cases.front().exact && end.cases.front().exact &&
                  begin.cases.front().conditions.empty() &&
                  end.cases.front().conditions.empty();
  return counter;
}

Offset KernelValues::evaluateArgument(BlockArgument argument, unsigned depth) {
  Operation *parent = argument.getOwner()->getParentOp();
  if (isNamed(parent, "tt.func")) {
    if (auto named = argument.getLoc()->findInstanceOf<NameLoc>())
      if (auto value = kernel.getInteger(named.getName().getValue()))
        if (getWidth(argument) > 1)
          return Offset::exactly(Sum(*value));
    return Offset::unknown(argument, kNoValue);
  }
  if (auto steps = dyn_cast<scf::ForOp>(parent);
      steps && argument != steps.getInductionVar()) {
    unsigned index = argument.getArgNumber() - steps.getNumInductionVars();
    if (isStep(steps.getYieldedValues()[index]))
      return evaluateStepBefore(steps, index, argument, depth);
  }
  scf::ForOp loop = getInnerLoop(argument);
  if (!loop)
    return Offset::unknown(argument,
                           isa<scf::ForOp>(parent) ? kPosition : kNotAffine);
  Variable counter = getCounter(loop);
  if (argument != loop.getInductionVar()) {
    unsigned index = argument.getArgNumber() - loop.getNumInductionVars();
    return carry(loop, index, Sum(counter),
                 getOffset(loop.getInitArgs()[index], depth + 1), depth);
  }
  const Offset &begin = getFitting(loop.getLowerBound(), depth + 1);
  const Offset &end = getFitting(loop.getUpperBound(), depth + 1);
  std::optional<int64_t> step =
      getFitting(loop.getStep(), depth + 1).getConstant();
  if (begin.cases.size() != 1 || !step || *step <= 0) {
    Offset offset = Offset::exactly(Sum(getHidden(argument)));
    offset.cases.front().exact = false;
    return offset;
  }
  Offset offset = begin;
  Case &only = offset.cases.front();
  only.sum = only.sum + Sum(counter) * *step;
  // Where the tile decides how far the loop runs, the counter's bound is that
  // of all tiles.
  if (!counter.exact && end.cases.size() == 1) {
    Sum last = end.cases.front().sum;
    bool divides =
        (last - begin.cases.front().sum).splitBy(*step).second == Sum(0);
    // Of a loop that never runs there is no turn for which this could fail.
    (void)only.require(last - Sum(divides ? *step : 1) - only.sum);
  }
  return offset;
}

Offset KernelValues::evaluateStepBefore(scf::ForOp loop, unsigned index,
                                        Value value, unsigned depth) {
  Offset offset = getOffset(loop.getInitArgs()[index], depth + 1);
  const Offset &step = getOffset(loop.getYieldedValues()[index], depth + 1);
  if (!offset.isKnown() || !step.isKnown())
    return Offset::unknown(value, kNotAffine);
  llvm::append_range(offset.cases, step.cases);
  // Not all steps are taken at every place.
  for (Case &item : offset.cases)
    item.exact = false;
  return offset;
}

Offset KernelValues::carry(scf::ForOp loop, unsigned index, const Sum &before,
                           const Offset &init, unsigned depth) {
  Value carried = loop.getRegionIterArgs()[index];
  SmallVector<std::pair<Value, bool>> added;
  if (!init.isKnown())
    return init;
  int64_t turn = 0;
  bool isSteady = collectAdded(loop.getYieldedValues()[index], carried, added);
  for (auto [value, isMinus] : added) {
    std::optional<int64_t> part = getOffset(value, depth + 1).getConstant();
    isSteady &= part && !(isMinus ? llvm::SubOverflow(turn, *part, turn)
                                  : llvm::AddOverflow(turn, *part, turn));
  }
  Sum step = isSteady ? before * turn : Sum(getHidden(carried));
  Offset offset = init;
  for (Case &item : offset.cases) {
    item.sum = item.sum + step;
    item.exact &= isSteady;
    if (!item.sum.isValid())
      return Offset::unknown(carried, kWraps);
  }
  return offset;
}

Offset KernelValues::evaluateLoopResult(Value result, unsigned depth) {
  auto loop = cast<scf::ForOp>(result.getDefiningOp());
  unsigned index = cast<OpResult>(result).getResultNumber();
  if (!findMarkers(loop, kTileMarker).empty())
    return Offset::unknown(result, kPosition);
  if (isStep(loop.getYieldedValues()[index]))
    return evaluateStepBefore(loop, index, result, depth);
  Variable counter = getCounter(loop);
  // A loop that adds nothing leaves its value as it was, however often it runs.
  Sum turns = counter.exact ? Sum(*counter.greatest + 1)
                            : Sum(getHidden(loop.getInductionVar()));
  Offset offset = carry(loop, index, turns,
                        getOffset(loop.getInitArgs()[index], depth + 1), depth);
  for (Case &item : offset.cases)
    item.exact &= !item.sum.has(Variable::Hidden);
  return offset;
}

Offset KernelValues::evaluate(Value value, unsigned depth) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant))) {
    if (!constant.isSignedIntN(64))
      return Offset::unknown(value, kNotAffine);
    return Offset::exactly(Sum(constant.getSExtValue()));
  }
  if (auto argument = dyn_cast<BlockArgument>(value))
    return evaluateArgument(argument, depth);
  Operation *op = value.getDefiningOp();
  if (isMarker(op, kTileMarker)) {
    // The marker's last result is the ordinal of the tile, no coordinate, and
    // the one before it may be the number of a part, which a tile has all of.
    unsigned number = cast<OpResult>(value).getResultNumber();
    if (number == kernel.getTiles().size() && marksPart(kernel, op)) {
      Variable part = getHidden(value);
      part.greatest = kernel.getParts() - 1;
      return Offset::exactly(Sum(part));
    }
    if (number >= kernel.getTiles().size())
      return Offset::unknown(value, kNotAffine);
    return Offset::exactly(Sum(Variable{
        Variable::Coordinate, 0, getAffineDimExpr(number, kernel.getContext()),
        kernel.getTiles()[number] - 1, true}));
  }
  auto branch = dyn_cast<scf::IfOp>(op);
  if (isStep(value))
    return Offset::exactly(Sum(Variable{
        Variable::Coordinate, 0,
        getAffineDimExpr(kernel.getTiles().size(), kernel.getContext()),
        getLastStep(), true}));
  // As many rows of the table as the kernel's own steps.
  if (isStepsMarker(op))
    return getOffset(op->getOperand(cast<OpResult>(value).getResultNumber()),
                     depth + 1);
  if (isNamed(op, "tt.get_program_id"))
    return Offset::unknown(value, kPosition);
  if (isNamed(op, "tt.splat") || isNamed(op, "tt.broadcast") ||
      isNamed(op, "tt.unsplat"))
    return getOffset(op->getOperand(0), depth + 1);
  if (isa<arith::ExtSIOp, arith::IndexCastOp>(op))
    return getFitting(op->getOperand(0), depth + 1);
  if (auto moved = getMovedAxes(op)) {
    Offset offset = getOffset(op->getOperand(0), depth + 1);
    moveLanes(offset, *moved);
    return offset;
  }
  if (isNamed(op, "tt.make_range")) {
    auto start = dyn_cast_or_null<IntegerAttr>(getTritonAttribute(op, "start"));
    auto end = dyn_cast_or_null<IntegerAttr>(getTritonAttribute(op, "end"));
    if (!start || !end || start.getInt() >= end.getInt())
      return Offset::unknown(value, kNotAffine);
    return Offset::exactly(
        Sum(Variable{
            Variable::Lane, 0, {}, end.getInt() - start.getInt() - 1, true}) +
        Sum(start.getInt()));
  }
  // What is cut off here would have to be cut off where the value is used.
  if (isa<arith::TruncIOp>(op))
    return getOffset(op->getOperand(0), depth + 1);
  if (isa<arith::ExtUIOp>(op)) {
    const Offset &offset = getFitting(op->getOperand(0), depth + 1);
    for (const Case &item : offset.cases) {
      Bounds range = item.sum.getBounds();
      if (!range.least || *range.least < 0)
        return Offset::unknown(value, kWraps);
    }
    return offset;
  }
  if (isa<scf::ForOp>(op))
    return evaluateLoopResult(value, depth);
  if (auto select = dyn_cast<arith::SelectOp>(op))
    return choose(value, select.getCondition(), select.getTrueValue(),
                  select.getFalseValue(), depth);
  if (branch) {
    unsigned number = cast<OpResult>(value).getResultNumber();
    return choose(value, branch.getCondition(),
                  branch.thenYield()->getOperand(number),
                  branch.elseYield()->getOperand(number), depth);
  }
  if (op->getNumOperands() == 2 &&
      op->getName().getDialectNamespace() == "arith")
    return evaluateArithmetic(op, depth);
  return Offset::unknown(value, kNotAffine);
}

Offset KernelValues::choose(Value result, Value condition, Value yes, Value no,
                            unsigned depth) {
  Offset chosen;
  for (bool negated : {false, true}) {
    Mask mask = getMask(condition, negated, depth + 1);
    if (mask.never)
      continue;
    const Offset &offset = getOffset(negated ? no : yes, depth + 1);
    if (!offset.isKnown())
      return offset;
    for (Case item : offset.cases) {
      item.exact &= mask.exact;
      if (item.require(mask.conditions))
        chosen.cases.push_back(std::move(item));
    }
  }
  if (chosen.cases.empty() || chosen.cases.size() > kMaxCases)
    return Offset::unknown(result, kNotAffine);
  return chosen;
}
