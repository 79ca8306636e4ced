//===- TritonDialects.h - opaque stand-ins for Triton's dialects -*- C++ -*-==//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_TRITONDIALECTS_H
#define SYNCOPATE_LOWERING_TRITONDIALECTS_H

#include "mlir/IR/DialectRegistry.h"

namespace syncopate {

/// Registers tt, ttg, ttng, nvws and gluon as dialects whose operations, types
/// and attributes are all accepted and kept as they are written.
void registerTritonDialects(mlir::DialectRegistry &registry);

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_TRITONDIALECTS_H
