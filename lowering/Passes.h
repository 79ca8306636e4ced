//===- Passes.h - passes over plans and Triton's IR -------------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_PASSES_H
#define SYNCOPATE_LOWERING_PASSES_H

#include "dialect/Chunk.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace syncopate {

#define GEN_PASS_DECL
#include "lowering/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "lowering/Passes.h.inc"

/// Registers `syncopate-plan-pipeline`, which makes the schedule tables,
/// `syncopate-kernel-pipeline`, which makes the fused kernel, and
/// `syncopate-pipeline`, which is the one after the other.
void registerSyncopatePipelines();

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_PASSES_H
