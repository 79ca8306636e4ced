//===- LibraryCalls.cpp - a collective as calls of a library --------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LibraryCalls.h"
#include "passes/Boxes.h"
#include "passes/Realizations.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

CollectiveOpInterface syncopate::findLibraryCall(PlanOp plan) {
  for (auto collective : plan.getBody().getOps<CollectiveOpInterface>())
    if (isLibraryCall(collective))
      return collective;
  return {};
}

LibraryCall syncopate::getLibraryCall(CollectiveOpInterface collective) {
  return TypeSwitch<Operation *, LibraryCall>(collective)
      .Case([](AllReduceOp) { return CallAllReduce; })
      .Case([](ReduceScatterOp) { return CallReduceScatter; })
      .Case([](AllToAllOp) { return CallAllToAll; });
}

/// Tiles of every rank compute all of the buffer, and the collective comes
/// after nothing else.
static LogicalResult verifyProduced(CollectiveOpInterface collective,
                                    int64_t ranks) {
  std::vector<SmallVector<Box>> missing;
  BufferType type = collective.getSrc().getType();
  for (int64_t rank = 0; rank < ranks; ++rank)
    missing.push_back(
        {Box(SmallVector<int64_t>(type.getRank(), 0), type.getShape())});
  for (Value token : collective.getDependencies()) {
    auto produce = token.getDefiningOp<ProduceOp>();
    if (!produce || produce.getReduction())
      return collective->emitOpError(
          "expects to come after what tiles compute, and after nothing else, "
          "to be library calls");
    if (produce.getBuffer() == collective.getSrc())
      subtract(missing[produce.getRank()],
               Box(produce.getOffsets(), produce.getSizes()));
  }
  for (auto [rank, boxes] : llvm::enumerate(missing))
    if (!boxes.empty())
      return collective->emitOpError()
             << "expects tiles of rank " << rank
             << " to compute all of its buffer, to be library calls, but at "
                "offsets ["
             << boxes.front().offsets << "] sizes [" << boxes.front().sizes
             << "] it does not come after a chunk.produce of it";
  return success();
}

/// A call gives back all that the collective brings to a rank, or nothing.
static LogicalResult verifyOutputs(CollectiveOpInterface collective) {
  auto plan = cast<PlanOp>(collective->getParentOp());
  for (OutputOp output : plan.getBody().getOps<OutputOp>()) {
    if (output.getBuffer() != collective.getSrc() &&
        output.getBuffer() != collective.getDst())
      continue;
    BufferType type = collective.getDst().getType();
    SmallVector<int64_t, 4> offsets(type.getRank(), 0), sizes(type.getShape());
    if (isa<ReduceScatterOp>(collective))
      std::tie(offsets, sizes) = collective.getBlock(output.getRank());
    if (output.getBuffer() != collective.getDst() ||
        output.getOffsets() != ArrayRef<int64_t>(offsets) ||
        output.getSizes() != ArrayRef<int64_t>(sizes)) {
      InFlightDiagnostic diag =
          output.emitOpError()
          << "expects to give back what library calls bring to rank "
          << output.getRank() << ", offsets [" << offsets << "] sizes ["
          << sizes << "] of their buffer";
      diag.attachNote(collective->getLoc()) << "the calls";
      return diag;
    }
  }
  return success();
}

/// Nothing comes after what `token` says but the kernel.
static LogicalResult verifyLast(CollectiveOpInterface collective, Value token) {
  for (Operation *user : token.getUsers()) {
    if (isa<KernelOp, ClaimOp>(user))
      continue;
    if (isa<JoinOp>(user)) {
      if (failed(verifyLast(collective, user->getResult(0))))
        return failure();
      continue;
    }
    InFlightDiagnostic diag = collective->emitOpError(
        "expects nothing to come after it, to be library calls");
    diag.attachNote(user->getLoc()) << "this comes after it";
    return diag;
  }
  return success();
}

LogicalResult syncopate::verifyLibraryCall(CollectiveOpInterface collective) {
  auto plan = cast<PlanOp>(collective->getParentOp());
  BufferType type = collective.getSrc().getType();
  if (type.getRank() != 2)
    return collective->emitOpError()
           << "expects a buffer of rows and columns, to be library calls, but "
              "got "
           << type;
  if (!isa<AllReduceOp>(collective) && collective.getCutAxis() != 0)
    return collective->emitOpError()
           << "expects axis 0, to be library calls, but got "
           << *collective.getCutAxis();
  int64_t ranks = plan.getNumRanks();
  auto exchange = dyn_cast<AllToAllOp>(*collective);
  if (exchange && !exchange.getRows() && type.getShape().front() % ranks)
    return collective->emitOpError()
           << "expects blocks of one size, to be library calls, but got "
           << type.getShape().front() << " rows for " << ranks << " ranks";
  if (!llvm::equal(collective.getGroup(), llvm::seq<int64_t>(0, ranks)))
    return collective->emitOpError()
           << "expects a group of all " << ranks
           << " ranks in order, to be library calls, but got ["
           << collective.getGroup() << "]";
  for (auto transfer : plan.getBody().getOps<TransferOpInterface>())
    for (Value buffer : {transfer.getSrc(), transfer.getDst()})
      if (buffer == collective.getSrc() || buffer == collective.getDst()) {
        InFlightDiagnostic diag = collective->emitOpError(
            "expects no transfer to touch its buffers, to be library calls");
        diag.attachNote(transfer.getLoc()) << "the transfer";
        return diag;
      }
  for (InputOp input : plan.getBody().getOps<InputOp>())
    if (input.getBuffer() == collective.getDst())
      return collective->emitOpError(
          "expects no input in its buffers, to be library calls");
  if (failed(verifyOutputs(collective)))
    return failure();
  if (failed(verifyProduced(collective, ranks)))
    return failure();
  return verifyLast(collective, collective.getToken());
}
