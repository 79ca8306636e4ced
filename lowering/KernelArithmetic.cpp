//===- KernelArithmetic.cpp - sums, quotients, remainders -----------------===//
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
          return Offset::unknown(result, kWraps);
        combined.cases.push_back(std::move(item));
      }
    }
  if (combined.cases.empty() || combined.cases.size() > kMaxCases)
    return Offset::unknown(result, kNotAffine);
  return combined;
}

Offset KernelValues::evaluateCase(Operation *op, const Sum &lhs,
                                  const Sum &rhs) {
  Value result = op->getResult(0);
  if (isa<arith::AddIOp>(op))
    return Offset::exactly(lhs + rhs);
  if (isa<arith::SubIOp>(op))
    return Offset::exactly(lhs - rhs);
  if (isa<arith::MulIOp>(op)) {
    if (lhs.isConstant())
      return Offset::exactly(rhs * lhs.getConstant());
    if (rhs.isConstant())
      return Offset::exactly(lhs * rhs.getConstant());
    return hide(result, {&lhs, &rhs}, kNotAffine);
  }
  if (isa<arith::ShLIOp>(op) && rhs.isConstant() &&
      rhs.getBounds().within(0, 62))
    return Offset::exactly(lhs * (int64_t(1) << rhs.getConstant()));
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

Offset KernelValues::divide(Operation *op, const Sum &lhs, const Sum &rhs) {
  Value result = op->getResult(0);
  int64_t divisor = rhs.getConstant();
  if (!rhs.isConstant() || divisor <= 0 || !lhs.isValid())
    return hide(result, {&lhs, &rhs}, kNotAffine);
  if (lhs.isConstant() && (isa<arith::DivSIOp>(op) || lhs.getConstant() >= 0))
    return Offset::exactly(Sum(lhs.getConstant() / divisor));
  // Of what is negative, the kernel rounds another way.
  if (!lhs.isAtLeastZero())
    return hide(result, {&lhs}, kNotAffine);
  auto [divisible, rest] = lhs.splitBy(divisor);
  Sum quotient = divisible.dividedBy(divisor);
  if (rest.getBounds().within(0, divisor - 1))
    return Offset::exactly(quotient);
  if (!rest.isOfTile() || !rest.isAtLeastZero()) {
    std::optional<int64_t> greatest = lhs.getBounds().greatest;
    if (greatest)
      greatest = *greatest / divisor;
    return hide(result, {&lhs}, kNotAffine, greatest);
  }
  Bounds range = rest.getBounds();
  if (!range.greatest)
    return Offset::unknown(result, kNotAffine);
  return Offset::exactly(
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
    return Offset::exactly(Sum(lhs.getConstant() % divisor));
  if (!lhs.isAtLeastZero())
    return hide(result, {&lhs}, kNotAffine);
  Sum rest = lhs.splitBy(divisor).second;
  Bounds range = rest.getBounds();
  if (range.within(0, divisor - 1))
    return Offset::exactly(rest);
  if (rest.isOfTile() && rest.isAtLeastZero())
    return Offset::exactly(Sum(Variable{
        Variable::Coordinate, 0, rest.toExpr(kernel.getContext()) % divisor,
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
