//===- Offset.cpp - what a kernel's integers may be -----------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/Offset.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace syncopate;

Bounds Variable::getBounds() const {
  if (kind == Hidden && !greatest)
    return {};
  return {0, greatest};
}

void Sum::add(const Variable &variable, int64_t factor) {
  // A variable of one value is no variable.
  if (factor == 0 || (variable.kind != Variable::Hidden &&
                      variable.greatest == 0 && variable.exact))
    return;
  auto it = llvm::find_if(
      terms, [&](const Term &term) { return term.variable == variable; });
  if (it == terms.end()) {
    terms.push_back({variable, factor});
    return;
  }
  valid &= !llvm::AddOverflow(it->factor, factor, it->factor);
  if (it->factor == 0)
    terms.erase(it);
}

Sum Sum::plus(const Sum &other, int64_t factor) const {
  Sum sum = *this;
  int64_t scaled = 0;
  sum.valid &= other.valid &&
               !llvm::MulOverflow(other.constant, factor, scaled) &&
               !llvm::AddOverflow(sum.constant, scaled, sum.constant);
  for (const Term &term : other.terms) {
    sum.valid &= !llvm::MulOverflow(term.factor, factor, scaled);
    sum.add(term.variable, scaled);
  }
  return sum;
}

bool Sum::operator==(const Sum &other) const {
  Sum difference = *this - other;
  return difference.valid && difference.terms.empty() &&
         difference.constant == 0;
}

bool Sum::has(Variable::Kind kind) const {
  return llvm::any_of(
      terms, [&](const Term &term) { return term.variable.kind == kind; });
}

bool Sum::isOfTile() const {
  return llvm::all_of(terms, [](const Term &term) {
    return term.variable.kind == Variable::Coordinate;
  });
}

/// One bound of a term, which is its other one times -1 if the factor is
/// negative.
static std::optional<int64_t> getBound(const Sum::Term &term, bool greatest) {
  Bounds range = term.variable.getBounds();
  std::optional<int64_t> bound =
      greatest == (term.factor > 0) ? range.greatest : range.least;
  int64_t scaled;
  if (!bound || llvm::MulOverflow(*bound, term.factor, scaled))
    return std::nullopt;
  return scaled;
}

std::optional<Sum> Sum::boundInTile(bool greatest) const {
  Sum bound(constant);
  for (const Term &term : terms) {
    if (term.variable.kind == Variable::Coordinate) {
      bound.add(term.variable, term.factor);
      continue;
    }
    std::optional<int64_t> part = getBound(term, greatest);
    if (!part)
      return std::nullopt;
    bound = bound + Sum(*part);
  }
  if (!valid || !bound.valid)
    return std::nullopt;
  return bound;
}

Bounds Sum::getBounds() const {
  Bounds range{constant, constant};
  auto widen = [](std::optional<int64_t> &bound, std::optional<int64_t> part) {
    int64_t sum;
    if (bound && part && !llvm::AddOverflow(*bound, *part, sum))
      bound = sum;
    else
      bound = std::nullopt;
  };
  for (const Term &term : terms) {
    widen(range.least, getBound(term, false));
    widen(range.greatest, getBound(term, true));
  }
  return valid ? range : Bounds();
}

AffineExpr Sum::toExpr(MLIRContext *context) const {
  AffineExpr expr = getAffineConstantExpr(0, context);
  std::vector<Term> sorted = terms;
  llvm::stable_sort(sorted, [](const Term &a, const Term &b) {
    auto position = [](const Term &term) {
      auto dim = dyn_cast<AffineDimExpr>(term.variable.expr);
      return dim ? dim.getPosition() : ~0u;
    };
    return position(a) < position(b);
  });
  for (const Term &term : sorted)
    expr = expr + term.variable.expr * term.factor;
  return expr + constant;
}

Sum Sum::mapLanes(function_ref<unsigned(unsigned)> axisOf) const {
  Sum sum(constant);
  sum.valid = valid;
  for (const Term &term : terms) {
    Variable variable = term.variable;
    if (variable.kind == Variable::Lane)
      variable.number = axisOf(variable.number);
    sum.add(variable, term.factor);
  }
  return sum;
}

std::pair<Sum, Sum> Sum::splitBy(int64_t divisor) const {
  Sum divisible, rest;
  divisible.valid = rest.valid = valid;
  for (const Term &term : terms)
    (term.factor % divisor == 0 ? divisible : rest)
        .add(term.variable, term.factor);
  rest.constant = llvm::mod(constant, divisor);
  divisible.valid &=
      !llvm::SubOverflow(constant, rest.constant, divisible.constant);
  return {divisible, rest};
}

Sum Sum::dividedBy(int64_t divisor) const {
  Sum sum = *this;
  sum.constant /= divisor;
  for (Term &term : sum.terms)
    term.factor /= divisor;
  return sum;
}

bool Case::require(const Sum &condition) {
  Bounds range = condition.getBounds();
  if (range.greatest && *range.greatest < 0)
    return false;
  if (!(range.least && *range.least >= 0) &&
      !llvm::is_contained(conditions, condition))
    conditions.push_back(condition);
  return true;
}

bool Case::require(ArrayRef<Sum> others) {
  return llvm::all_of(others,
                      [&](const Sum &condition) { return require(condition); });
}

std::optional<int64_t> Offset::getConstant() const {
  if (cases.size() != 1 || !cases.front().sum.isConstant() ||
      !cases.front().conditions.empty())
    return std::nullopt;
  return cases.front().sum.getConstant();
}
