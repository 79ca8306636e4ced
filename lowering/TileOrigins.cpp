//===- TileOrigins.cpp - which tile an address belongs to -----------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/TileOrigins.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

static Value createConstant(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

TileOrigins::TileOrigins(KernelOp kernel, Operation *function) {
  function->walk([&](ReadTileOp read) {
    OpBuilder builder(read->getContext());
    builder.setInsertionPointAfter(read);
    Value tile = TileNumberOp::create(builder, read.getLoc(), read.getContext(),
                                      read.getPosition());
    for (Value coordinate :
         read->getResults().take_front(kernel.getTiles().size())) {
      follow(coordinate);
      tiles[coordinate] = tile;
    }
  });
}

void TileOrigins::follow(Value coordinate) {
  SmallVector<Value> worklist{coordinate};
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!computed.insert(value).second)
      continue;
    for (OpOperand &use : value.getUses()) {
      Operation *op = use.getOwner(), *parent = op->getParentOp();
      unsigned number = use.getOperandNumber();
      if (auto loop = dyn_cast<scf::ForOp>(op)) {
        if (number < loop.getNumControlOperands())
          continue;
        worklist.push_back(loop.getTiedLoopRegionIterArg(&use));
        worklist.push_back(loop.getTiedLoopResult(&use));
      } else if (isa<scf::YieldOp>(op) && isa<scf::ForOp, scf::IfOp>(parent)) {
        worklist.push_back(parent->getResult(number));
        if (auto loop = dyn_cast<scf::ForOp>(parent))
          worklist.push_back(loop.getRegionIterArg(number));
      } else if (op->getNumRegions() == 0) {
        llvm::append_range(worklist, op->getResults());
      }
    }
  }
}

Value TileOrigins::find(ValueRange values) {
  // The values, and what is known of them, change when a loop is replaced.
  auto lookUp = [&]() -> Value {
    for (Value value : values)
      if (computed.contains(value))
        return get(value);
    return {};
  };
  Value tile = lookUp();
  while (!pending.empty()) {
    complete(pending.pop_back_val());
    tile = lookUp();
  }
  return tile;
}

Value TileOrigins::get(Value value) {
  if (auto it = tiles.find(value); it != tiles.end())
    return it->second;
  if (auto argument = dyn_cast<BlockArgument>(value))
    return tiles[argument] = getCarried(argument);
  auto result = cast<OpResult>(value);
  Operation *op = result.getOwner();
  if (isa<scf::ForOp, scf::IfOp>(op))
    return getResult(result);
  if (isa<arith::SelectOp>(op) && op->getOperand(0).getType().isInteger(1))
    return tiles[value] = choose(op);
  for (Value operand : op->getOperands())
    if (computed.contains(operand)) {
      Value tile = get(operand);
      return tiles[value] = tile;
    }
  llvm_unreachable("computed of coordinates, but of no operand that is");
}

Value TileOrigins::getCarried(BlockArgument argument) {
  auto loop = cast<scf::ForOp>(argument.getOwner()->getParentOp());
  unsigned source = argument.getArgNumber() - loop.getNumInductionVars();
  unsigned slot = loop.getNumRegionIterArgs();
  OpBuilder builder(loop);
  Block *body = loop.getBody();
  widen(loop, createConstant(builder, loop.getLoc(), 0));
  Value tile = body->addArgument(builder.getI32Type(), argument.getLoc());
  Operation *yield = body->getTerminator();
  yield->insertOperands(slot, tile);
  pending.push_back({body, /*isInit=*/true, slot, source});
  pending.push_back({body, /*isInit=*/false, slot, source});
  return tile;
}

Value TileOrigins::getResult(OpResult result) {
  unsigned source = result.getResultNumber();
  if (auto loop = dyn_cast<scf::ForOp>(result.getOwner())) {
    // The loop that carries the number may be another one than before.
    Block *body = loop.getBody();
    auto carried = cast<BlockArgument>(get(loop.getRegionIterArg(source)));
    auto now = cast<scf::ForOp>(body->getParentOp());
    unsigned slot = carried.getArgNumber() - now.getNumInductionVars();
    return tiles[now->getResult(source)] = now->getResult(slot);
  }
  auto branch = cast<scf::IfOp>(result.getOwner());
  unsigned slot = branch->getNumResults();
  Operation *now = widen(branch, {});
  for (Region &region : now->getRegions()) {
    Block *block = &region.front();
    Operation *yield = block->getTerminator();
    OpBuilder builder(yield);
    yield->insertOperands(slot, createConstant(builder, yield->getLoc(), 0));
    pending.push_back({block, /*isInit=*/false, slot, source});
  }
  return tiles[now->getResult(source)] = now->getResult(slot);
}

Value TileOrigins::choose(Operation *select) {
  OpBuilder builder(select);
  Location loc = select->getLoc();
  auto getSide = [&](unsigned side) {
    Value value = select->getOperand(side);
    return computed.contains(value) ? get(value)
                                    : createConstant(builder, loc, 0);
  };
  getSide(1);
  Value no = getSide(2);
  // The second may have replaced what the first one is a result of.
  Value yes = getSide(1);
  return arith::SelectOp::create(builder, loc, select->getOperand(0), yes, no);
}

void TileOrigins::complete(const Pending &item) {
  auto getOwner = [&]() -> std::pair<Operation *, unsigned> {
    if (!item.isInit)
      return {item.block->getTerminator(), 0};
    auto loop = cast<scf::ForOp>(item.block->getParentOp());
    return {loop, loop.getNumControlOperands()};
  };
  auto [owner, first] = getOwner();
  Value source = owner->getOperand(first + item.source);
  // Where there was no tile before, there is no address that anybody uses.
  if (!computed.contains(source))
    return;
  Value tile = get(source);
  getOwner().first->setOperand(first + item.slot, tile);
}

/// Puts in the place of `op` the same with further operands and another i32
/// result. Blocks stay what they are, results do not.
Operation *TileOrigins::widen(Operation *op, ValueRange operands) {
  OpBuilder builder(op);
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(op->getOperands());
  state.addOperands(operands);
  state.addTypes(op->getResultTypes());
  state.addTypes(builder.getI32Type());
  state.addAttributes(op->getDiscardableAttrDictionary().getValue());
  state.propertiesAttr = op->getPropertiesAsAttribute();
  for (Region &region : op->getRegions())
    state.addRegion()->takeBody(region);
  Operation *wider = builder.create(state);
  for (auto [before, now] : llvm::zip(op->getResults(), wider->getResults())) {
    if (computed.erase(before))
      computed.insert(now);
    if (auto it = tiles.find(before); it != tiles.end()) {
      Value tile = it->second;
      tiles.erase(it);
      tiles[now] = tile;
    }
    for (auto &entry : tiles)
      if (entry.second == before)
        entry.second = now;
  }
  op->replaceAllUsesWith(wider->getResults().drop_back());
  op->erase();
  return wider;
}
