//===- KernelValues.h - what a kernel computes addresses of -----*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_KERNELVALUES_H
#define SYNCOPATE_LOWERING_KERNELVALUES_H

#include "dialect/Chunk.h"
#include "lowering/Offset.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"

namespace syncopate {

/// What is known of an integer, or a tensor of them: what it is in each case,
/// or, without cases, what was not understood.
struct Offset {
  std::vector<Case> cases;
  mlir::Value culprit;
  /// Why, to be read behind "since it ".
  llvm::StringRef reason;

  bool isKnown() const { return !cases.empty(); }
  std::optional<int64_t> getConstant() const;
};

/// A pointer, or a tensor of them: an argument, and how many elements behind
/// its first. `offset` is unknown if the argument is.
struct PointerValue {
  mlir::Value base;
  Offset offset;
};

/// When something holds: where all conditions are at least 0, and, unless
/// `exact`, under further ones that were not understood.
struct Mask {
  std::vector<Sum> conditions;
  bool exact = true;
  bool never = false;
};

/// Interprets the integers, pointers and masks of a kernel before TritonGPU's
/// passes, in terms of tile coordinates, lanes and loops. Each value is looked
/// at once.
class KernelValues {
public:
  explicit KernelValues(chunk::KernelOp kernel) : kernel(kernel) {}

  /// The value as a number. Sums and products may wrap around on the way.
  const Offset &getOffset(mlir::Value value) { return getFitting(value, 0); }
  PointerValue getPointer(mlir::Value value, unsigned depth = 0);
  /// Where a mask is set, or, if `negated`, is not.
  Mask getMask(mlir::Value value, bool negated = false, unsigned depth = 0);
  /// How often a loop inside the tile has run before.
  Variable getCounter(mlir::scf::ForOp loop);
  /// What `value`, which differs inside a tile, is without more being known.
  Variable getHidden(mlir::Value value);

private:
  /// What a value is modulo 2 to the power of its width, or as a number.
  const Offset &getOffset(mlir::Value value, unsigned depth);
  const Offset &getFitting(mlir::Value value, unsigned depth);
  Offset evaluate(mlir::Value value, unsigned depth);
  Offset evaluateArgument(mlir::BlockArgument argument, unsigned depth);
  Offset evaluateLoopResult(mlir::Value result, unsigned depth);
  Offset evaluateArithmetic(mlir::Operation *op, unsigned depth);
  Offset evaluateCase(mlir::Operation *op, const Sum &lhs, const Sum &rhs);
  Offset divide(mlir::Operation *op, const Sum &lhs, const Sum &rhs);
  Offset remainder(mlir::Operation *op, const Sum &lhs, const Sum &rhs);
  Offset choose(mlir::Value result, mlir::Value condition, mlir::Value yes,
                mlir::Value no, unsigned depth);
  /// What a value that the loop carries is after `before` turns, given that
  /// each turn adds the same to it.
  Offset carry(mlir::scf::ForOp loop, unsigned index, const Sum &before,
               const Offset &init, unsigned depth);
  Offset hide(mlir::Value value, llvm::ArrayRef<const Sum *> sums,
              llvm::StringRef reason);

  chunk::KernelOp kernel;
  llvm::DenseMap<mlir::Value, std::unique_ptr<Offset>> known, misfits;
  llvm::DenseMap<mlir::Operation *, unsigned> loops;
  llvm::DenseMap<mlir::Value, unsigned> hidden;
};

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_KERNELVALUES_H
