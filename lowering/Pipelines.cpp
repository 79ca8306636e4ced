//===- Pipelines.cpp - the named pipelines --------------------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/Passes.h"
#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

using namespace mlir;
using namespace syncopate;
using namespace syncopate::chunk;

namespace {

/// What the pipelines choose where neither a transfer nor the plan's strategy
/// does.
struct PlanPipelineOptions : PassPipelineOptions<PlanPipelineOptions> {
  Option<std::string> algorithm{*this, "algorithm",
                                llvm::cl::desc("algorithm of collectives")};
  Option<int64_t> splits{*this, "splits", llvm::cl::desc("pieces per transfer"),
                         llvm::cl::init(0)};
  Option<std::string> realization{*this, "realization",
                                  llvm::cl::desc("realization of transfers")};
  Option<std::string> order{*this, "order", llvm::cl::desc("order of tiles")};
  Option<int64_t> group{*this, "group",
                        llvm::cl::desc("rows of tiles that stay together"),
                        llvm::cl::init(0)};
  Option<int64_t> pause{
      *this, "pause",
      llvm::cl::desc("nanoseconds between blocks stored to another rank"),
      llvm::cl::init(-1)};
};

void buildPlanPipeline(OpPassManager &manager,
                       const PlanPipelineOptions &options) {
  OpPassManager &transfers = manager.nest<PlanOp>();
  transfers.addPass(createDecomposeCollectivesPass({options.algorithm}));
  transfers.addPass(createSplitTransfersPass({options.splits}));
  transfers.addPass(createCheckPlanPass());
  transfers.addPass(createCheckClaimsPass());
  transfers.addPass(createAssignRealizationPass({options.realization}));
  manager.addPass(createInferTileFootprintsPass());
  OpPassManager &tables = manager.nest<PlanOp>();
  tables.addPass(createCheckKernelPass());
  tables.addPass(createOrderTilesPass({options.order, options.group}));
  tables.addPass(createAllocateSignalsPass());
  tables.addPass(createPlaceWaitsPass());
  tables.addPass(createBuildTablesPass({options.pause}));
  tables.addPass(createCheckTablesPass());
}

void buildKernelPipeline(OpPassManager &manager) {
  manager.addPass(createLocalizeInputsPass());
  manager.addPass(createSpliceKernelPass());
  manager.addPass(createConvertChunkToTritonGPUPass());
}

} // namespace

void syncopate::registerSyncopatePipelines() {
  PassPipelineRegistration<PlanPipelineOptions>(
      "syncopate-plan-pipeline", "Make the schedule tables of a plan",
      buildPlanPipeline);
  PassPipelineRegistration<>(
      "syncopate-kernel-pipeline",
      "Make the fused kernel of a plan whose transfers have realizations",
      buildKernelPipeline);
  PassPipelineRegistration<PlanPipelineOptions>(
      "syncopate-pipeline",
      "Make the schedule tables and the fused kernel of a plan",
      [](OpPassManager &manager, const PlanPipelineOptions &options) {
        buildPlanPipeline(manager, options);
        buildKernelPipeline(manager);
      });
}
