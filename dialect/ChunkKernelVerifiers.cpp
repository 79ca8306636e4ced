//===- ChunkKernelVerifiers.cpp - constraints of kernels and schedules ----===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each check carries the label that the constraint has in ODS.
//
//===----------------------------------------------------------------------===//

#include "dialect/ChunkVerifiers.h"

#include "mlir/IR/AffineMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace syncopate::chunk;

LogicalResult KernelOp::verify() {
  if (getTiles().empty() || getTiles().size() > 3) // kernel_c1
    return emitOpError() << "expects a grid of 1 to 3 dimensions, but got "
                         << getTiles().size();
  int64_t tiles = 1;
  for (int64_t size : getTiles()) {
    if (size <= 0)
      return emitOpError() << "expects grid sizes to be positive, but got "
                           << size;
    // Dividing keeps a huge size from wrapping around.
    if (size > (kMaxTiles - 1) / tiles)
      return emitOpError() << "expects fewer than " << kMaxTiles << " tiles";
    tiles *= size;
  }
  auto ctas = static_cast<int64_t>(getCtas());
  if (ctas < 1 || ctas >= kMaxCtas) // kernel_c2
    return emitOpError() << "expects ctas to be in [1, 2^20), but got " << ctas;
  auto commCtas = static_cast<int64_t>(getCommCtas());
  if (commCtas < 0 || commCtas >= kMaxCtas - ctas)
    return emitOpError() << "expects comm_ctas to be in [0, 2^20 - ctas), but "
                            "got "
                         << commCtas;
  auto parts = static_cast<int64_t>(getParts()); // kernel_c8
  if (parts < 1)
    return emitOpError() << "expects parts to be positive, but got " << parts;
  if (parts > 1) {
    if (getTiles().size() > 2)
      return emitOpError()
             << "expects a grid of one or two dimensions if tiles "
                "are computed in parts, but got "
             << getTiles().size();
    if (int64_t last = tiles % ctas; last > ctas / parts)
      return emitOpError() << "expects a CTA for each part of the last round, "
                              "but got "
                           << ctas << " CTAs for " << last << " tiles in "
                           << parts << " parts each";
    if (getNeeds())
      return emitOpError("expects whole tiles if what they need is read at run "
                         "time");
  }
  if (getArgNames().size() != getBuffers().size()) // kernel_c3
    return emitOpError() << "expects as many argument names as buffers, but "
                            "got "
                         << getArgNames().size() << " and "
                         << getBuffers().size();
  if (failed(verifyName(*this, getKernelAttr().getAttr())))
    return failure();
  llvm::SmallDenseSet<Attribute> seen;
  for (Attribute name : getArgNames()) {
    if (failed(verifyName(*this, cast<StringAttr>(name))))
      return failure();
    if (!seen.insert(name).second)
      return emitOpError() << "expects unique argument names, but got " << name
                           << " twice";
  }
  if (DictionaryAttr integers = getIntegersAttr())
    for (NamedAttribute entry : integers)
      if (auto value = dyn_cast<IntegerAttr>(entry.getValue());
          !value || !value.getType().isInteger(64)) // kernel_c5
        return emitOpError() << "expects the value of integer argument "
                             << entry.getName() << " to be one of 64 bits, "
                             << "but got " << entry.getValue();
  if (!getNeeds() && !getNeedsAt())
    return success();
  if (!getNeeds() || !getNeedsAt()) // kernel_c6
    return emitOpError("expects what tiles need to be read as %buffer[index]");
  BufferType needs = getNeeds().getType();
  auto first = static_cast<int64_t>(*getNeedsAt());
  if (failed(verifyWord(*this, "what tiles need", needs, first)))
    return failure();
  if (getTiles().front() > needs.getShape()[0] - first)
    return emitOpError() << "expects " << getTiles().front()
                         << " entries of what tiles need behind index " << first
                         << ", one for each first coordinate, but " << needs
                         << " has " << needs.getShape()[0] - first;
  auto plan = cast<PlanOp>((*this)->getParentOp()); // kernel_c7
  if (auto produced = plan.getBody().getOps<ProduceOp>(); !produced.empty()) {
    auto diag = emitOpError("expects to compute no chunk for others if what "
                            "tiles need is read at run time");
    diag.attachNote((*produced.begin()).getLoc()) << "the chunk";
    return diag;
  }
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  std::map<int64_t, StepsOp> steps;
  constexpr int64_t all = -1;
  for (Operation &op : getBody().getOps()) {
    if (auto said = dyn_cast<StepsOp>(op)) {
      auto [it, isNew] =
          steps.try_emplace(said.getRank() ? *said.getRank() : all, said);
      if (isNew)
        continue;
      auto diag = op.emitOpError("expects the steps of a rank to be said once");
      diag.attachNote(it->second.getLoc()) << "they are said here";
      return diag;
    }
    if (!isa<FootprintOp>(op)) // kernel_c4
      return op.emitOpError(
          "expects footprints and steps in the body of a kernel");
  }
  if (steps.empty())
    return success();
  if (!steps.count(all) || steps.size() > 1) {
    int64_t ranks = cast<PlanOp>((*this)->getParentOp()).getNumRanks();
    if (steps.count(all) || static_cast<int64_t>(steps.size()) < ranks)
      return steps.begin()->second.emitOpError()
             << "expects the steps of all ranks at once, or of each of the "
             << ranks << " ranks";
  }
  if (getNeeds() || getParts() > 1) // kernel_c9
    return emitOpError() << "expects tiles that walk steps to be whole, and "
                            "what they need to be known before the kernel runs";
  return success();
}

