//===- DecomposeCollectives.cpp - collectives into puts and gets ----------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_DECOMPOSECOLLECTIVESPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

/// Emits the transfers of one collective.
class Rewriter {
public:
  Rewriter(CollectiveOpInterface op, Algorithm algorithm)
      : op(op), builder(op), members(op.getGroup().size()),
        pull(algorithm == Algorithm::DirectPull ||
             algorithm == Algorithm::RingPull),
        ring(algorithm == Algorithm::RingPush ||
             algorithm == Algorithm::RingPull) {}

  /// Number of transfers, whatever the algorithm: each block that is not empty
  /// goes once to, or comes once from, every other member; or both.
  int64_t countTransfers() {
    auto extent = op.getBuffer().getType().getShape()[op.getAxis()];
    int64_t rows = llvm::divideCeilSigned(extent, members);
    int64_t count = llvm::divideCeilSigned(extent, rows) * (members - 1);
    return isa<AllReduceOp>(op) ? 2 * count : count;
  }

  /// Returns the tokens of all transfers.
  SmallVector<Value> rewrite() {
    // By block, the transfer that has brought it to where it is taken from.
    SmallVector<Value> brought(members);
    if (auto scatter = dyn_cast<ReduceScatterOp>(op.getOperation()))
      reduce(scatter.getReductionAttr(), brought);
    if (auto reduction = dyn_cast<AllReduceOp>(op.getOperation()))
      reduce(reduction.getReductionAttr(), brought);
    if (!isa<ReduceScatterOp>(op))
      gather(brought);
    return std::move(tokens);
  }

private:
  /// Moves the block of member `block` between two members, after the transfer
  /// that brought it or else after what the collective comes after, and notes
  /// its token. Nothing happens if the block is empty.
  void move(int64_t block, int64_t from, int64_t to, Value &brought,
            ReductionAttr reduction = {}) {
    ArrayRef<int64_t> group = op.getGroup();
    auto [offsets, sizes] = op.getBlock(block);
    if (sizes[op.getAxis()] == 0)
      return;
    SmallVector<Value> after;
    if (brought)
      after.push_back(brought);
    else
      llvm::append_range(after, op.getDependencies());
    auto create = [&, &offsets = offsets, &sizes = sizes](auto kind) -> Value {
      return decltype(kind)::create(builder, op.getLoc(), op.getBuffer(),
                                    offsets, op.getBuffer(), offsets, sizes,
                                    group[from], group[to], reduction, after,
                                    RealizationAttr{}, IntegerAttr{});
    };
    brought = pull ? create(GetOp{}) : create(PutOp{});
    tokens.push_back(brought);
  }

  /// Every member sends to, or fetches from, every other, the next one first;
  /// around the ring, member i passes block i - s on to member i + 1 in step s.
  void gather(ArrayRef<Value> first) {
    SmallVector<Value> brought(first);
    for (int64_t step = 0; step + 1 < members; ++step)
      for (int64_t member = 0; member < members; ++member) {
        int64_t next = (member + 1) % members;
        int64_t peer = (member + step + 1) % members;
        int64_t block = (member - step + members) % members;
        if (ring)
          move(block, member, next, brought[block]);
        else if (pull)
          move(peer, peer, member, brought[peer] = first[peer]);
        else
          move(member, member, peer, brought[member] = first[member]);
      }
  }

  /// Into every member's own block, one after another, go those of the others,
  /// the next one first; around the ring, what member i has of block i - s - 1
  /// goes into that of member i + 1 in step s, until it is where it belongs.
  /// The order, and with it the rounding, does not depend on time.
  void reduce(ReductionAttr reduction, MutableArrayRef<Value> brought) {
    for (int64_t step = 0; step + 1 < members; ++step)
      for (int64_t member = 0; member < members; ++member) {
        int64_t next = (member + 1) % members;
        int64_t peer = (member + step + 1) % members;
        int64_t block = (member - step - 1 + members) % members;
        if (ring)
          move(block, member, next, brought[block], reduction);
        else
          move(member, peer, member, brought[member], reduction);
      }
  }

  CollectiveOpInterface op;
  OpBuilder builder;
  int64_t members;
  bool pull, ring;
  SmallVector<Value> tokens;
};

struct DecomposeCollectives
    : impl::DecomposeCollectivesPassBase<DecomposeCollectives> {
  using Base::Base;

  void runOnOperation() override {
    PlanOp plan = getOperation();
    Algorithm chosen = plan.getStrategyOrDefault().getAlgorithm();
    if (!algorithm.empty()) {
      std::optional<Algorithm> named = symbolizeAlgorithm(algorithm);
      if (!named) {
        plan.emitOpError() << "expects a known algorithm, but got '"
                           << algorithm << "'";
        return signalPassFailure();
      }
      chosen = *named;
    }
    int64_t count =
        llvm::range_size(plan.getBody().getOps<TransferOpInterface>());
    auto collectives =
        llvm::to_vector(plan.getBody().getOps<CollectiveOpInterface>());
    for (CollectiveOpInterface op : collectives) {
      count += Rewriter(op, chosen).countTransfers();
      if (count > PlanOp::kMaxTransfers) {
        op->emitOpError() << "expects a plan of at most "
                          << PlanOp::kMaxTransfers
                          << " transfers, but with those of this collective it "
                             "has "
                          << count;
        return signalPassFailure();
      }
    }
    for (CollectiveOpInterface op : collectives) {
      Algorithm used = op.getAlgorithm().value_or(chosen);
      SmallVector<Value> tokens = Rewriter(op, used).rewrite();
      OpBuilder builder(op);
      Value token = JoinOp::create(builder, op.getLoc(), tokens);
      op.getToken().replaceAllUsesWith(token);
      auto claim = ClaimOp::create(builder, op.getLoc(), token);
      Block &body = claim.getBody().emplaceBlock();
      op->moveBefore(&body, body.end());
    }
  }
};

} // namespace
} // namespace syncopate
