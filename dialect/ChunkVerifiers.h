//===- ChunkVerifiers.h - constraints that verifiers share ------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_DIALECT_CHUNKVERIFIERS_H
#define SYNCOPATE_DIALECT_CHUNKVERIFIERS_H

#include "dialect/Chunk.h"

namespace syncopate::chunk {

/// Checks plan_c8. A name goes to Python and into file formats that hold text
/// only.
mlir::LogicalResult verifyName(mlir::Operation *op, mlir::StringAttr name);

/// Checks that a rank is one of the plan around `op`.
mlir::LogicalResult verifyRank(mlir::Operation *op, llvm::StringRef what,
                               int64_t rank);

/// Checks that what is read is an element of a buffer of i32 of one dimension.
mlir::LogicalResult verifyWord(mlir::Operation *op, llvm::StringRef what,
                               BufferType type, int64_t index);

} // namespace syncopate::chunk

#endif // SYNCOPATE_DIALECT_CHUNKVERIFIERS_H
