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

/// Emits the transfers of one all_gather.
class AllGatherRewriter {
public:
  AllGatherRewriter(AllGatherOp op) : op(op), builder(op) {}

  /// Number of transfers, whatever the algorithm: each block that is not empty
  /// goes to every other member.
  int64_t countTransfers() {
    int64_t members = op.getGroup().size();
    int64_t extent = op.getBuffer().getType().getShape()[op.getAxis()];
    int64_t rows = llvm::divideCeilSigned(extent, members);
    return llvm::divideCeilSigned(extent, rows) * (members - 1);
  }

  /// Returns the tokens of all transfers.
  SmallVector<Value> rewrite(Algorithm algorithm) {
    bool pull =
        algorithm == Algorithm::DirectPull || algorithm == Algorithm::RingPull;
    bool ring =
        algorithm == Algorithm::RingPush || algorithm == Algorithm::RingPull;
    return ring ? rewriteRing(pull) : rewriteDirect(pull);
  }

private:
  /// Moves the block of member `block` between two members; null if empty.
  Value move(int64_t block, int64_t from, int64_t to, bool pull,
             ValueRange after) {
    ArrayRef<int64_t> group = op.getGroup();
    auto [offsets, sizes] = op.getBlock(block);
    if (sizes[op.getAxis()] == 0)
      return {};
    auto create = [&, &offsets = offsets, &sizes = sizes](auto kind) -> Value {
      return decltype(kind)::create(builder, op.getLoc(), op.getBuffer(),
                                    offsets, op.getBuffer(), offsets, sizes,
                                    group[from], group[to], after,
                                    RealizationAttr{}, IntegerAttr{});
    };
    return pull ? create(GetOp{}) : create(PutOp{});
  }

  /// Every member sends to, or fetches from, every other, the next one first.
  SmallVector<Value> rewriteDirect(bool pull) {
    int64_t members = op.getGroup().size();
    SmallVector<Value> tokens;
    for (int64_t step = 1; step < members; ++step)
      for (int64_t member = 0; member < members; ++member) {
        int64_t peer = (member + step) % members;
        Value token =
            pull ? move(peer, peer, member, true, op.getDependencies())
                 : move(member, member, peer, false, op.getDependencies());
        if (token)
          tokens.push_back(token);
      }
    return tokens;
  }

  /// In step s, member i passes block i - s on to member i + 1.
  SmallVector<Value> rewriteRing(bool pull) {
    int64_t members = op.getGroup().size();
    SmallVector<Value> tokens;
    // The transfer that brought the block that a member passes on next.
    SmallVector<Value> brought(members);
    for (int64_t step = 0; step + 1 < members; ++step) {
      SmallVector<Value> next(members);
      for (int64_t member = 0; member < members; ++member) {
        int64_t block = (member - step + members) % members;
        int64_t to = (member + 1) % members;
        SmallVector<Value> after;
        if (brought[member])
          after.push_back(brought[member]);
        else
          llvm::append_range(after, op.getDependencies());
        next[to] = move(block, member, to, pull, after);
        if (next[to])
          tokens.push_back(next[to]);
      }
      brought = std::move(next);
    }
    return tokens;
  }

  AllGatherOp op;
  OpBuilder builder;
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
    for (AllGatherOp op : plan.getBody().getOps<AllGatherOp>()) {
      count += AllGatherRewriter(op).countTransfers();
      if (count > PlanOp::kMaxTransfers) {
        op.emitOpError() << "expects a plan of at most "
                         << PlanOp::kMaxTransfers
                         << " transfers, but with those of this collective it "
                            "has "
                         << count;
        return signalPassFailure();
      }
    }
    for (auto op :
         llvm::make_early_inc_range(plan.getBody().getOps<AllGatherOp>())) {
      Algorithm used = op.getAlgorithm().value_or(chosen);
      SmallVector<Value> tokens = AllGatherRewriter(op).rewrite(used);
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
