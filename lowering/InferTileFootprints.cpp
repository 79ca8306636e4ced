//===- InferTileFootprints.cpp - which region a tile accesses -------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/Passes.h"
#include "lowering/TritonModule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_INFERTILEFOOTPRINTSPASS
#include "lowering/Passes.h.inc"

using namespace chunk;

namespace {

/// What is known of one offset: affine in the tile coordinates, or running
/// with a loop inside the tile, or neither.
struct Offset {
  enum Kind { Affine, Running, Unknown } kind;
  AffineExpr expr;
  /// For Unknown, the value that was not understood.
  Value culprit;

  static Offset affine(AffineExpr expr) { return {Affine, expr, {}}; }
  static Offset running() { return {Running, {}, {}}; }
  static Offset unknown(Value value) { return {Unknown, {}, value}; }
};

/// True if the value runs with a loop inside the tile. The loop over tiles is
/// no such loop: it holds the marker.
bool isLoopCarried(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return false;
  Operation *loop = argument.getOwner()->getParentOp();
  return isa<scf::ForOp>(loop) && findMarkers(loop, kTileMarker).empty();
}

Offset evaluate(Value value) {
  MLIRContext *context = value.getContext();
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return Offset::affine(
        getAffineConstantExpr(constant.getSExtValue(), context));
  if (isLoopCarried(value))
    return Offset::running();
  Operation *op = value.getDefiningOp();
  if (!op)
    return Offset::unknown(value);
  if (isMarker(op, kTileMarker)) {
    // The marker's last result is the ordinal of the tile, no coordinate.
    unsigned number = cast<OpResult>(value).getResultNumber();
    if (number + 1 == op->getNumResults())
      return Offset::unknown(value);
    return Offset::affine(getAffineDimExpr(number, context));
  }
  if (isa<arith::ExtSIOp, arith::TruncIOp, arith::IndexCastOp>(op))
    return evaluate(op->getOperand(0));
  if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op))
    return Offset::unknown(value);
  Offset lhs = evaluate(op->getOperand(0));
  Offset rhs = evaluate(op->getOperand(1));
  if (lhs.kind == Offset::Unknown)
    return lhs;
  if (rhs.kind == Offset::Unknown)
    return rhs;
  if (lhs.kind == Offset::Running || rhs.kind == Offset::Running)
    return Offset::running();
  if (isa<arith::AddIOp>(op))
    return Offset::affine(lhs.expr + rhs.expr);
  if (isa<arith::SubIOp>(op))
    return Offset::affine(lhs.expr - rhs.expr);
  AffineExpr product = lhs.expr * rhs.expr;
  return product.isPureAffine() ? Offset::affine(product)
                                : Offset::unknown(value);
}

/// A use of a descriptor argument that accesses a block of it.
struct BlockAccess {
  Access access;
  SmallVector<Value> offsets;
  RankedTensorType block;
};

std::optional<BlockAccess> matchBlockAccess(OpOperand &use) {
  Operation *op = use.getOwner();
  StringRef name = op->getName().getStringRef();
  if (use.getOperandNumber() != 0)
    return std::nullopt;
  if (name == "tt.descriptor_load" && op->getNumResults() == 1)
    if (auto block = dyn_cast<RankedTensorType>(op->getResult(0).getType()))
      return BlockAccess{Access::Read,
                         llvm::to_vector(op->getOperands().drop_front(1)),
                         block};
  if (name == "tt.descriptor_store" && op->getNumOperands() > 2)
    if (auto block = dyn_cast<RankedTensorType>(op->getOperand(1).getType()))
      return BlockAccess{Access::Write,
                         llvm::to_vector(op->getOperands().drop_front(2)),
                         block};
  return std::nullopt;
}

struct InferTileFootprints
    : impl::InferTileFootprintsPassBase<InferTileFootprints> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<KernelOp> kernels;
    getOperation()->walk([&](KernelOp kernel) { kernels.push_back(kernel); });
    for (KernelOp kernel : kernels)
      if (failed(infer(kernel)))
        return signalPassFailure();
  }

