//===- Offset.h - what a kernel's integers may be ---------------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An offset is a sum: a constant, and variables times factors. A tensor of
// offsets is one such sum, in which a lane stands for the index along an axis.
// Where a kernel chooses (`%`, `min`, `where`), an offset is one of several
// cases, each under conditions.
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_OFFSET_H
#define SYNCOPATE_LOWERING_OFFSET_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>
#include <vector>

namespace syncopate {

/// Least and greatest value, as far as they are known and fit.
struct Bounds {
  std::optional<int64_t> least, greatest;

  bool within(int64_t low, int64_t high) const {
    return least && greatest && *least >= low && *greatest <= high;
  }
  bool isBounded() const { return least && greatest; }
};

/// What an offset may depend on.
struct Variable {
  enum Kind {
    /// An expression of tile coordinates, at least 0.
    Coordinate,
    /// The index along an axis of the tensor, from 0.
    Lane,
    /// How often a loop inside the tile has run before, from 0.
    Counter,
    /// Something that differs inside a tile in a way that is not understood; at
    /// least 0 if its greatest value is known.
    Hidden
  };

  Kind kind;
  /// Axis of a lane, number of a counter or of something hidden.
  unsigned number = 0;
  /// For a coordinate.
  mlir::AffineExpr expr;
  /// The greatest value, if it is known.
  std::optional<int64_t> greatest;
  /// True if the variable takes each value from 0 to the greatest, in each
  /// tile.
  bool exact = true;

  bool operator==(const Variable &other) const {
    return kind == other.kind && number == other.number && expr == other.expr;
  }
  Bounds getBounds() const;
};

/// A constant plus variables times factors. Arithmetic that does not fit into
/// 64 bits makes a sum invalid.
class Sum {
public:
  struct Term {
    Variable variable;
    int64_t factor;
  };

  Sum(int64_t constant = 0) : constant(constant) {}
  Sum(Variable variable) { add(variable, 1); }

  Sum operator+(const Sum &other) const { return plus(other, 1); }
  Sum operator-(const Sum &other) const { return plus(other, -1); }
  Sum operator*(int64_t factor) const { return Sum().plus(*this, factor); }
  bool operator==(const Sum &other) const;

  bool isValid() const { return valid; }
  bool isConstant() const { return terms.empty(); }
  int64_t getConstant() const { return constant; }
  llvm::ArrayRef<Term> getTerms() const { return terms; }
  bool has(Variable::Kind kind) const;
  /// True if nothing but tile coordinates varies.
  bool isOfTile() const;
  Bounds getBounds() const;
  bool isAtLeastZero() const {
    Bounds bounds = getBounds();
    return bounds.least && *bounds.least >= 0;
  }
  /// The part that only the tile decides: with it, the least or the greatest
  /// value within the tile, if it is bounded.
  std::optional<Sum> leastInTile() const { return boundInTile(false); }
  std::optional<Sum> greatestInTile() const { return boundInTile(true); }
  /// A sum of tile coordinates as an expression of them.
  mlir::AffineExpr toExpr(mlir::MLIRContext *context) const;
  /// The sum with its lanes on other axes.
  Sum mapLanes(llvm::function_ref<unsigned(unsigned)> axisOf) const;
  /// Splits into what `divisor` divides and the rest.
  std::pair<Sum, Sum> splitBy(int64_t divisor) const;
  /// Divides factors and constant, which are multiples of `divisor`.
  Sum dividedBy(int64_t divisor) const;

private:
  void add(const Variable &variable, int64_t factor);
  Sum plus(const Sum &other, int64_t factor) const;
  std::optional<Sum> boundInTile(bool greatest) const;

  int64_t constant = 0;
  std::vector<Term> terms;
  bool valid = true;
};

/// An offset, or none, under conditions.
struct Case {
  Sum sum;
  /// Each is at least 0 where this case holds.
  std::vector<Sum> conditions;
  /// False if there are conditions that were not understood.
  bool exact = true;

  /// Adds a condition; false if it never holds. One that always holds is not
  /// kept.
  bool require(const Sum &condition);
  bool require(llvm::ArrayRef<Sum> conditions);
};

/// Why an offset is not known.
inline constexpr llvm::StringLiteral kNotAffine =
    "is not affine in the tile coordinates";
inline constexpr llvm::StringLiteral kPosition =
    "comes from the position in the order, not from the coordinates that the "
    "tile marker returns";
inline constexpr llvm::StringLiteral kNoValue =
    "is not known before the kernel runs";
inline constexpr llvm::StringLiteral kWraps = "may not fit into its type";

/// What is known of an integer, or a tensor of them: what it is in each case,
/// or, without cases, what was not understood.
struct Offset {
  std::vector<Case> cases;
  mlir::Value culprit;
  /// Why, to be read behind "since it ".
  llvm::StringRef reason;

  static Offset exactly(Sum sum) {
    return {{Case{std::move(sum), {}, true}}, {}, {}};
  }
  static Offset unknown(mlir::Value culprit, llvm::StringRef reason) {
    return {{}, culprit, reason};
  }

  bool isKnown() const { return !cases.empty(); }
  std::optional<int64_t> getConstant() const;
};

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_OFFSET_H
