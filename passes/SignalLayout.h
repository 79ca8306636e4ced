//===- SignalLayout.h - where each flag stands ------------------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_SIGNALLAYOUT_H
#define SYNCOPATE_PASSES_SIGNALLAYOUT_H

#include "dialect/Chunk.h"

namespace syncopate {

/// The flags of a rank, laid out alike on all ranks.
///
/// A flag holds an epoch, which only grows. A *twin* holds 0 or 1: a stream
/// can wait only for a value that is frozen when a graph captures it, so it
/// waits for 1 and writes 0 before the work that the flag guards.
struct SignalLayout {
  int64_t transfers;
  int64_t ranks;
  /// Groups of tiles of all ranks.
  int64_t groups;

  /// Transfer `id` is complete.
  int64_t data(int64_t id) const { return id; }
  int64_t dataTwin(int64_t id) const { return transfers + id; }
  /// Rank `rank` has its input in place.
  int64_t ready(int64_t rank) const { return 2 * transfers + rank; }
  int64_t readyTwin(int64_t rank) const { return ready(ranks + rank); }
  /// Rank `rank` has ended its call, and reads none of its buffers any more.
  int64_t done(int64_t rank) const { return ready(2 * ranks + rank); }
  int64_t doneTwin(int64_t rank) const { return ready(3 * ranks + rank); }
  /// This rank's copy engine has carried out the call's commands.
  int64_t engineDone() const { return ready(4 * ranks); }
  /// The tiles of group `group` are done.
  int64_t group(int64_t group) const { return engineDone() + 1 + group; }
  int64_t groupTwin(int64_t number) const { return group(groups + number); }
  int64_t total() const { return group(2 * groups); }

  /// What a flag says, and of which transfer, rank or group.
  enum class Kind { Data, Ready, Done, EngineDone, Group };
  struct Meaning {
    Kind kind;
    int64_t index;
    bool twin;
  };
  /// The meaning of a flag in [0, total()).
  Meaning decode(int64_t signal) const;
  /// Whether a stream waits for the flag, and takes it down.
  bool isTwin(int64_t signal) const { return decode(signal).twin; }
  /// Whether it starts as if the end of a call had raised it.
  bool isDoneTwin(int64_t signal) const {
    Meaning meaning = decode(signal);
    return meaning.twin && meaning.kind == Kind::Done;
  }

  /// The layout as a table of one row: the first flag of each kind but `data`,
  /// which is flag 0, and their number.
  chunk::TableAttr toTable(mlir::MLIRContext *context) const;
  /// The layout of a plan with this table of `toTable`, if it is one.
  static std::optional<SignalLayout> fromTable(chunk::PlanOp plan);
};

} // namespace syncopate

#endif // SYNCOPATE_PASSES_SIGNALLAYOUT_H
