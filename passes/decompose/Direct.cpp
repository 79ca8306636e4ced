//===- decompose/Direct.cpp - each member with every other ----------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Every member sends to, or fetches from, every other one, the next one first,
// so that no member is sent to by all at once.
//
//===----------------------------------------------------------------------===//

#include "passes/decompose/Emitter.h"

using namespace mlir;
using namespace syncopate;

void syncopate::decomposeDirect(Emitter &emitter) {
  int64_t members = emitter.getNumMembers();
  auto forEachPair = [&](llvm::function_ref<void(int64_t, int64_t)> visit) {
    for (int64_t step = 1; step < members; ++step)
      for (int64_t member = 0; member < members; ++member)
        visit(member, (member + step) % members);
  };
  // With the member that carries the transfer out first.
  auto forEachTransfer = [&](llvm::function_ref<void(int64_t, int64_t)> visit) {
    forEachPair([&](int64_t member, int64_t peer) {
      if (emitter.isPull())
        visit(peer, member);
      else
        visit(member, peer);
    });
  };
  if (std::optional<int64_t> root = emitter.getRoot()) {
    for (int64_t step = 1; step < members; ++step)
      emitter.copy(0, *root, (*root + step) % members);
    return;
  }
  // Into each member's block go those of the others, one after another, so that
  // the rounding of sums does not depend on time.
  if (emitter.isReducing())
    forEachPair([&](int64_t member, int64_t peer) {
      emitter.reduce(member, peer, member);
    });
  if (emitter.isGathering())
    forEachTransfer(
        [&](int64_t from, int64_t to) { emitter.copy(from, from, to); });
  if (isa<chunk::AllToAllOp>(emitter.getOp().getOperation())) {
    auto keepOwn = [&] {
      for (int64_t member = 0; member < members; ++member)
        emitter.exchange(member, member);
    };
    // Tiles can start on a member's own block, if it is there from the start,
    // while others are under way. If it is still to be made, others' come
    // first.
    bool isThere = emitter.getOp().getDependencies().empty();
    if (isThere)
      keepOwn();
    forEachTransfer(
        [&](int64_t from, int64_t to) { emitter.exchange(from, to); });
    if (!isThere)
      keepOwn();
  }
}
