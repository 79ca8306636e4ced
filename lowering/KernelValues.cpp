//===- KernelValues.cpp - what a kernel computes addresses of -------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/KernelValues.h"
#include "lowering/TritonModule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

static constexpr unsigned kMaxDepth = 256;
static constexpr size_t kMaxCases = 8;

static constexpr llvm::StringLiteral kNotAffine =
    "is not affine in the tile coordinates";
static constexpr llvm::StringLiteral kPosition =
    "comes from the position in the order, not from the coordinates that the "
    "tile marker returns";
static constexpr llvm::StringLiteral kNoValue =
    "is not known before the kernel runs";
static constexpr llvm::StringLiteral kWraps = "may not fit into its type";

static Offset unknown(Value value, StringRef reason) {
  return {{}, value, reason};
}

static Offset exactly(Sum sum) {
  return {{Case{std::move(sum), {}, true}}, {}, {}};
}

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

static bool isName(Operation *op, StringRef name) {
  return op->getName().getStringRef() == name;
}

/// Where the axes of an operation's operand are in its result, if it does no
/// more than to put them elsewhere.
static std::optional<SmallVector<unsigned>> getMovedAxes(Operation *op) {
  auto from = op->getNumOperands() == 1
                  ? dyn_cast<RankedTensorType>(op->getOperand(0).getType())
                  : RankedTensorType();
  auto to = op->getNumResults() == 1
                ? dyn_cast<RankedTensorType>(op->getResult(0).getType())
                : RankedTensorType();
  if (!from || !to)
    return std::nullopt;
  SmallVector<unsigned> moved(from.getRank(), 0);
  if (isName(op, "tt.trans")) {
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
  if (isName(op, "tt.expand_dims") && axis) {
    for (auto [source, target] : llvm::enumerate(moved))
      target = source + (static_cast<int64_t>(source) >= axis.getInt());
    return moved;
  }
  // Axes of one element may come and go. Others keep their order, unless the
  // operation may change that.
  if (!isName(op, "tt.reshape") || getTritonAttribute(op, "allow_reorder"))
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

static Sum moveLanes(const Sum &sum, ArrayRef<unsigned> moved) {
  return sum.mapLanes(
      [&](unsigned lane) { return lane < moved.size() ? moved[lane] : lane; });
}

static void moveLanes(Offset &offset, ArrayRef<unsigned> moved) {
  for (Case &item : offset.cases) {
    item.sum = moveLanes(item.sum, moved);
    for (Sum &condition : item.conditions)
      condition = moveLanes(condition, moved);
  }
}

std::optional<int64_t> Offset::getConstant() const {
  if (cases.size() != 1 || !cases.front().sum.isConstant() ||
      !cases.front().conditions.empty())
    return std::nullopt;
  return cases.front().sum.getConstant();
}

const Offset &KernelValues::getOffset(Value value, unsigned depth) {
  if (auto it = known.find(value); it != known.end())
    return *it->second;
  // What depends on itself is not understood.
  known[value] = std::make_unique<Offset>(unknown(value, kNotAffine));
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
    misfit = std::make_unique<Offset>(unknown(value, kWraps));
  return *misfit;
}

Variable KernelValues::getHidden(Value value) {
  auto number = hidden.try_emplace(value, hidden.size()).first->second;
  return {Variable::Hidden, number, {}, std::nullopt, false};
}

/// Something that is not affine, but differs inside the tile: what a tile
/// accesses by it has no bound of its own. What only the tile decides is
/// reported instead, as a bound would cost overlap.
Offset KernelValues::hide(Value value, ArrayRef<const Sum *> sums,
                          StringRef reason) {
  for (const Sum *sum : sums)
    if (sum->has(Variable::Counter) || sum->has(Variable::Hidden)) {
      Offset offset = exactly(Sum(getHidden(value)));
      offset.cases.front().exact = false;
      return offset;
    }
  return unknown(value, reason);
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

/// The loop that carries `value` over its turns, if it stands inside a tile.
static scf::ForOp getInnerLoop(BlockArgument argument) {
  auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
  // The loop over tiles holds the marker.
  return loop && findMarkers(loop, kTileMarker).empty() ? loop : scf::ForOp();
}

Offset KernelValues::evaluateArgument(BlockArgument argument, unsigned depth) {
  Operation *parent = argument.getOwner()->getParentOp();
  if (isName(parent, "tt.func")) {
    if (auto named = argument.getLoc()->findInstanceOf<NameLoc>())
      if (auto value = kernel.getInteger(named.getName().getValue()))
        if (getWidth(argument) > 1)
          return exactly(Sum(*value));
    return unknown(argument, kNoValue);
  }
  scf::ForOp loop = getInnerLoop(argument);
  if (!loop)
    return unknown(argument, isa<scf::ForOp>(parent) ? kPosition : kNotAffine);
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
    Offset offset = exactly(Sum(getHidden(argument)));
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

/// Follows what the loop yields back to what it carries, over additions, and
/// returns what was added.
static bool collectAdded(Value yielded, Value carried,
                         SmallVectorImpl<std::pair<Value, bool>> &added) {
  for (unsigned length = 0; yielded != carried; ++length) {
    Operation *op = yielded.getDefiningOp();
    if (!op || length > kMaxDepth)
      return false;
    if (isName(op, "tt.addptr") || isa<arith::AddIOp, arith::SubIOp>(op)) {
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
      return unknown(carried, kWraps);
  }
  return offset;
}

Offset KernelValues::evaluateLoopResult(Value result, unsigned depth) {
  auto loop = cast<scf::ForOp>(result.getDefiningOp());
  unsigned index = cast<OpResult>(result).getResultNumber();
  if (!findMarkers(loop, kTileMarker).empty())
    return unknown(result, kPosition);
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
      return unknown(value, kNotAffine);
    return exactly(Sum(constant.getSExtValue()));
  }
  if (auto argument = dyn_cast<BlockArgument>(value))
    return evaluateArgument(argument, depth);
  Operation *op = value.getDefiningOp();
  if (isMarker(op, kTileMarker)) {
    // The marker's last result is the ordinal of the tile, no coordinate.
    unsigned number = cast<OpResult>(value).getResultNumber();
    if (number >= kernel.getTiles().size())
      return unknown(value, kNotAffine);
    return exactly(Sum(Variable{Variable::Coordinate, 0,
                                getAffineDimExpr(number, kernel.getContext()),
                                kernel.getTiles()[number] - 1, true}));
  }
  if (isName(op, "tt.get_program_id"))
    return unknown(value, kPosition);
  if (isName(op, "tt.splat") || isName(op, "tt.broadcast") ||
      isName(op, "tt.unsplat"))
    return getOffset(op->getOperand(0), depth + 1);
  if (isa<arith::ExtSIOp, arith::IndexCastOp>(op))
    return getFitting(op->getOperand(0), depth + 1);
  if (auto moved = getMovedAxes(op)) {
    Offset offset = getOffset(op->getOperand(0), depth + 1);
    moveLanes(offset, *moved);
    return offset;
  }
  if (isName(op, "tt.make_range")) {
    auto start = dyn_cast_or_null<IntegerAttr>(getTritonAttribute(op, "start"));
    auto end = dyn_cast_or_null<IntegerAttr>(getTritonAttribute(op, "end"));
    if (!start || !end || start.getInt() >= end.getInt())
      return unknown(value, kNotAffine);
    return exactly(
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
        return unknown(value, kWraps);
    }
    return offset;
  }
  if (isa<scf::ForOp>(op))
    return evaluateLoopResult(value, depth);
  if (auto select = dyn_cast<arith::SelectOp>(op))
    return choose(value, select.getCondition(), select.getTrueValue(),
                  select.getFalseValue(), depth);
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    unsigned number = cast<OpResult>(value).getResultNumber();
    return choose(value, branch.getCondition(),
                  branch.thenYield()->getOperand(number),
                  branch.elseYield()->getOperand(number), depth);
  }
  if (op->getNumOperands() == 2 &&
      op->getName().getDialectNamespace() == "arith")
    return evaluateArithmetic(op, depth);
  return unknown(value, kNotAffine);
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
    return unknown(result, kNotAffine);
  return chosen;
}

Offset KernelValues::evaluateArithmetic(Operation *op, unsigned depth) {
  Value result = op->getResult(0);
  // What wraps around in sums and products may come back in their result.
  bool mayWrap =
      isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::ShLIOp>(op);
  auto getOperand = [&](unsigned number) -> const Offset & {
    Value operand = op->getOperand(number);
    return mayWrap ? getOffset(operand, depth + 1)
                   : getFitting(operand, depth + 1);
  };
  const Offset &lhs = getOperand(0);
  if (!lhs.isKnown())
    return lhs;
  const Offset &rhs = getOperand(1);
  if (!rhs.isKnown())
    return rhs;
  Offset combined;
  for (const Case &left : lhs.cases)
    for (const Case &right : rhs.cases) {
      Offset part = evaluateCase(op, left.sum, right.sum);
      if (!part.isKnown())
        return part;
      for (Case &item : part.cases) {
        item.exact &= left.exact && right.exact;
        if (!item.require(left.conditions) || !item.require(right.conditions))
          continue;
        if (!item.sum.isValid())
          return unknown(result, kWraps);
        combined.cases.push_back(std::move(item));
      }
    }
  if (combined.cases.empty() || combined.cases.size() > kMaxCases)
    return unknown(result, kNotAffine);
  return combined;
}

Offset KernelValues::evaluateCase(Operation *op, const Sum &lhs,
                                  const Sum &rhs) {
  Value result = op->getResult(0);
  if (isa<arith::AddIOp>(op))
    return exactly(lhs + rhs);
  if (isa<arith::SubIOp>(op))
    return exactly(lhs - rhs);
  if (isa<arith::MulIOp>(op)) {
    if (lhs.isConstant())
      return exactly(rhs * lhs.getConstant());
    if (rhs.isConstant())
      return exactly(lhs * rhs.getConstant());
    return hide(result, {&lhs, &rhs}, kNotAffine);
  }
  if (isa<arith::ShLIOp>(op) && rhs.isConstant() &&
      rhs.getBounds().within(0, 62))
    return exactly(lhs * (int64_t(1) << rhs.getConstant()));
  if (isa<arith::DivSIOp, arith::DivUIOp>(op))
    return divide(op, lhs, rhs);
  if (isa<arith::RemSIOp, arith::RemUIOp>(op))
    return remainder(op, lhs, rhs);
  bool isMin = isa<arith::MinSIOp>(op);
  if (isMin || isa<arith::MaxSIOp>(op)) {
    // How far the left one lies on the side that is taken.
    Sum left = isMin ? rhs - lhs : lhs - rhs;
    Offset offset;
    Case first{lhs, {}, true}, second{rhs, {}, true};
    if (first.require(left))
      offset.cases.push_back(first);
    if (!first.conditions.empty() || offset.cases.empty())
      if (second.require(Sum(-1) - left) || offset.cases.empty())
        offset.cases.push_back(second);
    return offset;
  }
  return hide(result, {&lhs, &rhs}, kNotAffine);
}

static bool isAtLeastZero(const Sum &sum) {
  Bounds range = sum.getBounds();
  return range.least && *range.least >= 0;
}

Offset KernelValues::divide(Operation *op, const Sum &lhs, const Sum &rhs) {
  Value result = op->getResult(0);
  int64_t divisor = rhs.getConstant();
  if (!rhs.isConstant() || divisor <= 0 || !lhs.isValid())
    return hide(result, {&lhs, &rhs}, kNotAffine);
  if (lhs.isConstant() && (isa<arith::DivSIOp>(op) || lhs.getConstant() >= 0))
    return exactly(Sum(lhs.getConstant() / divisor));
  // Of what is negative, the kernel rounds another way.
  if (!isAtLeastZero(lhs))
    return hide(result, {&lhs}, kNotAffine);
  auto [divisible, rest] = lhs.splitBy(divisor);
  Sum quotient = divisible.dividedBy(divisor);
  if (rest.getBounds().within(0, divisor - 1))
    return exactly(quotient);
  if (!rest.isOfTile() || !isAtLeastZero(rest))
    return hide(result, {&lhs}, kNotAffine);
  Bounds range = rest.getBounds();
  if (!range.greatest)
    return unknown(result, kNotAffine);
  return exactly(
      quotient +
      Sum(Variable{Variable::Coordinate, 0,
                   rest.toExpr(kernel.getContext()).floorDiv(divisor),
                   *range.greatest / divisor, true}));
}

Offset KernelValues::remainder(Operation *op, const Sum &lhs, const Sum &rhs) {
  Value result = op->getResult(0);
  int64_t divisor = rhs.getConstant();
  if (!rhs.isConstant() || divisor <= 0 || !lhs.isValid())
    return hide(result, {&lhs, &rhs}, kNotAffine);
  if (lhs.isConstant() && (isa<arith::RemSIOp>(op) || lhs.getConstant() >= 0))
    return exactly(Sum(lhs.getConstant() % divisor));
  if (!isAtLeastZero(lhs))
    return hide(result, {&lhs}, kNotAffine);
  Sum rest = lhs.splitBy(divisor).second;
  Bounds range = rest.getBounds();
  if (range.within(0, divisor - 1))
    return exactly(rest);
  if (rest.isOfTile() && isAtLeastZero(rest))
    return exactly(Sum(Variable{Variable::Coordinate, 0,
                                rest.toExpr(kernel.getContext()) % divisor,
                                divisor - 1, true}));
  if (!range.isBounded())
    return hide(result, {&lhs}, kNotAffine);
  Offset offset;
  int64_t first = llvm::divideFloorSigned(*range.least, divisor);
  int64_t last = llvm::divideFloorSigned(*range.greatest, divisor);
  if (last - first >= static_cast<int64_t>(kMaxCases))
    return hide(result, {&lhs}, kNotAffine);
  for (int64_t turn = first; turn <= last; ++turn) {
    Case item{rest - Sum(divisor) * turn, {}, true};
    if (item.require(item.sum) && item.require(Sum(divisor - 1) - item.sum))
      offset.cases.push_back(std::move(item));
  }
  return offset;
}

Mask KernelValues::getMask(Value value, bool negated, unsigned depth) {
  Mask mask;
  Operation *op = value.getDefiningOp();
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant))) {
    mask.never = constant.isZero() != negated;
    return mask;
  }
  mask.exact = false;
  if (!op || depth > kMaxDepth)
    return mask;
  if (isName(op, "tt.splat") || isName(op, "tt.broadcast"))
    return getMask(op->getOperand(0), negated, depth + 1);
  if (auto moved = getMovedAxes(op)) {
    mask = getMask(op->getOperand(0), negated, depth + 1);
    for (Sum &condition : mask.conditions)
      condition = moveLanes(condition, *moved);
    return mask;
  }
  // Both must hold: of "and", or of "or" when it does not.
  if (negated ? isa<arith::OrIOp>(op) : isa<arith::AndIOp>(op)) {
    mask = getMask(op->getOperand(0), negated, depth + 1);
    Mask other = getMask(op->getOperand(1), negated, depth + 1);
    mask.exact &= other.exact;
    mask.never |= other.never;
    llvm::append_range(mask.conditions, other.conditions);
    return mask;
  }
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare)
    return mask;
  const Offset &lhs = getFitting(compare.getLhs(), depth + 1);
  const Offset &rhs = getFitting(compare.getRhs(), depth + 1);
  if (lhs.cases.size() != 1 || rhs.cases.size() != 1 ||
      !lhs.cases.front().exact || !rhs.cases.front().exact)
    return mask;
  Sum difference = rhs.cases.front().sum - lhs.cases.front().sum;
  std::vector<Sum> conditions;
  arith::CmpIPredicate predicate = compare.getPredicate();
  if (negated)
    predicate = arith::invertPredicate(predicate);
  // Unsigned comparisons are those of numbers that are not negative.
  bool natural = isAtLeastZero(lhs.cases.front().sum) &&
                 isAtLeastZero(rhs.cases.front().sum);
  using P = arith::CmpIPredicate;
  switch (predicate) {
  case P::ult:
  case P::ule:
  case P::ugt:
  case P::uge:
    if (!natural)
      return mask;
    break;
  default:
    break;
  }
  switch (predicate) {
  case P::slt:
  case P::ult:
    conditions = {difference - Sum(1)};
    break;
  case P::sle:
  case P::ule:
    conditions = {difference};
    break;
  case P::sgt:
  case P::ugt:
    conditions = {Sum(-1) - difference};
    break;
  case P::sge:
  case P::uge:
    conditions = {Sum(0) - difference};
    break;
  case P::eq:
    conditions = {difference, Sum(0) - difference};
    break;
  case P::ne:
    return mask;
  }
  // What is compared holds under conditions of its own.
  Case item;
  mask.exact = true;
  mask.never = !item.require(conditions);
  mask.conditions = std::move(item.conditions);
  return mask;
}

