//===- Passes.h - passes over plans -----------------------------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PASSES_PASSES_H
#define SYNCOPATE_PASSES_PASSES_H

#include "dialect/Chunk.h"

#include "mlir/Pass/Pass.h"

namespace syncopate {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

} // namespace syncopate

#endif // SYNCOPATE_PASSES_PASSES_H
