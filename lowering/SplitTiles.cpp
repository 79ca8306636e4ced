//===- SplitTiles.cpp - tiles that several CTAs compute -------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/SplitTiles.h"
#include "lowering/TritonModule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

static Operation *getFunction(Operation *op) {
  while (op && !isNamed(op, "tt.func"))
    op = op->getParentOp();
  return op;
}

bool syncopate::marksPart(KernelOp kernel, Operation *marker) {
  if (marker->getNumResults() != kernel.getTiles().size() + 2)
    return false;
  if (kernel.getParts() > 1)
    return true;
  Operation *function = getFunction(marker);
  return function && !findMarkers(function, kLastPartMarker).empty();
}

bool syncopate::canSplit(KernelOp kernel, Operation *op) {
  Operation *function = getFunction(op);
  return kernel.getParts() > 1 ||
         (function &&
          llvm::any_of(findMarkers(function, kTileMarker),
                       [&](Operation *m) { return marksPart(kernel, m); }));
}

bool syncopate::isLastPart(scf::IfOp branch) {
  auto differs = branch.getCondition().getDefiningOp<arith::CmpIOp>();
  if (!differs || differs.getPredicate() != arith::CmpIPredicate::ne ||
      !matchPattern(differs.getRhs(), m_Zero()))
    return false;
  Operation *op = differs.getLhs().getDefiningOp();
  return op && isMarker(op, kLastPartMarker);
}

scf::IfOp syncopate::getLastPart(Operation *op) {
  for (Operation *parent = op->getParentOp(); parent;
       op = parent, parent = parent->getParentOp())
    if (auto branch = dyn_cast<scf::IfOp>(parent))
      if (isLastPart(branch) &&
          op->getParentRegion() == &branch.getThenRegion())
        return branch;
  return {};
}
