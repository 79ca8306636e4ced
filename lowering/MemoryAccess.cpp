//===- MemoryAccess.cpp - where a kernel accesses an argument -------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/MemoryAccess.h"
#include "lowering/TritonModule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace syncopate;

/// True if the operation makes pointers or descriptors of its first operand and
/// does nothing else with it.
static bool isForwarded(OpOperand &operand) {
  Operation *op = operand.getOwner();
  if (isa<arith::SelectOp>(op) || isNamed(op, kMakeTensorMap))
    return true;
  return operand.getOperandNumber() == 0 &&
         llvm::is_contained<StringRef>(
             {"tt.addptr", "tt.splat", "tt.unsplat", "tt.broadcast",
              "tt.expand_dims", "tt.trans", "tt.reshape", "tt.bitcast",
              "tt.make_tensor_descriptor", "tt.make_tensor_ptr", "tt.advance",
              "ttg.convert_layout", "ttng.reinterpret_tensor_descriptor"},
             op->getName().getStringRef());
}

/// True if the operation hands its operands on to blocks or results.
static bool isControlFlow(Operation *op) {
  return isa<scf::ForOp, scf::WhileOp, scf::YieldOp, scf::ConditionOp>(op);
}

std::optional<MemoryAccess::Kind> syncopate::getAccessKind(OpOperand &operand) {
  Operation *op = operand.getOwner();
  if (isForwarded(operand) || isControlFlow(op))
    return std::nullopt;
  // What stores a pointer as a value hands it on.
  if (operand.getOperandNumber() != 0)
    return MemoryAccess::Escape;
  return llvm::StringSwitch<MemoryAccess::Kind>(op->getName().getStringRef())
      .Cases({"tt.load", "tt.descriptor_load", "tt.descriptor_gather",
              "ttg.async_copy_global_to_local",
              "ttng.async_tma_copy_global_to_local", "ttng.async_tma_gather"},
             MemoryAccess::Read)
      .Cases({"tt.store", "tt.descriptor_store", "tt.descriptor_scatter",
              kBulkStore, "ttng.async_tma_scatter"},
             MemoryAccess::Write)
      .Cases({"tt.atomic_rmw", "tt.atomic_cas", "tt.descriptor_reduce",
              kBulkReduce},
             MemoryAccess::Update)
      .Default(MemoryAccess::Escape);
}

/// Appends what `operand` is called where it is handed on.
static void appendAliases(OpOperand &operand, SmallVectorImpl<Value> &values) {
  Operation *op = operand.getOwner();
  unsigned number = operand.getOperandNumber();
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    values.push_back(loop.getTiedLoopRegionIterArg(&operand));
    values.push_back(loop.getTiedLoopResult(&operand));
    return;
  }
  Operation *parent = op->getParentOp();
  if (isa<scf::YieldOp>(op) && isa<scf::ForOp, scf::IfOp>(parent)) {
    values.push_back(parent->getResult(number));
    if (auto loop = dyn_cast<scf::ForOp>(parent))
      values.push_back(loop.getRegionIterArg(number));
    return;
  }
  // A descriptor in memory is read again by a pointer to it.
  if (isNamed(op, kMakeTensorMap)) {
    values.push_back(op->getOperand(0));
    return;
  }
  if (isControlFlow(op) && op->hasTrait<OpTrait::IsTerminator>())
    op = parent;
  auto append = [&](ValueRange candidates) {
    for (Value value : candidates)
      if (!getElementTypeOrSelf(value.getType()).isIntOrIndexOrFloat())
        values.push_back(value);
  };
  append(op->getResults());
  for (Region &region : op->getRegions())
    for (Block &block : region)
      append(block.getArguments());
}

SmallVector<MemoryAccess> syncopate::findAccesses(Operation *function,
                                                  Value argument) {
  llvm::DenseMap<Operation *, MemoryAccess::Kind> kinds;
  SmallVector<Value> worklist{argument};
  llvm::DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    for (OpOperand &operand : value.getUses()) {
      if (isNamed(operand.getOwner(), kAcquireTensorMap))
        continue;
      std::optional<MemoryAccess::Kind> kind = getAccessKind(operand);
      if (!kind) {
        appendAliases(operand, worklist);
        continue;
      }
      auto [it, isNew] = kinds.try_emplace(operand.getOwner(), *kind);
      if (*kind == MemoryAccess::Escape)
        it->second = MemoryAccess::Escape;
    }
  }
  SmallVector<MemoryAccess> accesses;
  function->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto it = kinds.find(op); it != kinds.end())
      accesses.push_back({op, it->second});
  });
  return accesses;
}
