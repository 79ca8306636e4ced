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
#include <map>
#include <vector>

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
/// their intervals in the dimension that tells them apart best. Regions of like
/// sizes in it are kept together, so that a long one does not hide short ones.
class BoxIndex {
public:
  /// Adds a region under a number of the caller's choice.
  void add(Box region, unsigned id);
  /// Calls `visit` with the number of every region that meets `region`.
  void forEachOverlap(const Box &region,
                      llvm::function_ref<void(unsigned)> visit);
  /// Calls `visit` with every region and its number.
  void forEach(llvm::function_ref<void(const Box &, unsigned)> visit) const {
    for (const Entry &entry : entries)
      visit(entry.region, entry.id);
  }
  /// True if some region meets `region`.
  bool overlaps(const Box &region);
  /// The same regions under other numbers, those of one region and one number
  /// taken together.
  BoxIndex renumber(llvm::function_ref<unsigned(unsigned)> getNumber) const;
  bool empty() const { return entries.empty(); }
  /// The dimension that tells the regions apart best.
  unsigned getDim();

private:
  struct Entry {
    Box region;
    unsigned id;
    /// Base-two logarithm of its size in `dim`.
    unsigned level;
  };
  void sort();

  /// By level, and by offset in `dim` within one.
  std::vector<Entry> entries;
  /// Level, and where its entries begin.
  llvm::SmallVector<std::pair<unsigned, size_t>> levels;
  unsigned dim = 0;
  bool sorted = false;
};

/// The regions that meet and cover regions of some indices as a given one does:
/// those that begin between the same two of all their ends, in each dimension,
/// and end between the same two. Neighbours mostly do.
class BoxCell {
public:
  /// True if `region`, which is not empty, is one of them.
  bool contains(const Box &region) const;
  /// Finds those that go with `region`, which is not empty.
  void surround(const Box &region, llvm::ArrayRef<const BoxIndex *> indices);

private:
  /// Where regions may begin, and where their last elements may lie.
  struct Range {
    int64_t first, firstEnd, last, lastEnd;
  };
  llvm::SmallVector<Range, 4> ranges;
};

/// Regions that come and go, each with a number, found as in a `BoxIndex`.
class BoxMap {
public:
  /// Regions are told apart by their offset in dimension `dim`.
  explicit BoxMap(unsigned dim = 0) : dim(dim) {}

  void insert(Box region, unsigned id);
  /// Calls `visit` for every region that meets `region`.
  void forEachOverlap(const Box &region,
                      llvm::function_ref<void(const Box &, unsigned)> visit);
  /// Takes `hole` out of every region.
  void subtract(const Box &hole);

private:
  using Level = std::multimap<int64_t, std::pair<Box, unsigned>>;
  /// The entries of a level that may meet `region`.
  std::pair<Level::iterator, Level::iterator>
  findCandidates(unsigned number, Level &level, const Box &region);

  unsigned dim;
  /// By the base-two logarithm of the size in `dim`; by offset within one.
  std::map<unsigned, Level> levels;
};

} // namespace syncopate

#endif // SYNCOPATE_PASSES_BOXES_H
