//===- TritonModule.h - looking at Triton's IR by name ----------*- C++ -*-===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The names of Triton's operations that the passes know stand here.
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_LOWERING_TRITONMODULE_H
#define SYNCOPATE_LOWERING_TRITONMODULE_H

#include "mlir/IR/BuiltinOps.h"

namespace syncopate {

/// Names of the modules beside a plan.
inline constexpr llvm::StringLiteral kTTIRModule = "ttir";
inline constexpr llvm::StringLiteral kTTGIRModule = "ttgir";
inline constexpr llvm::StringLiteral kDeviceModule = "device";

/// First lines of the inline assembly that marks a place.
inline constexpr llvm::StringLiteral kTileMarker = "// syncopate.tile";
inline constexpr llvm::StringLiteral kStepsMarker = "// syncopate.steps";
inline constexpr llvm::StringLiteral kOrderedStepsMarker =
    "// syncopate.ordered_steps";
inline constexpr llvm::StringLiteral kStepMarker = "// syncopate.step";
inline constexpr llvm::StringLiteral kLastPartMarker = "// syncopate.last_part";
inline constexpr llvm::StringLiteral kYieldMarker = "// syncopate.yield";
inline constexpr llvm::StringLiteral kComputeMarker = "// syncopate.compute";
/// Before the name of a realization.
inline constexpr llvm::StringLiteral kCommunicateMarker =
    "// syncopate.communicate.";

/// Before the name of a piece of code that the outline of a kernel has ready:
/// where it begins, giving what the piece is given; and where it is used.
inline constexpr llvm::StringLiteral kPieceMarker = "// syncopate.piece.";
inline constexpr llvm::StringLiteral kUseMarker = "// syncopate.use.";
inline constexpr llvm::StringLiteral kPieces[] = {"hand_over", "take"};

/// The number of this program, and how many there are.
inline constexpr llvm::StringLiteral kProgramId = "tt.get_program_id";
inline constexpr llvm::StringLiteral kNumPrograms = "tt.get_num_programs";

/// The store of a block of shared memory by TMA: descriptor, offsets, block.
inline constexpr llvm::StringLiteral kBulkStore =
    "ttng.async_tma_copy_local_to_global";

/// The same, added to what is there; the kind of that in its attributes.
inline constexpr llvm::StringLiteral kBulkReduce = "ttng.async_tma_reduce";
inline constexpr llvm::StringLiteral kReduceKind = "kind";
inline constexpr int32_t kReduceAdd = 1;

/// A block of shared memory.
inline constexpr llvm::StringLiteral kLocalAlloc = "ttg.local_alloc";

/// What makes a descriptor in memory, of where to put it, a pointer, and more;
/// and what orders that before its uses.
inline constexpr llvm::StringLiteral kMakeTensorMap = "ttng.tensormap_create";
inline constexpr llvm::StringLiteral kAcquireTensorMap =
    "ttng.tensormap_fenceproxy_acquire";

/// Loads and stores by pointers, and what changes the layout of a tensor.
inline constexpr llvm::StringLiteral kLoad = "tt.load";
inline constexpr llvm::StringLiteral kStore = "tt.store";
inline constexpr llvm::StringLiteral kConvertLayout = "ttg.convert_layout";
inline constexpr llvm::StringLiteral kConvertFloat = "tt.fp_to_fp";
inline constexpr llvm::StringLiteral kRounding = "rounding";
inline constexpr int32_t kRoundToNearest = 1;
/// How many pointers, masks and other values a load takes.
inline constexpr llvm::StringLiteral kSegmentSizes = "operandSegmentSizes";

/// Names of the arguments that a wrapper adds to a kernel: a pointer to the
/// rank's input, and, with the name of a descriptor argument behind it, a
/// descriptor of that input.
inline constexpr llvm::StringLiteral kInputArgument = "sy_input";
inline constexpr llvm::StringLiteral kInputDescriptorPrefix = "sy_input_";

/// The module called `name` directly inside `module`, or null.
mlir::ModuleOp findModule(mlir::ModuleOp module, llvm::StringRef name);

/// True if `op` is not null and has this name.
bool isNamed(mlir::Operation *op, llvm::StringRef name);

/// A property or attribute of one of Triton's operations, or null.
mlir::Attribute getTritonAttribute(mlir::Operation *op, llvm::StringRef name);

/// The tt.func called `name` in `module`, or its only one if `name` is empty,
/// with a body of at least one operation; null if there is none.
mlir::Operation *findFunction(mlir::ModuleOp module, llvm::StringRef name);

/// The first argument of `function` that the source calls `name`, or null.
mlir::Value findArgument(mlir::Operation *function, llvm::StringRef name);

/// True if `op` is inline assembly whose text starts with `marker`.
bool isMarker(mlir::Operation *op, llvm::StringRef marker);

/// All such operations below `root`, in order.
llvm::SmallVector<mlir::Operation *> findMarkers(mlir::Operation *root,
                                                 llvm::StringRef marker);

} // namespace syncopate

#endif // SYNCOPATE_LOWERING_TRITONMODULE_H
