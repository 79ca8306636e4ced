//===- ChunkOps.td - operations of the chunk dialect ----------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_DIALECT_CHUNKOPS_TD
#define SYNCOPATE_DIALECT_CHUNKOPS_TD

include "dialect/ChunkCollectiveOps.td"
include "dialect/ChunkDeviceOps.td"
include "dialect/ChunkKernelOps.td"
include "dialect/ChunkPlanOps.td"
include "dialect/ChunkSpmdOps.td"
include "dialect/ChunkTransferOps.td"

#endif // SYNCOPATE_DIALECT_CHUNKOPS_TD
