//===- Boxes.cpp - boxes of elements and an index of them ----------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Boxes.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

using namespace syncopate;

bool Box::isEmpty() const {
  return llvm::any_of(sizes, [](int64_t size) { return size <= 0; });
}

bool Box::intersects(const Box &other) const {
  for (size_t i = 0; i < offsets.size(); ++i)
    if (offsets[i] + sizes[i] <= other.offsets[i] ||
        other.offsets[i] + other.sizes[i] <= offsets[i])
      return false;
  return true;
}

void syncopate::subtract(llvm::SmallVectorImpl<Box> &regions, const Box &hole) {
  llvm::SmallVector<Box> left;
  for (Box region : regions) {
    if (!region.intersects(hole)) {
      left.push_back(std::move(region));
      continue;
    }
    // Cut off what lies before and after the hole, one dimension at a time;
    // what remains in the end lies inside the hole.
    for (size_t i = 0; i < region.offsets.size(); ++i) {
      int64_t begin = region.offsets[i], end = begin + region.sizes[i];
      int64_t holeBegin = hole.offsets[i], holeEnd = holeBegin + hole.sizes[i];
      if (begin < holeBegin) {
        left.push_back(region);
        left.back().sizes[i] = holeBegin - begin;
        region.offsets[i] = begin = holeBegin;
      }
      if (end > holeEnd) {
        left.push_back(region);
        left.back().offsets[i] = holeEnd;
        left.back().sizes[i] = end - holeEnd;
        end = holeEnd;
      }
      region.sizes[i] = end - begin;
    }
  }
  regions.assign(left.begin(), left.end());
}

void BoxIndex::add(Box region, unsigned id) {
  entries.push_back({std::move(region), id});
  sorted = false;
}

void BoxIndex::sort() {
  size_t best = 0;
  for (size_t i = 0; i < entries.front().region.offsets.size(); ++i) {
    llvm::DenseSet<int64_t> starts;
    for (const Entry &entry : entries)
      starts.insert(entry.region.offsets[i]);
    if (starts.size() > best) {
      best = starts.size();
      dim = i;
    }
  }
  llvm::stable_sort(entries, [&](const Entry &a, const Entry &b) {
    return a.region.offsets[dim] < b.region.offsets[dim];
  });
  maxSize = 0;
  for (const Entry &entry : entries)
    maxSize = std::max(maxSize, entry.region.sizes[dim]);
  sorted = true;
}

void BoxIndex::forEachOverlap(const Box &region,
                              llvm::function_ref<void(unsigned)> visit) {
  if (entries.empty())
    return;
  if (!sorted)
    sort();
  int64_t begin = region.offsets[dim], end = begin + region.sizes[dim];
  auto it = llvm::partition_point(entries, [&](const Entry &entry) {
    return entry.region.offsets[dim] <= begin - maxSize;
  });
  for (; it != entries.end() && it->region.offsets[dim] < end; ++it)
    if (it->region.intersects(region))
      visit(it->id);
}
