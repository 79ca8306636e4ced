//===- Registration.cpp - what every entry point knows -------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// syncopate-opt, syncopate-lsp-server and the Python bindings accept the same
// modules and the same pipelines because all of them call the functions below.

#include "tools/Registration.h"

#include "dialect/Chunk.h"
#include "lowering/Passes.h"
#include "lowering/TritonDialects.h"
#include "passes/Passes.h"

#include "mlir-c/Dialect/Arith.h"
#include "mlir-c/Dialect/ControlFlow.h"
#include "mlir-c/Dialect/Func.h"
#include "mlir-c/Dialect/GPU.h"
#include "mlir-c/Dialect/LLVM.h"
#include "mlir-c/Dialect/Math.h"
#include "mlir-c/Dialect/NVVM.h"
#include "mlir-c/Dialect/SCF.h"
#include "mlir-c/Dialect/UB.h"
#include "mlir/CAPI/IR.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Transforms/Passes.h"

void syncopate::registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<chunk::ChunkDialect>();
  registerTritonDialects(registry);
  for (MlirDialectHandle handle :
       {mlirGetDialectHandle__arith__(), mlirGetDialectHandle__cf__(),
        mlirGetDialectHandle__func__(), mlirGetDialectHandle__gpu__(),
        mlirGetDialectHandle__llvm__(), mlirGetDialectHandle__math__(),
        mlirGetDialectHandle__nvvm__(), mlirGetDialectHandle__scf__(),
        mlirGetDialectHandle__ub__()})
    mlirDialectHandleInsertDialect(handle, wrap(&registry));
}

void syncopate::registerPasses() {
  static const bool registered = [] {
    mlir::registerTransformsPasses();
    registerSyncopateChunkPasses();
    registerSyncopateLoweringPasses();
    registerSyncopatePipelines();
    return true;
  }();
  (void)registered;
}