LogicalResult StepsOp::verify() {
  auto kernel = cast<KernelOp>((*this)->getParentOp());
  for (AffineMapAttr attr : {getBeginAttr(), getEndAttr()}) { // steps_c1
    AffineMap map = attr.getValue();
    if (map.getNumDims() != kernel.getTiles().size() || map.getNumSymbols() ||
        map.getNumResults() == 0)
      return emitOpError() << "expects a map from " << kernel.getTiles().size()
                           << " tile coordinates to at least one step, but "
                              "got "
                           << attr;
    if (!isAffine(map))
      return emitOpError() << "expects an affine map whose divisors are "
                              "positive and whose constants are above -2^63, "
                              "but got "
                           << attr;
  }
  if (getRank()) // steps_c2
    return verifyRank(*this, "stepped", *getRank());
  return success();
}

LogicalResult FootprintOp::verify() {
  auto kernel = cast<KernelOp>((*this)->getParentOp());
  TypedValue<BufferType> buffer = kernel.getBoundBuffer(getArg());
  if (!buffer) { // footprint_c1
    auto diag = emitOpError() << "expects an argument bound by the kernel, "
                                 "but got "
                              << getArgAttr();
    diag.attachNote(kernel.getLoc()) << "kernel binds " << kernel.getArgNames();
    return diag;
  }
  size_t rank = buffer.getType().getRank();
  AffineMap map = getMap();
  size_t dims = kernel.getTiles().size();
  bool takesStep = getAccess() == Access::Read && map.getNumDims() == dims + 1;
  if ((map.getNumDims() != dims && !takesStep) || map.getNumSymbols() ||
      map.getNumResults() != rank) // footprint_c2
    return emitOpError() << "expects a map from " << dims
                         << " tile coordinates to " << rank
                         << " offsets, but got " << getMapAttr();
  if (!isAffine(map))
    return emitOpError() << "expects an affine map whose divisors are "
                            "positive and whose constants are above -2^63, "
                            "but got "
                         << getMapAttr();
  if (getSizes().size() != rank) // footprint_c3
    return emitOpError() << "expects " << rank << " sizes, but got "
                         << getSizes().size();
  for (int64_t size : getSizes())
    if (size <= 0 || size >= BufferType::kMaxBytes)
      return emitOpError() << "expects sizes to be in [1, 2^48), but got "
                           << size;
  return success();
}

LogicalResult ScheduleOp::verify() {
  return verifyRank(*this, "scheduled", getRank()); // schedule_c1
}
