//===- decompose/RecursiveDoubling.cpp - partners at doubling distances ---===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// In step s of a gather, members whose numbers differ in bit s exchange all
// that they have: twice as much in each step. A reduction goes the other way
// (recursive halving): of what two partners are still about, each gets the
// half with its own block. In a broadcast twice as many members have the buffer
// after each step; it alone takes any number of members.
//
//===----------------------------------------------------------------------===//

#include "passes/decompose/Emitter.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace syncopate;

LogicalResult syncopate::decomposeRecursiveDoubling(Emitter &emitter) {
  int64_t members = emitter.getNumMembers();
  if (std::optional<int64_t> root = emitter.getRoot()) {
    for (int64_t distance = 1; distance < members; distance *= 2)
      for (int64_t from = 0; from < distance; ++from)
        if (from + distance < members)
          emitter.copy(0, (*root + from) % members,
                       (*root + from + distance) % members);
    return success();
  }
  if (!llvm::isPowerOf2_64(members))
    return emitter.getOp()->emitOpError()
           << "expects a group whose size is a power of two for algorithm "
              "recursive_doubling, but got "
           << members << " ranks";
  // The blocks whose numbers differ from a member's in the bits below
  // `distance`: as many, one after another.
  auto getFirst = [](int64_t member, int64_t distance) {
    return member & ~(distance - 1);
  };
  if (emitter.isReducing())
    for (int64_t distance = members / 2; distance > 0; distance /= 2)
      for (int64_t member = 0; member < members; ++member) {
        int64_t partner = member ^ distance;
        emitter.reduce(getFirst(partner, distance), member, partner, 0,
                       distance);
      }
  if (emitter.isGathering())
    for (int64_t distance = 1; distance < members; distance *= 2)
      for (int64_t member = 0; member < members; ++member)
        emitter.copy(getFirst(member, distance), member, member ^ distance, 0,
                     distance);
  return success();
}
