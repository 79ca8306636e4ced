//===- TileStores.cpp - where a kernel's tiles are done -------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/TileStores.h"
#include "lowering/TritonModule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

/// True if tiles compute part of the buffer on some rank.
static bool isProduced(Value buffer) {
  return llvm::any_of(buffer.getUsers(),
                      [](Operation *user) { return isa<ProduceOp>(user); });
}

namespace {

/// One coordinate of a tile as a function of an offset of its store: that of
/// dimension `dim`, less `base`, divided by `step`, and rounded down.
struct Inverse {
  unsigned dim = 0;
  int64_t base = 0;
  int64_t step = 0;
};

} // namespace

/// Matches `coordinate * step + base`.
static std::optional<std::pair<int64_t, int64_t>> matchStep(AffineExpr expr,
                                                            unsigned position) {
  AffineExpr dim = getAffineDimExpr(position, expr.getContext());
  int64_t base = 0;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (binary && expr.getKind() == AffineExprKind::Add) {
    auto constant = dyn_cast<AffineConstantExpr>(binary.getRHS());
    if (!constant)
      return std::nullopt;
    base = constant.getValue();
    expr = binary.getLHS();
    binary = dyn_cast<AffineBinaryOpExpr>(expr);
  }
  if (expr == dim)
    return std::make_pair(int64_t(1), base);
  if (!binary || expr.getKind() != AffineExprKind::Mul ||
      binary.getLHS() != dim)
    return std::nullopt;
  int64_t step = cast<AffineConstantExpr>(binary.getRHS()).getValue();
  return step > 0 ? std::optional(std::make_pair(step, base)) : std::nullopt;
}

/// How a tile's coordinates follow from the offsets of any of the stores that
/// these footprints describe.
static FailureOr<SmallVector<Inverse>> invert(KernelOp kernel,
                                              ArrayRef<FootprintOp> writes) {
  SmallVector<Inverse> result;
  FootprintOp first = writes.front();
  for (auto [position, size] : llvm::enumerate(kernel.getTiles())) {
    Inverse found;
    for (unsigned dim = 0; dim < first.getMap().getNumResults(); ++dim) {
      std::optional<std::pair<int64_t, int64_t>> step =
          matchStep(first.getMap().getResult(dim), position);
      if (!step)
        continue;
      found = {dim, step->second, step->first};
      int64_t highest = found.base;
      for (FootprintOp other : writes.drop_front()) {
        auto match = matchStep(other.getMap().getResult(dim), position);
        if (!match || match->first != found.step) {
          found.step = 0;
          break;
        }
        found.base = std::min(found.base, match->second);
        highest = std::max(highest, match->second);
      }
      if (found.step > 0 && highest - found.base < found.step)
        break;
      found.step = 0;
    }
    if (found.step == 0 && size > 1)
      return first.emitOpError()
             << "expects offsets of which tile coordinate " << position
             << " can be told, one of them a multiple of it alone";
    result.push_back(found);
  }
  return result;
}

/// The number of the tile that a store at `offsets` belongs to.
static Value computeTile(OpBuilder &builder, Location loc, KernelOp kernel,
                         ArrayRef<Inverse> inverse, ValueRange offsets) {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 32);
  };
  Value tile;
  for (auto [size, part] : llvm::zip(kernel.getTiles(), inverse)) {
    Value coordinate = constant(0);
    if (size > 1) {
      coordinate = offsets[part.dim];
      if (part.base != 0)
        coordinate = arith::SubIOp::create(builder, loc, coordinate,
                                           constant(part.base));
      coordinate =
          arith::DivSIOp::create(builder, loc, coordinate, constant(part.step));
    }
    if (tile)
      coordinate = arith::AddIOp::create(
          builder, loc,
          arith::MulIOp::create(builder, loc, tile, constant(size)),
          coordinate);
    tile = coordinate;
  }
  return tile;
}

/// True if tiles add to what is in the buffer on some rank.
static bool isAccumulated(Value buffer) {
  return llvm::any_of(buffer.getUsers(), [](Operation *user) {
    auto produce = dyn_cast<ProduceOp>(user);
    return produce && produce.getReduction();
  });
}

