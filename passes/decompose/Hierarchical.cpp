//===- decompose/Hierarchical.cpp - along the mesh, one level at a time ---===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The group is a grid in the mesh. Ranks that differ in its last dimension
// only are near each other, such as those of one node. A gather goes to the
// ranks at the same place of other nodes first, then on within the node, so
// that a block comes to each node once. A reduction goes the other way. Within
// a level it is direct.
//
//===----------------------------------------------------------------------===//

#include "passes/decompose/Emitter.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

namespace {

/// The members of a group, by node and by place within the node.
class Grid {
public:
  /// Emits an error unless the group is a grid of several nodes of several
  /// ranks.
  static FailureOr<Grid> get(CollectiveOpInterface op) {
    ArrayRef<int64_t> mesh = op->getParentOfType<PlanOp>().getMesh();
    ArrayRef<int64_t> group = op.getGroup();
    // The coordinates of each member, last dimension first, and which there are
    // in each dimension.
    SmallVector<SmallVector<int64_t>> coordinates;
    SmallVector<llvm::SmallSet<int64_t, 8>> used(mesh.size());
    for (int64_t rank : group) {
      auto &mine = coordinates.emplace_back();
      for (auto [dim, size] : llvm::enumerate(llvm::reverse(mesh))) {
        mine.push_back(rank % size);
        used[dim].insert(rank % size);
        rank /= size;
      }
    }
    size_t inner = 0;
    while (inner < mesh.size() && used[inner].size() == 1)
      ++inner;
    size_t volume = 1;
    for (auto &numbers : used)
      volume *= numbers.size(); // at most the number of ranks
    if (volume != group.size() || inner == mesh.size() ||
        used[inner].size() == volume)
      return op->emitOpError()
             << "expects a group that is a grid of at least two dimensions in "
                "mesh ["
             << mesh << "] for algorithm hierarchical, but got [" << group
             << "]";
    // Nodes and places are numbered in the order in which the group has them.
    Grid grid;
    std::map<SmallVector<int64_t>, int64_t> nodeNumbers;
    std::map<int64_t, int64_t> placeNumbers;
    for (auto &mine : coordinates) {
      int64_t place = mine[inner];
      mine[inner] = 0;
      grid.nodeOf.push_back(
          nodeNumbers.try_emplace(mine, nodeNumbers.size()).first->second);
      grid.placeOf.push_back(
          placeNumbers.try_emplace(place, placeNumbers.size()).first->second);
    }
    grid.nodes = nodeNumbers.size();
    grid.places = placeNumbers.size();
    grid.members.resize(group.size());
    for (size_t member = 0; member < group.size(); ++member)
      grid.members[grid.nodeOf[member] * grid.places + grid.placeOf[member]] =
          member;
    return grid;
  }

  int64_t nodes = 0, places = 0;
  SmallVector<int64_t> nodeOf, placeOf;

  /// The member so many nodes, and places within the node, further on.
  int64_t getPeer(int64_t member, int64_t node, int64_t place) const {
    return members[(nodeOf[member] + node) % nodes * places +
                   (placeOf[member] + place) % places];
  }

private:
  SmallVector<int64_t> members;
};

} // namespace

LogicalResult syncopate::decomposeHierarchical(Emitter &emitter) {
  FailureOr<Grid> grid = Grid::get(emitter.getOp());
  if (failed(grid))
    return failure();
  int64_t members = emitter.getNumMembers();
  if (std::optional<int64_t> root = emitter.getRoot()) {
    for (int64_t node = 1; node < grid->nodes; ++node)
      emitter.copy(0, *root, grid->getPeer(*root, node, 0));
    for (int64_t node = 0; node < grid->nodes; ++node)
      for (int64_t place = 1; place < grid->places; ++place)
        emitter.copy(0, grid->getPeer(*root, node, 0),
                     grid->getPeer(*root, node, place));
    return success();
  }
  if (emitter.isReducing()) {
    // Within a node, each place collects the blocks of that place of all nodes.
    for (int64_t node = 0; node < grid->nodes; ++node)
      for (int64_t place = 1; place < grid->places; ++place)
        for (int64_t member = 0; member < members; ++member)
          emitter.reduce(grid->getPeer(member, node, 0),
                         grid->getPeer(member, 0, place), member);
    for (int64_t node = 1; node < grid->nodes; ++node)
      for (int64_t member = 0; member < members; ++member)
        emitter.reduce(member, grid->getPeer(member, node, 0), member);
  }
  if (emitter.isGathering()) {
    // The member that carries a transfer out takes the next one first.
    auto copy = [&](int64_t member, int64_t peer, int64_t node) {
      int64_t from = emitter.isPull() ? peer : member;
      int64_t to = emitter.isPull() ? member : peer;
      emitter.copy(grid->getPeer(from, node, 0), from, to);
    };
    for (int64_t node = 1; node < grid->nodes; ++node)
      for (int64_t member = 0; member < members; ++member)
        copy(member, grid->getPeer(member, node, 0), 0);
    for (int64_t node = 0; node < grid->nodes; ++node)
      for (int64_t place = 1; place < grid->places; ++place)
        for (int64_t member = 0; member < members; ++member)
          copy(member, grid->getPeer(member, 0, place), node);
  }
  return success();
}
