//===- decompose/Ring.cpp - each member with its neighbours ---------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// In step s of a gather, member i passes block i - s on to member i + 1. In a
// reduction, what it has of block i - s - 1 goes into that of member i + 1,
// until the block is where it belongs; it grows on the way. A broadcast is
// passed on from one member to the next.
//
// A bidirectional ring does so with one half of each block, and with the other
// half the other way round, at the same time.
//
//===----------------------------------------------------------------------===//

#include "passes/decompose/Emitter.h"

using namespace syncopate;

/// Walks around the ring with part `way` of each block for each of the `ways`:
/// with part 0 to the next member, with part 1 to the one before.
static void walk(Emitter &emitter, int64_t ways) {
  int64_t members = emitter.getNumMembers();
  auto wrap = [&](int64_t index) {
    return (index % members + members) % members;
  };
  auto forEachHop =
      [&](llvm::function_ref<void(int64_t, int64_t, int64_t, int64_t)> visit) {
        for (int64_t step = 0; step + 1 < members; ++step)
          for (int64_t member = 0; member < members; ++member)
            for (int64_t way = 0; way < ways; ++way)
              visit(member, step, way == 0 ? 1 : -1, way);
      };
  if (std::optional<int64_t> root = emitter.getRoot()) {
    for (int64_t step = 0; step + 1 < members; ++step)
      for (int64_t way = 0; way < ways; ++way) {
        int64_t sign = way == 0 ? 1 : -1;
        emitter.copy(0, wrap(*root + sign * step),
                     wrap(*root + sign * (step + 1)), way);
      }
    return;
  }
  if (emitter.isReducing())
    forEachHop([&](int64_t member, int64_t step, int64_t sign, int64_t way) {
      emitter.reduce(wrap(member - sign * (step + 1)), member,
                     wrap(member + sign), way);
    });
  if (emitter.isGathering())
    forEachHop([&](int64_t member, int64_t step, int64_t sign, int64_t way) {
      emitter.copy(wrap(member - sign * step), member, wrap(member + sign),
                   way);
    });
}

void syncopate::decomposeRing(Emitter &emitter) { walk(emitter, 1); }

void syncopate::decomposeBidirectionalRing(Emitter &emitter) {
  emitter.cutBlocks(2);
  walk(emitter, 2);
}