PointerValue KernelValues::getPointer(Value value, unsigned depth) {
  if (depth > kMaxDepth)
    return {{}, unknown(value, kNotAffine)};
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (isName(argument.getOwner()->getParentOp(), "tt.func"))
      return {argument, exactly(Sum(0))};
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (!loop || argument == loop.getInductionVar())
      return {{}, unknown(value, kNotAffine)};
    unsigned index = argument.getArgNumber() - loop.getNumInductionVars();
    // A loop that does not just move a pointer along may exchange it for that
    // of another argument.
    SmallVector<std::pair<Value, bool>> added;
    if (!collectAdded(loop.getYieldedValues()[index], argument, added))
      return {{}, unknown(value, kNotAffine)};
    PointerValue init = getPointer(loop.getInitArgs()[index], depth + 1);
    if (getInnerLoop(argument))
      init.offset =
          carry(loop, index, Sum(getCounter(loop)), init.offset, depth);
    else if (!added.empty())
      init.offset = unknown(value, kPosition);
    return init;
  }
  Operation *op = value.getDefiningOp();
  if (isName(op, "tt.splat") || isName(op, "tt.broadcast"))
    return getPointer(op->getOperand(0), depth + 1);
  if (auto moved = getMovedAxes(op)) {
    PointerValue pointer = getPointer(op->getOperand(0), depth + 1);
    moveLanes(pointer.offset, *moved);
    return pointer;
  }
  if (!isName(op, "tt.addptr"))
    return {{}, unknown(value, kNotAffine)};
  PointerValue pointer = getPointer(op->getOperand(0), depth + 1);
  if (!pointer.offset.isKnown())
    return pointer;
  const Offset &added = getFitting(op->getOperand(1), depth + 1);
  if (!added.isKnown())
    return {pointer.base, added};
  Offset sum;
  for (const Case &left : pointer.offset.cases)
    for (const Case &right : added.cases) {
      Case item = left;
      item.sum = left.sum + right.sum;
      item.exact &= right.exact;
      if (!item.sum.isValid())
        return {pointer.base, unknown(value, kWraps)};
      if (item.require(right.conditions))
        sum.cases.push_back(std::move(item));
    }
  if (sum.cases.empty() || sum.cases.size() > kMaxCases)
    return {pointer.base, unknown(value, kNotAffine)};
  return {pointer.base, std::move(sum)};
}
