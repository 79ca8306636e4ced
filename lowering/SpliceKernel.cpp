//===- SpliceKernel.cpp - device operations into the kernel ---------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/Passes.h"
#include "lowering/SplitTiles.h"
#include "lowering/StepLoop.h"
#include "lowering/TileLoop.h"
#include "lowering/TileStores.h"
#include "lowering/TritonModule.h"
#include "passes/Realizations.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_SPLICEKERNELPASS
#include "lowering/Passes.h.inc"

using namespace chunk;

namespace {

struct SpliceKernel : impl::SpliceKernelPassBase<SpliceKernel> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(forEachKernel(getOperation(),
                             [&](KernelOp kernel) { return splice(kernel); })))
      signalPassFailure();
  }

private:
  LogicalResult splice(KernelOp kernel) {
    ModuleOp ttgir = findModule(getOperation(), kTTGIRModule);
    Operation *function =
        ttgir ? findFunction(ttgir, kernel.getKernel()) : nullptr;
    if (!function)
      return kernel.emitOpError()
             << "expects a function of this name in a module @" << kTTGIRModule;
    ModuleOp ttir = findModule(getOperation(), kTTIRModule);
    Operation *before = ttir ? findFunction(ttir, kernel.getKernel()) : nullptr;
    if (failed(verifyNotSpecialized(kernel, before, function)))
      return failure();
    Region &body = function->getRegion(0);
    Value input = findArgument(function, kInputArgument);
    if (!body.hasOneBlock() || !input)
      return kernel.emitOpError()
             << "expects a kernel without a return before its end, whose "
                "arguments are the "
                "context, '"
             << kInputArgument << "', and its own";
    Value context = body.getArgument(0);
    SmallVector<Operation *> markers = findMarkers(function, kTileMarker);
    if (markers.empty())
      return kernel.emitOpError() << "expects a tile marker in the kernel";
    if (failed(replaceSteps(kernel, function, context)))
      return failure();
    for (Operation *marker : markers)
      if (failed(replaceMarker(kernel, marker, context)))
        return failure();
    if (failed(markFinishedTiles(kernel, before, function, context)))
      return failure();
    removeLastPartMarkers(function);
    hideCommCtas(kernel, function);
    wrapBody(kernel, body.front(), context, input);
    return success();
  }

  /// Lets loops over steps walk rows of the table of steps, and wait.
  static LogicalResult replaceSteps(KernelOp kernel, Operation *function,
                                    Value context) {
    for (Operation *marker : findStepsMarkers(function)) {
      Operation *tile = findTileOfSteps(marker);
      if (!tile) {
        InFlightDiagnostic diag = kernel.emitOpError();
        diag
            << "cannot tell which tile has the steps that a loop walks: Triton "
               "has moved them apart; leave flatten=True out of tl.range";
        diag.attachNote(marker->getLoc()) << "the marker";
        return diag;
      }
      OpBuilder builder(marker);
      auto rows = TileStepsOp::create(
          builder, marker->getLoc(), context, tile->getOperands().back(),
          marker->getOperand(0), marker->getOperand(1));
      marker->replaceAllUsesWith(rows->getResults());
      marker->erase();
    }
    for (Operation *marker : findMarkers(function, kStepMarker)) {
      OpBuilder builder(marker);
      Location loc = marker->getLoc();
      auto read =
          ReadStepOp::create(builder, loc, context, marker->getOperand(0));
      WaitOp::create(builder, loc, context, read.getWaitBegin(),
                     read.getWaitEnd());
      marker->getResult(0).replaceAllUsesWith(read.getStep());
      marker->erase();
    }
    return success();
  }

  static LogicalResult replaceMarker(KernelOp kernel, Operation *marker,
                                     Value context) {
    if (failed(verifyMarkerShape(kernel, marker)))
      return failure();
    unsigned coordinates = kernel.getTiles().size();
    bool isPart = marksPart(kernel, marker);
    OpBuilder builder(marker);
    Location loc = marker->getLoc();
    Value position = marker->getOperands().back();
    auto read = ReadTileOp::create(builder, loc, context, position);
    WaitOp::create(builder, loc, context, read.getWaitBegin(),
                   read.getWaitEnd());
    for (unsigned i = 0; i < coordinates; ++i)
      marker->getResult(i).replaceAllUsesWith(read->getResult(i));
    if (isPart)
      marker->getResult(coordinates).replaceAllUsesWith(read.getC2());
    unsigned ordinal = coordinates + isPart;
    marker->getResult(ordinal).replaceAllUsesWith(marker->getOperand(ordinal));
    marker->erase();
    return success();
  }

  static void removeLastPartMarkers(Operation *function) {
    for (Operation *marker : findMarkers(function, kLastPartMarker)) {
      marker->replaceAllUsesWith(marker->getOperands());
      marker->erase();
    }
  }

  /// Lets the kernel's own code see the CTAs that compute only.
  static void hideCommCtas(KernelOp kernel, Operation *function) {
    if (kernel.getCommCtas() == 0)
      return;
    auto isAlongX = [](Operation *op) {
      auto axis = dyn_cast_or_null<IntegerAttr>(getTritonAttribute(op, "axis"));
      return axis && axis.getValue().isZero();
    };
    function->walk([&](Operation *op) {
      StringRef name = op->getName().getStringRef();
      if ((name != kProgramId && name != kNumPrograms) || !isAlongX(op))
        return;
      OpBuilder builder(op->getContext());
      builder.setInsertionPointAfter(op);
      Value all = op->getResult(0);
      Value hidden = arith::ConstantIntOp::create(
          builder, op->getLoc(), all.getType(), kernel.getCommCtas());
      Value seen = arith::SubIOp::create(builder, op->getLoc(), all, hidden);
      all.replaceAllUsesExcept(seen, seen.getDefiningOp());
    });
  }

  /// Moves all but the return into the compute role.
  static void wrapBody(KernelOp kernel, Block &block, Value context,
                       Value input) {
    OpBuilder builder(&block.back());
    MLIRContext *ctx = kernel.getContext();
    std::set<Realization> needed =
        getRoles(cast<PlanOp>(kernel->getParentOp()));
    auto realizations =
        llvm::map_to_vector(needed, [&](Realization realization) -> Attribute {
          return RealizationAttr::get(ctx, realization);
        });
    auto roles =
        RolesOp::create(builder, kernel.getLoc(), context, input,
                        builder.getArrayAttr(realizations), needed.size());
    Block *compute = builder.createBlock(&roles.getCompute());
    compute->getOperations().splice(compute->end(), block.getOperations(),
                                    block.begin(), roles->getIterator());
    for (auto [realization, role] : llvm::zip(needed, roles.getCommunicate())) {
      builder.createBlock(&role);
      RunCommandsOp::create(builder, kernel.getLoc(), context, input,
                            realization);
    }
  }
};

} // namespace
} // namespace syncopate