private:
  LogicalResult infer(KernelOp kernel) {
    SmallVector<StringAttr> open;
    for (Attribute name : kernel.getArgNames())
      if (llvm::none_of(kernel.getFootprints(), [&](FootprintOp footprint) {
            return footprint.getArgAttr() == name;
          }))
        open.push_back(cast<StringAttr>(name));
    if (open.empty())
      return success();
    ModuleOp ttir = findModule(getOperation(), kTTIRModule);
    Operation *function =
        ttir ? findFunction(ttir, kernel.getKernel()) : nullptr;
    if (!function)
      return kernel.emitOpError()
             << "expects a function of this name in a module @" << kTTIRModule
             << " to infer the footprint of " << open.front() << " from";
    SmallVector<Operation *> markers = findMarkers(function, kTileMarker);
    if (markers.empty())
      return kernel.emitOpError() << "expects a tile marker in the kernel";
    for (Operation *marker : markers)
      if (marker->getNumResults() != kernel.getTiles().size() + 1) {
        auto diag = kernel.emitOpError()
                    << "expects markers of " << kernel.getTiles().size()
                    << " coordinates, as its grid has, but got "
                    << marker->getNumResults() - 1;
        diag.attachNote(marker->getLoc()) << "the marker";
        return diag;
      }
    for (StringAttr name : open)
      if (failed(inferArgument(kernel, function, name)))
        return failure();
    return success();
  }

  static LogicalResult inferArgument(KernelOp kernel, Operation *function,
                                     StringAttr name) {
    Value argument = findArgument(function, name.getValue());
    if (!argument) {
      auto diag = kernel.emitOpError()
                  << "binds argument " << name << ", which the kernel lacks";
      diag.attachNote(function->getLoc()) << "the kernel";
      return diag;
    }
    if (argument.use_empty())
      return kernel.emitOpError()
             << "binds argument " << name << ", which the kernel never uses";
    OpBuilder builder = OpBuilder::atBlockEnd(&kernel.getBody().front());
    BufferType type = kernel.getBoundBuffer(name.getValue()).getType();
    SmallVector<std::tuple<Access, AffineMap, SmallVector<int64_t>>> known;
    // Uses are kept with the latest first.
    SmallVector<OpOperand *> uses = llvm::to_vector(llvm::map_range(
        argument.getUses(), [](OpOperand &use) { return &use; }));
    for (OpOperand *operand : llvm::reverse(uses)) {
      OpOperand &use = *operand;
      auto explain = [&](Twine reason, Location where) {
        InFlightDiagnostic diag = kernel.emitOpError()
                                  << "cannot infer which part of " << name
                                  << " a tile accesses: " << reason
                                  << "; write a chunk.footprint of " << name
                                  << " in the kernel's body";
        diag.attachNote(where) << "here";
        return diag;
      };
      std::optional<BlockAccess> access = matchBlockAccess(use);
      if (!access)
        return explain("its use by " +
                           use.getOwner()->getName().getStringRef() +
                           " is no descriptor load or store",
                       use.getOwner()->getLoc());
      if (access->offsets.size() != type.getRank() ||
          access->block.getRank() != static_cast<int64_t>(type.getRank()))
        return explain("it has " + Twine(access->offsets.size()) +
                           " dimensions, but the buffer has " +
                           Twine(type.getRank()),
                       use.getOwner()->getLoc());
      SmallVector<AffineExpr> exprs;
      SmallVector<int64_t> sizes;
      for (auto [dim, value] : llvm::enumerate(access->offsets)) {
        Offset offset = evaluate(value);
        if (offset.kind == Offset::Unknown)
          return explain("the offset of dimension " + Twine(dim) +
                             " is not affine in the tile coordinates",
                         offset.culprit.getLoc());
        bool whole = offset.kind == Offset::Running;
        if (whole && ShapedType::isDynamic(type.getShape()[dim]))
          return explain("it reads all of dimension " + Twine(dim) +
                             ", which is dynamic",
                         use.getOwner()->getLoc());
        exprs.push_back(whole ? getAffineConstantExpr(0, kernel.getContext())
                              : offset.expr);
        sizes.push_back(whole ? type.getShape()[dim]
                              : access->block.getDimSize(dim));
      }
      AffineMap map = AffineMap::get(kernel.getTiles().size(), 0, exprs,
                                     kernel.getContext());
      if (llvm::is_contained(known,
                             std::make_tuple(access->access, map, sizes)))
        continue;
      known.emplace_back(access->access, map, sizes);
      FootprintOp::create(builder, kernel.getLoc(), access->access, name, map,
                          sizes);
    }
    return success();
  }
};

} // namespace
} // namespace syncopate
