//===- KernelPointers.cpp - pointers and masks of a kernel ----------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/KernelValues.h"
#include "lowering/TritonModule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

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
  if (isNamed(op, "tt.splat") || isNamed(op, "tt.broadcast"))
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
  bool natural = lhs.cases.front().sum.isAtLeastZero() &&
                 rhs.cases.front().sum.isAtLeastZero();
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
    return {{}, Offset::unknown(value, kNotAffine)};
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (isNamed(argument.getOwner()->getParentOp(), "tt.func"))
      return {argument, Offset::exactly(Sum(0))};
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (!loop || argument == loop.getInductionVar())
      return {{}, Offset::unknown(value, kNotAffine)};
    unsigned index = argument.getArgNumber() - loop.getNumInductionVars();
    // A loop that does not just move a pointer along may exchange it for that
    // of another argument.
    SmallVector<std::pair<Value, bool>> added;
    if (!collectAdded(loop.getYieldedValues()[index], argument, added))
      return {{}, Offset::unknown(value, kNotAffine)};
    PointerValue init = getPointer(loop.getInitArgs()[index], depth + 1);
    if (getInnerLoop(argument))
      init.offset =
          carry(loop, index, Sum(getCounter(loop)), init.offset, depth);
    else if (!added.empty())
      init.offset = Offset::unknown(value, kPosition);
    return init;
  }
  Operation *op = value.getDefiningOp();
  if (isNamed(op, "tt.splat") || isNamed(op, "tt.broadcast"))
    return getPointer(op->getOperand(0), depth + 1);
  if (auto moved = getMovedAxes(op)) {
    PointerValue pointer = getPointer(op->getOperand(0), depth + 1);
    moveLanes(pointer.offset, *moved);
    return pointer;
  }
  if (!isNamed(op, "tt.addptr"))
    return {{}, Offset::unknown(value, kNotAffine)};
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
        return {pointer.base, Offset::unknown(value, kWraps)};
      if (item.require(right.conditions))
        sum.cases.push_back(std::move(item));
    }
  if (sum.cases.empty() || sum.cases.size() > kMaxCases)
    return {pointer.base, Offset::unknown(value, kNotAffine)};
  return {pointer.base, std::move(sum)};
}
