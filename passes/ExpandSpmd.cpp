//===- ExpandSpmd.cpp - rank-affine transfers into puts and gets
//-------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_EXPANDSPMDPASS
#include "passes/Passes.h.inc"

using namespace chunk;

namespace {

struct ExpandSpmd : impl::ExpandSpmdPassBase<ExpandSpmd> {
  using Base::Base;

  void runOnOperation() override {
    PlanOp plan = getOperation();
    auto all = llvm::to_vector(plan.getBody().getOps<SpmdOp>());
    int64_t count =
        llvm::range_size(plan.getBody().getOps<TransferOpInterface>());
    for (SpmdOp spmd : all) {
      count += spmd.getGroup().size() *
               spmd.getBody().front().getOperations().size();
      if (count > PlanOp::kMaxTransfers) {
        spmd.emitOpError() << "expects a plan of at most "
                           << PlanOp::kMaxTransfers
                           << " transfers, but with those of this group it may "
                              "have "
                           << count;
        return signalPassFailure();
      }
    }
    for (SpmdOp spmd : all)
      expand(spmd);
  }

private:
  static void expand(SpmdOp spmd) {
    OpBuilder builder(spmd);
    size_t members = spmd.getGroup().size();
    // By transfer and member, the token of what is made of it: or, where that
    // is nothing, those that it would have come after.
    llvm::DenseMap<Value, SmallVector<SmallVector<Value, 1>>> made;
    SmallVector<Value> tokens;
    for (auto transfer : spmd.getBody().getOps<TransferOp>()) {
      SmallVector<SmallVector<Value, 1>> mine(members);
      for (size_t member = 0; member < members; ++member) {
        SmallVector<Value, 1> &after = mine[member];
        for (auto [number, token] : llvm::enumerate(transfer.getDependencies()))
          llvm::append_range(after,
                             made[token][transfer.getMember(number, member)]);
        std::optional<Route> route = transfer.getRoute(member);
        if (!route)
          continue;
        Value token = create(builder, transfer, *route,
                             after.empty() ? ValueRange(spmd.getDependencies())
                                           : ValueRange(after));
        after.assign(1, token);
        tokens.push_back(token);
      }
      made[transfer.getToken()] = std::move(mine);
    }
    Value token = JoinOp::create(builder, spmd.getLoc(), tokens);
    spmd.getToken().replaceAllUsesWith(token);
    spmd.erase();
  }

  static Value create(OpBuilder &builder, TransferOp transfer,
                      const Route &route, ValueRange after) {
    auto create = [&](auto kind) -> Value {
      return decltype(kind)::create(
          builder, transfer.getLoc(), transfer.getSrc(), route.srcOffsets,
          transfer.getDst(), route.dstOffsets, route.sizes, route.srcRank,
          route.dstRank, transfer.getReductionAttr(), after,
          transfer.getRealizationAttr());
    };
    return transfer.getDirection() == Direction::Push ? create(PutOp{})
                                                      : create(GetOp{});
  }
};

} // namespace
} // namespace syncopate
