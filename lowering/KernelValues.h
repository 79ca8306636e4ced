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
  /// What a value that the loop over steps carries is that takes each turn's
  /// step: what it was at first, or a step, whichever it is.
  Offset evaluateStepBefore(mlir::scf::ForOp loop, unsigned index,
                            mlir::Value value, unsigned depth);
  /// What a value that the loop carries is after `before` turns, given that
  /// each turn adds the same to it.
  Offset carry(mlir::scf::ForOp loop, unsigned index, const Sum &before,
               const Offset &init, unsigned depth);
  /// Something that is not affine, but differs inside the tile, so that what a
  /// tile accesses by it has no bound of its own. What only the tile decides is
  /// unknown instead, as a bound would cost overlap. With `greatest`, it lies
  /// between 0 and that.
  Offset hide(mlir::Value value, llvm::ArrayRef<const Sum *> sums,
              llvm::StringRef reason,
              std::optional<int64_t> greatest = std::nullopt);

  /// The greatest step that a tile of any rank has, if all are in range.
  std::optional<int64_t> getLastStep();

  chunk::KernelOp kernel;
  std::optional<std::optional<int64_t>> lastStep;
  llvm::DenseMap<mlir::Value, std::unique_ptr<Offset>> known, misfits;
  llvm::DenseMap<mlir::Operation *, unsigned> loops;
  llvm::DenseMap<mlir::Value, unsigned> hidden;
};

//===----------------------------------------------------------------------===//
// What the parts of the interpreter share
//===----------------------------------------------------------------------===//

/// How deep expressions are followed, and into how many cases.
inline constexpr unsigned kMaxDepth = 256;
inline constexpr size_t kMaxCases = 8;

/// Where the axes of an operation's operand are in its result, if it does no
/// more than to put them elsewhere.
std::optional<llvm::SmallVector<unsigned>> getMovedAxes(mlir::Operation *op);

/// The same sum, or offset, behind an operation that moves axes.
Sum moveLanes(const Sum &sum, llvm::ArrayRef<unsigned> moved);
void moveLanes(Offset &offset, llvm::ArrayRef<unsigned> moved);

/// Follows what the loop yields back to what it carries, over additions, and
/// returns what was added.
bool collectAdded(mlir::Value yielded, mlir::Value carried,
                  llvm::SmallVectorImpl<std::pair<mlir::Value, bool>> &added);

/// The loop that carries `value` over its turns, if it stands inside a tile and
/// its turns come in the order in which the kernel counts them.
mlir::scf::ForOp getInnerLoop(mlir::BlockArgument argument);

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_KERNELVALUES_H
