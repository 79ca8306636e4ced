//===- Registration.h - what every entry point knows ---------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_TOOLS_REGISTRATION_H
#define SYNCOPATE_TOOLS_REGISTRATION_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace syncopate {

/// Adds the chunk dialect, the opaque stand-ins for Triton's dialects, and the
/// upstream dialects that TritonGPU modules use.
void registerDialects(mlir::DialectRegistry &registry);

/// Registers MLIR's general transformations, the passes of the project and its
/// pipelines with the global pass registry. Later calls do nothing.
void registerPasses();

} // namespace syncopate

#endif // SYNCOPATE_TOOLS_REGISTRATION_H
