//===- TileSums.cpp - stores that add to what is there --------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/TileSums.h"
#include "dialect/Chunk.h"
#include "lowering/TritonModule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

/// A branch for tiles that add to what is there, which begins with the wait for
/// it, and an empty one for others.
static scf::IfOp createChoice(OpBuilder &builder, Location loc,
                              TypeRange results, Value context, Value tile) {
  auto sum = TileSumOp::create(builder, loc, context, tile);
  Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
  Value adds = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne,
                                     sum.getAdds(), zero);
  auto choice = scf::IfOp::create(builder, loc, results, adds,
                                  /*withElseRegion=*/true);
  OpBuilder then = OpBuilder::atBlockBegin(choice.thenBlock());
  WaitOp::create(then, loc, context, sum.getWaitBegin(), sum.getWaitEnd());
  return choice;
}

static Value createTriton(OpBuilder &builder, Location loc, StringRef name,
                          ValueRange operands, Type result,
                          ArrayRef<NamedAttribute> properties = {}) {
  OperationState state(loc, name);
  state.addOperands(operands);
  state.addTypes(result);
  if (!properties.empty())
    state.propertiesAttr = builder.getDictionaryAttr(properties);
  return builder.create(state)->getResult(0);
}

/// What is at the pointers of a store, where its mask is set.
static Value loadStored(OpBuilder &builder, Operation *store) {
  SmallVector<Value> operands{store->getOperand(0)};
  bool masked = store->getNumOperands() > 2;
  if (masked)
    operands.push_back(store->getOperand(2));
  auto segments = builder.getDenseI32ArrayAttr({1, masked ? 1 : 0, 0});
  return createTriton(builder, store->getLoc(), kLoad, operands,
                      store->getOperand(1).getType(),
                      builder.getNamedAttr(kSegmentSizes, segments));
}

/// `value` in the layout of the tensor `like`.
static Value convertLayout(OpBuilder &builder, Location loc, Value value,
                           Type like) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  auto wanted = dyn_cast<RankedTensorType>(like);
  if (!tensor || !wanted || tensor.getEncoding() == wanted.getEncoding())
    return value;
  Type result = RankedTensorType::get(
      tensor.getShape(), tensor.getElementType(), wanted.getEncoding());
  return createTriton(builder, loc, kConvertLayout, value, result);
}

/// The type of the same shape and layout with elements of another type.
static Type withElements(Type type, Type element) {
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    return RankedTensorType::get(tensor.getShape(), element,
                                 tensor.getEncoding());
  return element;
}

/// A value of floats in another type. Triton has an operation of its own for
/// those of eight bits.
static Value convertFloat(OpBuilder &builder, Location loc, Value value,
                          Type element) {
  Type from = getElementTypeOrSelf(value.getType());
  unsigned before = from.getIntOrFloatBitWidth();
  unsigned after = element.getIntOrFloatBitWidth();
  if (from == element)
    return value;
  Type type = withElements(value.getType(), element);
  if (std::min(before, after) > 8)
    return before < after
               ? arith::ExtFOp::create(builder, loc, type, value).getResult()
               : arith::TruncFOp::create(builder, loc, type, value).getResult();
  SmallVector<NamedAttribute> properties;
  if (after < before)
    properties.push_back(builder.getNamedAttr(
        kRounding, builder.getI32IntegerAttr(kRoundToNearest)));
  return createTriton(builder, loc, kConvertFloat, value, type, properties);
}

/// The operation that rounds what is stored, if that does nothing after it but
/// to change its layout.
static Operation *findRounding(Value stored) {
  Operation *op = stored.getDefiningOp();
  while (isNamed(op, kConvertLayout))
    op = op->getOperand(0).getDefiningOp();
  if (!op || !(isa<arith::TruncFOp>(op) || isNamed(op, kConvertFloat)))
    return nullptr;
  auto width = [](Value value) {
    return getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth();
  };
  return width(op->getOperand(0)) > width(op->getResult(0)) ? op : nullptr;
}

/// The sum of what is at the place of a store and `value`, in the type and
/// layout of `value`.
static Value createSum(OpBuilder &builder, Operation *store, Value value) {
  Location loc = store->getLoc();
  Type element = getElementTypeOrSelf(value.getType());
  Value there =
      convertLayout(builder, loc, loadStored(builder, store), value.getType());
  if (!isa<FloatType>(element))
    return arith::AddIOp::create(builder, loc, there, value);
  Type wide =
      element.getIntOrFloatBitWidth() < 32 ? builder.getF32Type() : element;
  there = convertFloat(builder, loc, there, wide);
  value = convertFloat(builder, loc, value, wide);
  Value sum = arith::AddFOp::create(builder, loc, there, value);
  return convertFloat(builder, loc, sum, element);
}

/// TMA reads and adds in one.
static void addByBulkReduce(Operation *store, Value context, Value tile) {
  Location loc = store->getLoc();
  OpBuilder builder(store);
  scf::IfOp choice = createChoice(builder, loc, {}, context, tile);
  OperationState reduce(loc, kBulkReduce);
  reduce.addOperands(store->getOperands());
  reduce.propertiesAttr = builder.getDictionaryAttr(
      builder.getNamedAttr(kReduceKind, builder.getI32IntegerAttr(kReduceAdd)));
  choice.getThenBodyBuilder().create(reduce);
  store->moveBefore(choice.elseBlock(), choice.elseBlock()->begin());
}

static void addByPointers(Operation *store, Value context, Value tile) {
  Location loc = store->getLoc();
  OpBuilder builder(store);
  Operation *rounding = findRounding(store->getOperand(1));
  Value value = rounding ? rounding->getOperand(0) : store->getOperand(1);
  scf::IfOp choice = createChoice(builder, loc, value.getType(), context, tile);
  OpBuilder then = OpBuilder::atBlockEnd(choice.thenBlock());
  scf::YieldOp::create(then, loc, createSum(then, store, value));
  OpBuilder other = OpBuilder::atBlockEnd(choice.elseBlock());
  scf::YieldOp::create(other, loc, value);
  if (!rounding) {
    store->setOperand(1, choice.getResult(0));
    return;
  }
  // The same once more from there on: the pointers may be made behind it.
  SmallVector<Operation *> steps;
  for (Operation *op = store->getOperand(1).getDefiningOp(); op != rounding;
       op = op->getOperand(0).getDefiningOp())
    steps.push_back(op);
  steps.push_back(rounding);
  IRMapping mapping;
  mapping.map(value, choice.getResult(0));
  for (Operation *op : llvm::reverse(steps))
    builder.clone(*op, mapping);
  store->setOperand(1, mapping.lookup(store->getOperand(1)));
  for (Operation *op : steps)
    if (op->use_empty())
      op->erase();
}

void syncopate::addWhatIsThere(Operation *store, Value context, Value tile) {
  if (isNamed(store, kBulkStore))
    addByBulkReduce(store, context, tile);
  else
    addByPointers(store, context, tile);
}
