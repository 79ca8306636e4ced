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
  Option<std::string> direction{*this, "direction",
                                llvm::cl::desc("direction of collectives")};
  Option<int64_t> splits{*this, "splits", llvm::cl::desc("pieces per transfer"),
                         llvm::cl::init(0)};
  Option<std::string> realization{*this, "realization",
                                  llvm::cl::desc("realization of transfers")};
  Option<std::string> order{*this, "order", llvm::cl::desc("order of tiles")};
  Option<int64_t> groupM{*this, "group_m",
                         llvm::cl::desc("rows of tiles that stay together"),
                         llvm::cl::init(0)};
  Option<int64_t> pause{
      *this, "pause",
      llvm::cl::desc("nanoseconds between blocks stored to another rank"),
      llvm::cl::init(-1)};
  Option<int64_t> commCtas{
      *this, "comm_ctas",
      llvm::cl::desc("CTAs that dedicated realizations have"),
      llvm::cl::init(0)};
  Option<bool> checkTables{
      *this, "check_tables",
      llvm::cl::desc("check the tables that were made against the plan"),
      llvm::cl::init(true)};
};

void buildPlanPipeline(OpPassManager &manager,
                       const PlanPipelineOptions &options) {
  OpPassManager &transfers = manager.nest<PlanOp>();
  transfers.addPass(createExpandSpmdPass());
  transfers.addPass(createDecomposeCollectivesPass(
      {options.algorithm, options.direction, options.realization}));
  transfers.addPass(createSplitTransfersPass({options.splits}));
  transfers.addPass(createCheckPlanPass());
  transfers.addPass(createCheckClaimsPass());
  transfers.addPass(
      createAssignRealizationPass({options.realization, options.commCtas}));
  manager.addPass(createInferTileFootprintsPass());
  OpPassManager &tables = manager.nest<PlanOp>();
  tables.addPass(createCheckKernelPass());
  tables.addPass(createSeparateInputsPass());
  tables.addPass(createOrderTilesPass({options.order, options.groupM}));
  tables.addPass(createOrderTransfersPass());
  tables.addPass(createAssignSlotsPass());
  tables.addPass(createUseTileRingPass());
  tables.addPass(createAllocateSignalsPass());
  tables.addPass(createPlaceWaitsPass());
  tables.addPass(createBuildTablesPass({options.pause}));
  if (options.checkTables)
    tables.addPass(createCheckTablesPass());
}

/// Everything that can be said of a plan without its kernel's code, once more:
/// of one that others have scheduled, or whose tables were changed.
void buildCheckPipeline(OpPassManager &manager) {
  OpPassManager &checks = manager.nest<PlanOp>();
  checks.addPass(createCheckPlanPass());
  checks.addPass(createCheckClaimsPass());
  checks.addPass(createCheckKernelPass());
  checks.addPass(createCheckTablesPass());
}

void buildKernelPipeline(OpPassManager &manager) {
  manager.addPass(createLocalizeInputsPass());
  manager.addPass(createSpliceKernelPass());
  manager.addPass(createConvertChunkToTritonGPUPass());
}

/// Registers a pipeline for modules. MLIR's own registration would end the
/// process where a user nests the pipeline under another operation.
template <typename Options>
void registerPipeline(
    StringRef name, StringRef summary,
    std::function<void(OpPassManager &, const Options &)> build) {
  registerPassPipeline(
      name, summary,
      [=](OpPassManager &manager, StringRef text,
          function_ref<LogicalResult(const Twine &)> emitError)
          -> LogicalResult {
        std::optional<StringRef> anchor = manager.getOpName();
        if (anchor && *anchor != ModuleOp::getOperationName())
          return emitError("expects '" + name + "' to run on '" +
                           ModuleOp::getOperationName() + "', but got '" +
                           *anchor + "'");
        Options options;
        if (failed(options.parseFromString(text)))
          return failure();
        build(manager, options);
        return success();
      },
      [](function_ref<void(const mlir::detail::PassOptions &)> visit) {
        visit(Options());
      });
}

} // namespace

void syncopate::registerSyncopatePipelines() {
  registerPipeline<PlanPipelineOptions>("syncopate-plan-pipeline",
                                        "Make the schedule tables of a plan",
                                        buildPlanPipeline);
  registerPipeline<EmptyPipelineOptions>(
      "syncopate-check-pipeline",
      "Check a plan with its schedule tables, and change nothing",
      [](OpPassManager &manager, const EmptyPipelineOptions &) {
        buildCheckPipeline(manager);
      });
  registerPipeline<EmptyPipelineOptions>(
      "syncopate-kernel-pipeline",
      "Make the fused kernel of a plan whose transfers have realizations",
      [](OpPassManager &manager, const EmptyPipelineOptions &) {
        buildKernelPipeline(manager);
      });
  registerPipeline<PlanPipelineOptions>(
      "syncopate-pipeline",
      "Make the schedule tables and the fused kernel of a plan",
      [](OpPassManager &manager, const PlanPipelineOptions &options) {
        buildPlanPipeline(manager, options);
        buildKernelPipeline(manager);
      });
}
