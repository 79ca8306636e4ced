//===- AccessRegion.h - which region a tile accesses ------------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_ACCESSREGION_H
#define SYNCOPATE_LOWERING_ACCESSREGION_H

#include "lowering/KernelValues.h"

#include "mlir/IR/AffineMap.h"

namespace syncopate {

/// A box of a buffer, by the coordinates of the tile.
struct Region {
  mlir::AffineMap offsets;
  llvm::SmallVector<int64_t> sizes;

  bool operator==(const Region &other) const {
    return offsets == other.offsets && sizes == other.sizes;
  }
};

/// Finds out which region of a buffer each tile accesses. What a tile reads
/// lies in the region; what it writes is the region.
class AccessRegions {
public:
  AccessRegions(chunk::KernelOp kernel, KernelValues &values,
                mlir::Value argument, chunk::BufferType type)
      : kernel(kernel), values(values), argument(argument), type(type) {
    strides.assign(type.getRank(), 1);
    // Behind a dynamic dimension, strides are not known, and not used.
    for (size_t dim = type.getRank() - 1; dim-- > 0;)
      if (!mlir::ShapedType::isDynamic(type.getShape()[dim + 1]))
        strides[dim] = strides[dim + 1] * type.getShape()[dim + 1];
  }

  /// Looks at an operation that loads or stores by the argument, or by what was
  /// made of it. Fails where its region cannot be told.
  mlir::LogicalResult add(mlir::Operation *op, bool isWrite);

  llvm::ArrayRef<Region> getRegions() const { return regions; }
  /// Why the last call failed, and the value that was not understood, if it was
  /// one.
  std::string getReason() const { return reason; }
  mlir::Value getCulprit() const { return culprit; }

private:
  /// One case of an address: how many elements of the buffer lie before it, or,
  /// in `dims`, its index along each dimension.
  struct Address {
    Case under;
    llvm::SmallVector<Sum> dims;
  };

  mlir::LogicalResult fail(const llvm::Twine &why, mlir::Value value = {});
  mlir::LogicalResult collectByPointer(mlir::Operation *op);
  mlir::LogicalResult collectByDescriptor(mlir::Operation *op);
  /// Adds what must hold for the operation to run.
  void addSurroundings(mlir::Operation *op);
  mlir::LogicalResult addAddress(Address address);
  /// The index along each dimension, if no index passes the end of its
  /// dimension.
  std::optional<llvm::SmallVector<Sum>> splitIndices(const Address &address);
  /// For addresses that run on from row to row: the rows that they touch.
  mlir::LogicalResult addRows(const Address &address);
  mlir::LogicalResult addBox(const Address &address);
  /// Fails if a tile might not access all of the box that its address spans.
  mlir::LogicalResult checkCovered(const Address &address);
  /// A region at constant offsets is cut to the buffer.
  mlir::LogicalResult addRegion(llvm::ArrayRef<Sum> offsets,
                                llvm::ArrayRef<int64_t> sizes,
                                mlir::AffineExpr shift);
  /// What to add to an offset so that the region lies outside the buffer for
  /// tiles in which a condition holds nowhere; null if there are none.
  mlir::AffineExpr getShift(llvm::ArrayRef<Sum> conditions);

  chunk::KernelOp kernel;
  KernelValues &values;
  mlir::Value argument;
  chunk::BufferType type;
  /// Elements from one index of a dimension to the next.
  llvm::SmallVector<int64_t> strides;
  bool isWrite = false;
  std::vector<Address> addresses;
  llvm::SmallVector<Region> regions;
  std::string reason;
  mlir::Value culprit;
};

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_ACCESSREGION_H
