//===- RowPlan.cpp - a transfer as rows of bytes --------------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/RowPlan.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

static SmallVector<int64_t> getByteStrides(BufferType type) {
  SmallVector<int64_t> strides(type.getRank());
  int64_t stride = type.getElementBytes();
  for (size_t i = type.getRank(); i-- > 0;) {
    strides[i] = stride;
    stride *= type.getShape()[i];
  }
  return strides;
}

RowPlan syncopate::planRows(BufferType src, ArrayRef<int64_t> srcOffsets,
                            BufferType dst, ArrayRef<int64_t> dstOffsets,
                            ArrayRef<int64_t> sizes, bool counted) {
  SmallVector<int64_t> srcStrides = getByteStrides(src);
  SmallVector<int64_t> dstStrides = getByteStrides(dst);
  size_t dim = counted ? 1 : sizes.size() - getNumRowDims(src, dst, sizes);
  RowPlan plan;
  plan.rowBytes = src.getRegionBytes(sizes.drop_front(dim));
  Rows from{0, plan.rowBytes}, to{0, plan.rowBytes};
  for (size_t i = 0; i < sizes.size(); ++i) {
    from.offset += srcOffsets[i] * srcStrides[i];
    to.offset += dstOffsets[i] * dstStrides[i];
  }
  if (dim > 0) {
    --dim;
    plan.count = sizes[dim];
    from.stride = srcStrides[dim];
    to.stride = dstStrides[dim];
  }
  plan.starts.emplace_back(from, to);
  while (dim-- > 0) {
    auto inner = std::move(plan.starts);
    plan.starts.clear();
    for (int64_t i = 0; i < sizes[dim]; ++i)
      for (auto [a, b] : inner) {
        a.offset += i * srcStrides[dim];
        b.offset += i * dstStrides[dim];
        plan.starts.emplace_back(a, b);
      }
  }
  return plan;
}
