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

namespace syncopate::chunk::detail {
struct TableAttrStorage;
} // namespace syncopate::chunk::detail

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

/// Checks the constraints of a transfer, wherever it comes from.
mlir::LogicalResult verifyRoute(mlir::Operation *op,
                                mlir::TypedValue<BufferType> srcBuffer,
                                mlir::TypedValue<BufferType> dstBuffer,
                                llvm::ArrayRef<int64_t> srcOffsets,
                                llvm::ArrayRef<int64_t> dstOffsets,
                                llvm::ArrayRef<int64_t> sizes, int64_t srcRank,
                                int64_t dstRank);

/// Checks that a group has `least` members or more, all of them ranks of the
/// plan and none twice.
mlir::LogicalResult verifyGroup(mlir::Operation *op,
                                llvm::ArrayRef<int64_t> group, size_t least);

/// True if the map only adds, multiplies by constants, and divides by positive
/// ones.
bool isAffine(mlir::AffineMap map);

/// The value of an expression of such a map, if it fits.
std::optional<int64_t> evaluate(mlir::AffineExpr expr,
                                llvm::ArrayRef<int64_t> dims);

/// What one member of a `chunk.spmd` transfers.
struct Route {
  llvm::SmallVector<int64_t, 4> srcOffsets, dstOffsets, sizes;
  int64_t srcRank, dstRank;
};

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
