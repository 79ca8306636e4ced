//===- Boxes.cpp - boxes of elements and an index of them ----------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Boxes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

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

/// The level of a region of this size; all of a level are smaller than
/// getLevelSize.
static unsigned getLevel(int64_t size) {
  return llvm::Log2_64(std::max<int64_t>(size, 1));
}

static int64_t getLevelSize(unsigned level) { return int64_t(2) << level; }

void BoxIndex::add(Box region, unsigned id) {
  entries.push_back({std::move(region), id, 0});
  sorted = false;
}

void BoxIndex::sort() {
  sorted = true;
  levels.clear();
  if (entries.empty())
    return;
  size_t best = 0;
  std::vector<int64_t> starts(entries.size());
  for (size_t i = 0; i < entries.front().region.offsets.size(); ++i) {
    llvm::transform(entries, starts.begin(), [&](const Entry &entry) {
      return entry.region.offsets[i];
    });
    llvm::sort(starts);
    size_t count = std::unique(starts.begin(), starts.end()) - starts.begin();
    if (count > best) {
      best = count;
      dim = i;
    }
  }
  for (Entry &entry : entries)
    entry.level = getLevel(entry.region.sizes[dim]);
  llvm::stable_sort(entries, [&](const Entry &a, const Entry &b) {
    return std::pair(a.level, a.region.offsets[dim]) <
           std::pair(b.level, b.region.offsets[dim]);
  });
  for (size_t i = 0; i < entries.size(); ++i)
    if (levels.empty() || levels.back().first != entries[i].level)
      levels.emplace_back(entries[i].level, i);
}

unsigned BoxIndex::getDim() {
  if (!sorted)
    sort();
  return dim;
}

void BoxIndex::forEachOverlap(const Box &region,
                              llvm::function_ref<void(unsigned)> visit) {
  if (!sorted)
    sort();
  if (entries.empty())
    return;
  int64_t begin = region.offsets[dim], end = begin + region.sizes[dim];
  for (size_t i = 0; i < levels.size(); ++i) {
    auto first = entries.begin() + levels[i].second;
    auto last = i + 1 < levels.size() ? entries.begin() + levels[i + 1].second
                                      : entries.end();
    int64_t before = begin - getLevelSize(levels[i].first);
    first = std::partition_point(first, last, [&](const Entry &entry) {
      return entry.region.offsets[dim] <= before;
    });
    for (; first != last && first->region.offsets[dim] < end; ++first)
      if (first->region.intersects(region))
        visit(first->id);
  }
}

bool BoxIndex::overlaps(const Box &region) {
  bool found = false;
  forEachOverlap(region, [&](unsigned) { found = true; });
  return found;
}

BoxIndex
BoxIndex::renumber(llvm::function_ref<unsigned(unsigned)> getNumber) const {
  auto getKey = [](const Entry &entry) {
    return std::tie(entry.region.offsets, entry.region.sizes, entry.id);
  };
  BoxIndex result;
  result.entries = entries;
  for (Entry &entry : result.entries)
    entry.id = getNumber(entry.id);
  llvm::sort(result.entries, [&](const Entry &a, const Entry &b) {
    return getKey(a) < getKey(b);
  });
  result.entries.erase(std::unique(result.entries.begin(), result.entries.end(),
                                   [&](const Entry &a, const Entry &b) {
                                     return getKey(a) == getKey(b);
                                   }),
                       result.entries.end());
  return result;
}

bool BoxCell::contains(const Box &region) const {
  if (ranges.size() != region.offsets.size())
    return false;
  for (size_t i = 0; i < ranges.size(); ++i) {
    int64_t first = region.offsets[i], last = first + region.sizes[i] - 1;
    if (first < ranges[i].first || first >= ranges[i].firstEnd ||
        last < ranges[i].last || last >= ranges[i].lastEnd)
      return false;
  }
  return true;
}

void BoxCell::surround(const Box &region,
                       llvm::ArrayRef<const BoxIndex *> indices) {
  constexpr int64_t least = std::numeric_limits<int64_t>::min();
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  ranges.assign(region.offsets.size(), {least, most, least, most});
  for (size_t i = 0; i < ranges.size(); ++i) {
    int64_t first = region.offsets[i], last = first + region.sizes[i] - 1;
    auto cut = [](int64_t at, int64_t place, int64_t &begin, int64_t &end) {
      if (at <= place)
        begin = std::max(begin, at);
      else
        end = std::min(end, at);
    };
    for (const BoxIndex *index : indices)
      index->forEach([&](const Box &other, unsigned) {
        for (int64_t at :
             {other.offsets[i], other.offsets[i] + other.sizes[i]}) {
          cut(at, first, ranges[i].first, ranges[i].firstEnd);
          cut(at, last, ranges[i].last, ranges[i].lastEnd);
        }
      });
  }
}

void BoxMap::insert(Box region, unsigned id) {
  int64_t begin = region.offsets[dim];
  levels[getLevel(region.sizes[dim])].emplace(begin,
                                              std::pair(std::move(region), id));
}

std::pair<BoxMap::Level::iterator, BoxMap::Level::iterator>
BoxMap::findCandidates(unsigned number, Level &level, const Box &region) {
  int64_t begin = region.offsets[dim];
  return {level.upper_bound(begin - getLevelSize(number)),
          level.lower_bound(begin + region.sizes[dim])};
}

void BoxMap::forEachOverlap(
    const Box &region, llvm::function_ref<void(const Box &, unsigned)> visit) {
  for (auto &[number, level] : levels) {
    auto [it, end] = findCandidates(number, level, region);
    for (; it != end; ++it)
      if (it->second.first.intersects(region))
        visit(it->second.first, it->second.second);
  }
}

void BoxMap::subtract(const Box &hole) {
  llvm::SmallVector<std::pair<Box, unsigned>> taken;
  for (auto &[number, level] : levels) {
    auto [it, end] = findCandidates(number, level, hole);
    while (it != end) {
      if (!it->second.first.intersects(hole)) {
        ++it;
        continue;
      }
      taken.push_back(std::move(it->second));
      it = level.erase(it);
    }
  }
  for (auto &[region, id] : taken) {
    llvm::SmallVector<Box> left{std::move(region)};
    syncopate::subtract(left, hole);
    for (Box &part : left)
      insert(std::move(part), id);
  }
}
