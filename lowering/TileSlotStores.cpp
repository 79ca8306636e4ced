//===- TileSlotStores.cpp - stores of tiles to their slots ----------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/TileSlotStores.h"
#include "lowering/TritonModule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

namespace {

/// Makes code of affine expressions of a tile's coordinates. None of these is
/// negative, so that divisions round alike in either direction.
class CoordinateCode {
public:
  CoordinateCode(OpBuilder &builder, Location loc, KernelOp kernel, Value tile)
      : builder(builder), loc(loc) {
    ArrayRef<int64_t> grid = kernel.getTiles();
    coordinates.resize(grid.size());
    for (size_t i = grid.size(); i-- > 0;) {
      coordinates[i] =
          i == 0 ? tile
                 : arith::RemSIOp::create(builder, loc, tile, constant(grid[i]))
                       .getResult();
      tile = arith::DivSIOp::create(builder, loc, tile, constant(grid[i]));
    }
  }

  Value constant(int64_t value) {
    return arith::ConstantIntOp::create(builder, loc, value, 32);
  }

  Value create(AffineExpr expr) {
    if (auto number = dyn_cast<AffineConstantExpr>(expr))
      return constant(number.getValue());
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      return coordinates[dim.getPosition()];
    auto binary = cast<AffineBinaryOpExpr>(expr);
    Value lhs = create(binary.getLHS()), rhs = create(binary.getRHS());
    switch (expr.getKind()) {
    case AffineExprKind::Add:
      return arith::AddIOp::create(builder, loc, lhs, rhs);
    case AffineExprKind::Mul:
      return arith::MulIOp::create(builder, loc, lhs, rhs);
    case AffineExprKind::FloorDiv:
      return arith::DivSIOp::create(builder, loc, lhs, rhs);
    case AffineExprKind::CeilDiv:
      return arith::CeilDivSIOp::create(builder, loc, lhs, rhs);
    case AffineExprKind::Mod:
      return arith::RemSIOp::create(builder, loc, lhs, rhs);
    default:
      llvm_unreachable("an expression that no map of a footprint has");
    }
  }

private:
  OpBuilder &builder;
  Location loc;
  SmallVector<Value> coordinates;
};

} // namespace

LogicalResult syncopate::storeToSlot(KernelOp kernel, const TileSlots &slots,
                                     Operation *store, Value context,
                                     Value tile) {
  if (!isNamed(store, kBulkStore)) {
    InFlightDiagnostic diag = kernel.emitOpError(
        "expects tiles to be stored by a descriptor of two dimensions where a "
        "collective is library calls: only that can be stored elsewhere");
    diag.attachNote(store->getLoc()) << "the store";
    return diag;
  }
  OpBuilder builder(store);
  Location loc = store->getLoc();
  CoordinateCode code(builder, loc, kernel, tile);
  auto slot = TileSlotOp::create(builder, loc, context, tile);
  // Offsets within the slot; those of a store stand behind the descriptor.
  SmallVector<Value> inside;
  for (unsigned dim = 0; dim < 2; ++dim)
    inside.push_back(
        dim > 0 && slots.areRows()
            ? store->getOperand(1 + dim)
            : arith::SubIOp::create(builder, loc, store->getOperand(1 + dim),
                                    code.create(slots.getOrigin()[dim])));
  Value begin = arith::MulIOp::create(builder, loc, slot.getSlot(),
                                      code.constant(slots.getRows()));
  store->setOperand(1, arith::AddIOp::create(builder, loc, inside[0], begin));
  store->setOperand(2, inside[1]);
  if (!slots.storesRows())
    return success();
  Value isWhole = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        slot.getRows(), code.constant(kNoSlot));
  auto choice = scf::IfOp::create(builder, loc, TypeRange(), isWhole,
                                  /*withElseRegion=*/true);
  OpBuilder other = choice.getElseBodyBuilder();
  StoreRowsOp::create(other, loc, context, slot.getRows(), inside[0], inside[1],
                      store->getOperands().back());
  store->moveBefore(choice.thenBlock(), choice.thenBlock()->begin());
  return success();
}
