//===- InferTileFootprints.cpp - which region a tile accesses -------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/AccessRegion.h"
#include "lowering/MemoryAccess.h"
#include "lowering/Passes.h"
#include "lowering/SplitTiles.h"
#include "lowering/StepLoop.h"
#include "lowering/TileLoop.h"
#include "lowering/TritonModule.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace syncopate {
#define GEN_PASS_DEF_INFERTILEFOOTPRINTSPASS
#include "lowering/Passes.h.inc"

using namespace chunk;

namespace {

/// What to write for an access that is not understood, in Python and in IR.
std::string describeAnnotation(KernelOp kernel, StringAttr name, Access access,
                               bool atStep) {
  auto join = [](ArrayRef<StringRef> words) { return llvm::join(words, ", "); };
  SmallVector<StringRef> coordinates{"m", "n", "k"};
  coordinates.resize(kernel.getTiles().size());
  if (atStep)
    coordinates.push_back("step");
  std::string tile = join(coordinates);
  size_t rank = kernel.getBoundBuffer(name.getValue()).getType().getRank();
  std::string dims = join(SmallVector<StringRef>(rank, "..."));
  std::string tuple = "(" + dims + (rank == 1 ? ",)" : ")");
  StringRef word = stringifyAccess(access);
  std::string quoted = "\"" + name.getValue().str() + "\"";
  return "write footprints=[Footprint(" + quoted + ", lambda " + tile + ": " +
         tuple + ", " + tuple +
         (access == Access::Write ? ", access=\"write\"" : "") +
         ")], or in its body: chunk.footprint " + word.str() + " " + quoted +
         " at affine_map<(" + tile + ") -> (" + dims + ")> sizes [" + dims +
         "]";
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
  static bool isGiven(KernelOp kernel, StringAttr name,
                      std::optional<Access> access = {}) {
    return llvm::any_of(kernel.getFootprints(), [&](FootprintOp footprint) {
      return footprint.getArgAttr() == name &&
             (!access || footprint.getAccess() == *access);
    });
  }

  static bool isInSteps(Operation *op) {
    for (Operation *parent = op->getParentOp(); parent;
         parent = parent->getParentOp())
      if (auto loop = dyn_cast<scf::ForOp>(parent); loop && walksSteps(loop))
        return true;
    return false;
  }

  LogicalResult infer(KernelOp kernel) {
    ModuleOp ttir = findModule(getOperation(), kTTIRModule);
    Operation *function =
        ttir ? findFunction(ttir, kernel.getKernel()) : nullptr;
    if (!function) {
      for (Attribute name : kernel.getArgNames())
        if (!isGiven(kernel, cast<StringAttr>(name)))
          return kernel.emitOpError()
                 << "has no footprint of argument " << name
                 << ": write a chunk.footprint in its body, or give its "
                    "function in a module @"
                 << kTTIRModule;
      return success();
    }
    if (failed(verifyTileLoop(kernel, function)) ||
        failed(verifyStepLoops(kernel, function)))
      return failure();
    // What is inferred of one argument says nothing of another, and all are
    // looked at before the first footprint is added.
    SmallVector<std::tuple<StringAttr, Access, Region>> found;
    KernelValues values(kernel);
    if (failed(inferSteps(kernel, function, values)))
      return failure();
    for (Attribute attr : kernel.getArgNames())
      if (failed(inferArgument(kernel, function, cast<StringAttr>(attr), values,
                               found)))
        return failure();
    if (failed(verifyCoordinatesUsed(kernel, function)) ||
        failed(verifyAddresses(kernel, function)))
      return failure();
    OpBuilder builder = OpBuilder::atBlockEnd(&kernel.getBody().front());
    for (auto &[name, access, region] : found)
      FootprintOp::create(builder, kernel.getLoc(), access, name,
                          region.offsets, region.sizes);
    return success();
  }

  static LogicalResult inferArgument(
      KernelOp kernel, Operation *function, StringAttr name,
      KernelValues &values,
      SmallVectorImpl<std::tuple<StringAttr, Access, Region>> &found) {
    Value argument = findArgument(function, name.getValue());
    if (!argument) {
      if (isGiven(kernel, name))
        return success();
      auto diag = kernel.emitOpError()
                  << "binds argument " << name << ", which the kernel lacks";
      diag.attachNote(function->getLoc()) << "the kernel";
      return diag;
    }
    SmallVector<MemoryAccess> accesses = findAccesses(function, argument);
    if (accesses.empty() && !isGiven(kernel, name))
      return kernel.emitOpError()
             << "binds argument " << name << ", which the kernel never uses";
    if (failed(verifyAccesses(kernel, function, name, accesses)))
      return failure();
    for (Access access : {Access::Read, Access::Write}) {
      if (isGiven(kernel, name, access))
        continue;
      bool isWrite = access == Access::Write;
      AccessRegions regions(kernel, values, argument,
                            kernel.getBoundBuffer(name.getValue()).getType());
      for (const MemoryAccess &item : accesses) {
        if (!(isWrite ? item.writes() : item.reads()))
          continue;
        if (succeeded(regions.add(item.op, isWrite)))
          continue;
        InFlightDiagnostic diag =
            kernel.emitOpError()
            << "cannot infer which part of " << name << " a tile "
            << (isWrite ? "writes" : "reads") << ": " << regions.getReason()
            << "; "
            << describeAnnotation(kernel, name, access,
                                  !isWrite && isInSteps(item.op));
        diag.attachNote(item.op->getLoc())
            << "the access by " << item.op->getName().getStringRef();
        if (Value culprit = regions.getCulprit())
          diag.attachNote(culprit.getLoc()) << "what is not understood";
        return diag;
      }
      if (isWrite &&
          failed(verifyWrittenAlike(kernel, name, values, argument, accesses)))
        return failure();
      for (const Region &region : regions.getRegions())
        found.emplace_back(name, access, region);
    }
    return success();
  }

  /// A tile is as complete if one CTA computes it as if several do.
  static LogicalResult verifyWrittenAlike(KernelOp kernel, StringAttr name,
                                          KernelValues &values, Value argument,
                                          ArrayRef<MemoryAccess> accesses) {
    if (kernel.getParts() == 1)
      return success();
    auto collect = [&](bool last) {
      AccessRegions regions(kernel, values, argument,
                            kernel.getBoundBuffer(name.getValue()).getType());
      Operation *any = nullptr;
      for (const MemoryAccess &item : accesses)
        if (item.writes() && !!getLastPart(item.op) == last) {
          // It has been understood before.
          (void)regions.add(item.op, /*isWrite=*/true);
          any = item.op;
        }
      return std::pair(std::move(regions), any);
    };
    auto [whole, ofWhole] = collect(false);
    auto [split, ofSplit] = collect(true);
    bool hasWhole = kernel.getNumWholeTiles() > 0;
    bool hasSplit = kernel.getNumPositions() > kernel.getNumWholeTiles();
    auto covers = [](const AccessRegions &a, const AccessRegions &b) {
      return llvm::all_of(b.getRegions(), [&](const Region &region) {
        return llvm::is_contained(a.getRegions(), region);
      });
    };
    if ((!ofWhole && !ofSplit) || !hasWhole || !hasSplit ||
        (covers(whole, split) && covers(split, whole)))
      return success();
    InFlightDiagnostic diag = kernel.emitOpError();
    diag << "expects tiles that several CTAs compute to write to " << name
         << " what others do";
    diag.attachNote((ofSplit ? ofSplit : ofWhole)->getLoc()) << "the store";
    return diag;
  }
};

} // namespace
} // namespace syncopate