/// Lets a store add to what is there if its tile is to. It is only then that
/// the tile waits for that, when the tile before it is done: a pipelined loop
/// begins a tile earlier.
static void makeAccumulating(OpBuilder &builder, Operation *store,
                             Value context, Value tile) {
  Location loc = store->getLoc();
  auto sum = TileSumOp::create(builder, loc, context, tile);
  Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
  Value condition = arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::ne, sum.getAdds(), zero);
  auto choice = scf::IfOp::create(builder, loc, TypeRange(), condition,
                                  /*withElseRegion=*/true);
  OperationState reduce(loc, kBulkReduce);
  reduce.addOperands(store->getOperands());
  reduce.propertiesAttr = builder.getDictionaryAttr(
      builder.getNamedAttr(kReduceKind, builder.getI32IntegerAttr(kReduceAdd)));
  OpBuilder then = choice.getThenBodyBuilder();
  WaitOp::create(then, loc, context, sum.getWaitBegin(), sum.getWaitEnd());
  then.create(reduce);
  store->moveBefore(choice.elseBlock(), choice.elseBlock()->begin());
}

LogicalResult syncopate::markFinishedTiles(KernelOp kernel, Operation *function,
                                           Value context) {
  SmallVector<FootprintOp> writes;
  for (FootprintOp footprint : kernel.getFootprints())
    if (footprint.getAccess() == Access::Write &&
        isProduced(kernel.getBoundBuffer(footprint.getArg())))
      writes.push_back(footprint);
  if (writes.empty())
    return success();
  StringAttr name = writes.front().getArgAttr();
  for (FootprintOp footprint : writes)
    if (footprint.getArgAttr() != name)
      return kernel.emitOpError()
             << "expects tiles to compute chunks by one argument, but got "
             << name << " and " << footprint.getArgAttr();
  bool accumulates = isAccumulated(kernel.getBoundBuffer(name.getValue()));
  FailureOr<SmallVector<Inverse>> inverse = invert(kernel, writes);
  if (failed(inverse))
    return failure();
  Value argument = findArgument(function, name.getValue());
  if (!argument)
    return kernel.emitOpError()
           << "binds argument " << name << ", which the kernel lacks";
  // Every tile stores once for each footprint.
  llvm::MapVector<Block *, SmallVector<Operation *>> stores;
  SmallVector<Operation *> users = llvm::to_vector(argument.getUsers());
  for (Operation *user : llvm::reverse(users)) {
    if (user->getName().getStringRef() != kBulkStore)
      return kernel.emitOpError()
             << "expects tiles to write " << name
             << " by descriptor stores, but found " << user->getName()
             << "; bind a Descriptor, or let a transfer copy it elsewhere";
    stores[user->getBlock()].push_back(user);
  }
  if (stores.empty())
    return kernel.emitOpError()
           << "expects a store to " << name << ", but found none in the kernel";
  for (auto &[block, ops] : stores) {
    if (ops.size() % writes.size()) {
      InFlightDiagnostic diag = kernel.emitOpError();
      diag << "cannot tell where the stores of a tile to " << name
           << " end: expects all " << writes.size()
           << " of them one after another";
      diag.attachNote(ops.front()->getLoc()) << "one of them";
      return diag;
    }
    llvm::sort(
        ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    for (auto [number, op] : llvm::enumerate(ops)) {
      bool isLast = number % writes.size() == writes.size() - 1;
      if (!isLast && !accumulates)
        continue;
      OpBuilder builder(op);
      size_t dims = writes.front().getMap().getNumResults();
      Value tile = computeTile(builder, op->getLoc(), kernel, *inverse,
                               op->getOperands().slice(1, dims));
      builder.setInsertionPointAfter(op);
      if (accumulates)
        makeAccumulating(builder, op, context, tile);
      if (isLast)
        FinishTileOp::create(builder, op->getLoc(), context, tile);
    }
  }
  return success();
}
