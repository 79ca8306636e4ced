//===- InferTileFootprints.cpp - which region a tile accesses -------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/Passes.h"
#include "lowering/TileLoop.h"
#include "lowering/TritonModule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_INFERTILEFOOTPRINTSPASS
#include "lowering/Passes.h.inc"

using namespace chunk;

namespace {

/// What is known of one offset: the sum of the tile coordinates, each times a
/// factor, and a constant; or that it runs with a loop inside the tile; or
/// neither.
struct Offset {
  enum Kind { Affine, Running, Unknown } kind;
  /// For Affine, the factors, and behind them the constant.
  SmallVector<int64_t, 4> terms;
  /// For Unknown, the value that was not understood.
  Value culprit;

  bool isConstant() const {
    return kind == Affine &&
           llvm::all_of(ArrayRef(terms).drop_back(),
                        [](int64_t factor) { return factor == 0; });
  }
  AffineExpr toExpr(MLIRContext *context) const {
    AffineExpr expr = getAffineConstantExpr(terms.back(), context);
    for (size_t i = terms.size() - 1; i-- > 0;)
      expr = getAffineDimExpr(i, context) * terms[i] + expr;
    return expr;
  }
};

class OffsetEvaluator {
public:
  explicit OffsetEvaluator(unsigned coordinates) : coordinates(coordinates) {}

  /// Each value is looked at once, however often it is used.
  Offset evaluate(Value value, unsigned depth = 0) {
    constexpr unsigned maxDepth = 256;
    if (auto it = known.find(value); it != known.end())
      return it->second;
    Offset offset =
        depth > maxDepth ? unknown(value) : evaluateNew(value, depth);
    known[value] = offset;
    return offset;
  }

private:
  Offset unknown(Value value) { return {Offset::Unknown, {}, value}; }
  Offset affine() {
    return {Offset::Affine, SmallVector<int64_t, 4>(coordinates + 1, 0), {}};
  }

  /// True if the value runs with a loop inside the tile. The loop over tiles is
  /// no such loop: it holds the marker.
  static bool isLoopCarried(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument)
      return false;
    Operation *loop = argument.getOwner()->getParentOp();
    return isa<scf::ForOp>(loop) && findMarkers(loop, kTileMarker).empty();
  }

  Offset evaluateNew(Value value, unsigned depth) {
    APInt constant;
    if (matchPattern(value, m_ConstantInt(&constant))) {
      if (!constant.isSignedIntN(64))
        return unknown(value);
      Offset offset = affine();
      offset.terms.back() = constant.getSExtValue();
      return offset;
    }
    if (isLoopCarried(value))
      return {Offset::Running, {}, {}};
    Operation *op = value.getDefiningOp();
    if (!op)
      return unknown(value);
    if (isMarker(op, kTileMarker)) {
      // The marker's last result is the ordinal of the tile, no coordinate.
      unsigned number = cast<OpResult>(value).getResultNumber();
      if (number >= coordinates)
        return unknown(value);
      Offset offset = affine();
      offset.terms[number] = 1;
      return offset;
    }
    if (isa<arith::ExtSIOp, arith::IndexCastOp>(op))
      return evaluate(op->getOperand(0), depth + 1);
    if (isa<arith::TruncIOp>(op)) {
      Offset offset = evaluate(op->getOperand(0), depth + 1);
      // A coordinate fits into any width that a kernel keeps it in.
      if (offset.kind == Offset::Affine &&
          llvm::any_of(offset.terms, [&](int64_t term) {
            return !llvm::isIntN(value.getType().getIntOrFloatBitWidth(), term);
          }))
        return unknown(value);
      return offset;
    }
    if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op))
      return unknown(value);
    return combine(op, evaluate(op->getOperand(0), depth + 1),
                   evaluate(op->getOperand(1), depth + 1));
  }

  Offset combine(Operation *op, Offset lhs, Offset rhs) {
    if (lhs.kind == Offset::Unknown)
      return lhs;
    if (rhs.kind == Offset::Unknown)
      return rhs;
    if (lhs.kind == Offset::Running || rhs.kind == Offset::Running)
      return {Offset::Running, {}, {}};
    if (isa<arith::MulIOp>(op)) {
      if (lhs.isConstant())
        std::swap(lhs, rhs);
      if (!rhs.isConstant())
        return unknown(op->getResult(0));
    }
    bool overflow = false;
    for (auto [a, b] : llvm::zip(lhs.terms, rhs.terms)) {
      if (isa<arith::AddIOp>(op))
        overflow |= llvm::AddOverflow(a, b, a) != 0;
      else if (isa<arith::SubIOp>(op))
        overflow |= llvm::SubOverflow(a, b, a) != 0;
      else
        overflow |= llvm::MulOverflow(a, rhs.terms.back(), a) != 0;
    }
    return overflow ? unknown(op->getResult(0)) : lhs;
  }

  unsigned coordinates;
  llvm::DenseMap<Value, Offset> known;
};

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
    if (failed(forEachKernel(getOperation(),
                             [&](KernelOp kernel) { return infer(kernel); })))
      signalPassFailure();
  }

private:
  LogicalResult infer(KernelOp kernel) {
    SmallVector<StringAttr> open;
    for (Attribute name : kernel.getArgNames())
      if (llvm::none_of(kernel.getFootprints(), [&](FootprintOp footprint) {
            return footprint.getArgAttr() == name;
          }))
        open.push_back(cast<StringAttr>(name));
    ModuleOp ttir = findModule(getOperation(), kTTIRModule);
    Operation *function =
        ttir ? findFunction(ttir, kernel.getKernel()) : nullptr;
    if (!function) {
      if (open.empty())
        return success();
      return kernel.emitOpError()
             << "has no footprint of argument " << open.front()
             << ": write a chunk.footprint in its body, or give its function "
                "in "
                "a module @"
             << kTTIRModule;
    }
    if (failed(verifyTileLoop(kernel, function)))
      return failure();
    for (StringAttr name : open)
      if (failed(inferArgument(kernel, function, name)))
        return failure();
    for (Attribute attr : kernel.getArgNames()) {
      auto name = cast<StringAttr>(attr);
      Value argument = findArgument(function, name.getValue());
      if (argument && failed(verifyLoads(kernel, function, name, argument)))
        return failure();
    }
    return verifyCoordinatesUsed(kernel, function);
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
    OffsetEvaluator offsets(kernel.getTiles().size());
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
      if (!access->block.hasStaticShape())
        return explain("its block has a dynamic dimension",
                       use.getOwner()->getLoc());
      SmallVector<AffineExpr> exprs;
      SmallVector<int64_t> sizes;
      for (auto [dim, value] : llvm::enumerate(access->offsets)) {
        Offset offset = offsets.evaluate(value);
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
                              : offset.toExpr(kernel.getContext()));
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
