//===- RowPlan.h - a transfer as rows of bytes ------------------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_ROWPLAN_H
#define SYNCOPATE_LOWERING_ROWPLAN_H

#include "dialect/Chunk.h"

namespace syncopate {

/// A chunk as rows of bytes, in one of the two buffers that it lies in.
struct Rows {
  int64_t offset;
  int64_t stride;
};

/// What a pair of regions comes to as rows: all of the same length, `count` at
/// a time for each of `starts`.
struct RowPlan {
  int64_t rowBytes = 1;
  int64_t count = 1;
  llvm::SmallVector<std::pair<Rows, Rows>> starts;
};

/// Merges dimensions that are contiguous on both sides into rows, the next one
/// into a stride, and enumerates the rest. Rows that are counted at run time
/// are those of the first dimension.
RowPlan planRows(chunk::BufferType src, llvm::ArrayRef<int64_t> srcOffsets,
                 chunk::BufferType dst, llvm::ArrayRef<int64_t> dstOffsets,
                 llvm::ArrayRef<int64_t> sizes, bool counted);

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_ROWPLAN_H
