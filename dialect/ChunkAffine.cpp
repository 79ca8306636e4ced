//===- ChunkAffine.cpp - affine maps in attributes
//----------------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/Chunk.h"

#include "mlir/IR/AffineMap.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace syncopate::chunk;

// MLIR prints the least constant of 64 bits, but cannot read it.
bool syncopate::chunk::isAffine(AffineMap map) {
  bool affine = true;
  map.walkExprs([&](AffineExpr expr) {
    if (auto constant = dyn_cast<AffineConstantExpr>(expr))
      affine &= constant.getValue() != std::numeric_limits<int64_t>::min();
    auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
    if (!binary || expr.getKind() == AffineExprKind::Add)
      return;
    auto rhs = dyn_cast<AffineConstantExpr>(binary.getRHS());
    affine &=
        rhs && (expr.getKind() == AffineExprKind::Mul || rhs.getValue() > 0);
  });
  return affine;
}

std::optional<int64_t> syncopate::chunk::evaluate(AffineExpr expr,
                                                  ArrayRef<int64_t> dims) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return dims[dim.getPosition()];
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return constant.getValue();
  auto binary = cast<AffineBinaryOpExpr>(expr);
  std::optional<int64_t> lhs = evaluate(binary.getLHS(), dims);
  std::optional<int64_t> rhs = evaluate(binary.getRHS(), dims);
  if (!lhs || !rhs)
    return std::nullopt;
  int64_t result;
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    if (llvm::AddOverflow(*lhs, *rhs, result))
      return std::nullopt;
    return result;
  case AffineExprKind::Mul:
    if (llvm::MulOverflow(*lhs, *rhs, result))
      return std::nullopt;
    return result;
  // Divisors are positive constants.
  case AffineExprKind::FloorDiv:
    return llvm::divideFloorSigned(*lhs, *rhs);
  case AffineExprKind::CeilDiv:
    return llvm::divideCeilSigned(*lhs, *rhs);
  default:
    return llvm::mod(*lhs, *rhs);
  }
}
