//===- LocalizeInputs.cpp - inputs read where the caller keeps them -------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/Passes.h"
#include "lowering/TileLoop.h"
#include "lowering/TritonModule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_LOCALIZEINPUTSPASS
#include "lowering/Passes.h.inc"

using namespace chunk;

namespace {

struct LocalizeInputs : impl::LocalizeInputsPassBase<LocalizeInputs> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(forEachKernel(
            getOperation(), [&](KernelOp kernel) { return localize(kernel); })))
      signalPassFailure();
  }

private:
  LogicalResult localize(KernelOp kernel) {
    ModuleOp ttgir = findModule(getOperation(), kTTGIRModule);
    Operation *function =
        ttgir ? findFunction(ttgir, kernel.getKernel()) : nullptr;
    if (!function)
      return success(); // chunk-splice-kernel says so
    for (Attribute attr : kernel.getArgNames()) {
      StringRef name = cast<StringAttr>(attr).getValue();
      Value gathered = findArgument(function, name);
      Value input =
          findArgument(function, (kInputDescriptorPrefix + name).str());
      if (!gathered || !input || gathered.getType() != input.getType())
        continue;
      // What reads the buffer by another argument reads the buffer itself.
      if (llvm::count(kernel.getBuffers(), kernel.getBoundBuffer(name)) != 1)
        continue;
      SmallVector<Operation *> loads;
      if (!collectLoads(gathered, loads) || loads.empty())
        continue;
      // Whether the plan lets the input lie elsewhere is data: the rows that
      // are the rank's own are none if it does not.
      auto buffer = kernel.getBoundBuffer(name).getDefiningOp<BufferOp>();
      if (llvm::none_of(buffer->getUsers(),
                        [](Operation *user) { return isa<InputOp>(user); }))
        continue;
      rewrite(function->getRegion(0).front(), gathered, input, loads);
      kernel.setLocalized(buffer.getName());
      return success();
    }
    for (auto buffer :
         kernel->getParentOfType<PlanOp>().getBody().getOps<BufferOp>()) {
      if (!isSeparate(kernel, buffer) ||
          llvm::is_contained(kernel.getBuffers(), Value(buffer.getResult())))
        continue;
      kernel.setLocalized(buffer.getName());
      return success();
    }
    return success();
  }

  static bool isSeparate(KernelOp kernel, BufferOp buffer) {
    std::optional<ArrayAttr> separate = kernel.getSeparate();
    return separate &&
           llvm::is_contained(*separate, Attribute(buffer.getNameAttr()));
  }

  /// All uses of a descriptor, if every one is a load of a block at rows given
  /// by its second operand.
  static bool collectLoads(Value descriptor,
                           SmallVectorImpl<Operation *> &loads) {
    for (OpOperand &use : descriptor.getUses()) {
      Operation *op = use.getOwner();
      StringRef name = op->getName().getStringRef();
      if ((name != "ttng.async_tma_copy_global_to_local" &&
           name != "tt.descriptor_load") ||
          use.getOperandNumber() != 0 || op->getNumOperands() < 2 ||
          !op->getOperand(1).getType().isInteger(32))
        return false;
      loads.push_back(op);
    }
    return true;
  }

  static void rewrite(Block &body, Value gathered, Value input,
                      ArrayRef<Operation *> loads) {
    OpBuilder builder = OpBuilder::atBlockBegin(&body);
    auto rows =
        InputRowsOp::create(builder, gathered.getLoc(), body.getArgument(0));
    Value zero =
        arith::ConstantIntOp::create(builder, gathered.getLoc(), 0, 32);
    for (Operation *load : loads) {
      builder.setInsertionPoint(load);
      Location loc = load->getLoc();
      Value row = load->getOperand(1);
      Value behind = arith::CmpIOp::create(
          builder, loc, arith::CmpIPredicate::sge, row, rows.getBegin());
      Value before = arith::CmpIOp::create(
          builder, loc, arith::CmpIPredicate::slt, row, rows.getEnd());
      Value own = arith::AndIOp::create(builder, loc, behind, before);
      Value from = arith::SelectOp::create(builder, loc, own, input, gathered);
      Value skipped =
          arith::SelectOp::create(builder, loc, own, rows.getBegin(), zero);
      load->setOperand(0, from);
      load->setOperand(1, arith::SubIOp::create(builder, loc, row, skipped));
    }
  }
};

} // namespace
} // namespace syncopate
