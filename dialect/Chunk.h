//===- Chunk.h - the chunk dialect ------------------------------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_DIALECT_CHUNK_H
#define SYNCOPATE_DIALECT_CHUNK_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialect/ChunkDialect.h.inc"
#include "dialect/ChunkEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/ChunkAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialect/ChunkTypes.h.inc"

namespace syncopate::chunk {
class BufferOp;
class FootprintOp;

/// Checks the constraints that every `TransferOpInterface` shares.
mlir::LogicalResult verifyTransfer(mlir::Operation *op);

/// Checks the constraints that every `CollectiveOpInterface` shares.
mlir::LogicalResult verifyCollective(mlir::Operation *op);

/// Offsets and sizes of a member's block of a buffer that is cut along an axis;
/// the size along the axis is zero if the block is empty.
std::pair<llvm::SmallVector<int64_t, 4>, llvm::SmallVector<int64_t, 4>>
getBlock(BufferType type, int64_t axis, int64_t members, int64_t member);

/// The number of innermost dimensions of a region that merge into one row,
/// contiguous in both buffers. The dimension before them gives rows with a
/// stride, and those before that slices.
size_t getNumRowDims(BufferType src, BufferType dst,
                     llvm::ArrayRef<int64_t> sizes);
} // namespace syncopate::chunk

#include "dialect/ChunkInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialect/ChunkOps.h.inc"

#endif // SYNCOPATE_DIALECT_CHUNK_H
