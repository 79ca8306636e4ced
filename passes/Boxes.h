//===- Boxes.h - boxes of elements and an index of them ---------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_BOXES_H
#define SYNCOPATE_PASSES_BOXES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace syncopate {

/// The half-open box [offset, offset + size) in every dimension.
struct Box {
  llvm::SmallVector<int64_t, 4> offsets;
  llvm::SmallVector<int64_t, 4> sizes;

  Box() = default;
  Box(llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> sizes)
      : offsets(offsets), sizes(sizes) {}

  bool operator==(const Box &other) const {
    return offsets == other.offsets && sizes == other.sizes;
  }
  /// True if some size is zero or less.
  bool isEmpty() const;
  bool intersects(const Box &other) const;
};

/// Takes `hole` out of every region of `regions`.
void subtract(llvm::SmallVectorImpl<Box> &regions, const Box &hole);

/// Finds the regions that meet a given one without looking at all of them, by
/// their intervals in the dimension that tells them apart best.
class BoxIndex {
public:
  /// Adds a region under a number of the caller's choice.
  void add(Box region, unsigned id);
  /// Calls `visit` with the number of every region that meets `region`.
  void forEachOverlap(const Box &region,
                      llvm::function_ref<void(unsigned)> visit);
  bool empty() const { return entries.empty(); }

private:
  struct Entry {
    Box region;
    unsigned id;
  };
  void sort();

  llvm::SmallVector<Entry> entries;
  /// The dimension by whose offset the entries are sorted.
  unsigned dim = 0;
  /// The largest size in that dimension.
  int64_t maxSize = 0;
  bool sorted = false;
};

} // namespace syncopate

#endif // SYNCOPATE_PASSES_BOXES_H
