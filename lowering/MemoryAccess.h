//===- MemoryAccess.h - where a kernel accesses an argument -----*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_MEMORYACCESS_H
#define SYNCOPATE_LOWERING_MEMORYACCESS_H

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

namespace syncopate {

/// An operation that accesses memory by an argument of a kernel, or by a
/// pointer or descriptor made of it.
struct MemoryAccess {
  enum Kind {
    Read,
    Write,
    /// Reads and writes in one, as atomics do. If nobody takes what was there,
    /// it only adds to it.
    Update,
    /// Hands the pointer on to where its accesses are not seen any more.
    Escape
  };

  mlir::Operation *op;
  Kind kind;

  bool reads() const {
    return kind == Read || (kind == Update && !op->use_empty());
  }
  bool writes() const { return kind == Write || kind == Update; }
};

/// What `op` does to the memory that its operand leads to, or none if it only
/// makes other pointers or descriptors of it.
std::optional<MemoryAccess::Kind> getAccessKind(mlir::OpOperand &operand);

/// All accesses by `argument`, an argument of `function`, in order. Loops and
/// branches that carry several pointers are followed one by one; `scf.while` is
/// taken to hand each on to all.
llvm::SmallVector<MemoryAccess> findAccesses(mlir::Operation *function,
                                             mlir::Value argument);

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_MEMORYACCESS_H
