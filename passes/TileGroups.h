//===- TileGroups.h - tiles by the transfers that wait for them -*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_TILEGROUPS_H
#define SYNCOPATE_PASSES_TILEGROUPS_H

#include "passes/PlanGraph.h"

#include <vector>

namespace syncopate {

/// The tiles whose results transfers read or write, of all ranks of a plan. The
/// tiles of one rank that the same transfers wait for are a group. Each tile is
/// in one group at most, and a transfer waits for all of its groups, so that
/// chunks need not end where tiles do. A transfer that the tile hands over
/// does not wait for a group. Where a collective is library calls, the tiles of
/// one rank that the same call takes are a group.
class TileGroups {
public:
  /// Looks at the kernel's write footprints; without a kernel there are none.
  explicit TileGroups(PlanGraph &graph);

  struct Group {
    int64_t rank;
    /// Who waits for the group, ascending.
    llvm::SmallVector<unsigned> transfers;
    int64_t tiles = 0;
    /// The number of the library call that takes them, if one does.
    std::optional<int64_t> call = std::nullopt;
  };

  /// Groups are numbered rank by rank, in the order of their first tile.
  int64_t size() const { return groups.size(); }
  const Group &operator[](int64_t number) const { return groups[number]; }
  /// The first group of a rank; that of the rank after the last is `size()`.
  int64_t getFirst(int64_t rank) const { return firstOfRank[rank]; }
  /// The group of a tile, row-major in the grid, or -1.
  int64_t getGroup(int64_t rank, int64_t tile) const {
    return groupOfTile[rank].empty() ? -1 : groupOfTile[rank][tile];
  }
  /// The groups that a transfer waits for, ascending.
  llvm::ArrayRef<unsigned> getGroups(unsigned transfer) const {
    return groupsOfTransfer[transfer];
  }
  /// The group of a rank whose tiles a library call takes.
  int64_t getGroupOfCall(int64_t rank, int64_t call) const;
  /// Ranks whose call before must have ended before a tile of the group starts,
  /// since they get from what it writes.
  llvm::SmallVector<int64_t> getReaders(PlanGraph &graph, int64_t group) const;

private:
  std::vector<Group> groups;
  std::vector<int64_t> firstOfRank;
  std::vector<std::vector<int64_t>> groupOfTile;
  std::vector<llvm::SmallVector<unsigned, 2>> groupsOfTransfer;
};

} // namespace syncopate

#endif // SYNCOPATE_PASSES_TILEGROUPS_H
