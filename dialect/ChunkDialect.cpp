//===- ChunkDialect.cpp - registration of the chunk dialect ---------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/Chunk.h"

using namespace mlir;
using namespace syncopate::chunk;

#include "dialect/ChunkDialect.cpp.inc"

void ChunkDialect::initialize() {
  registerTypes();
  registerAttrs();
  addOperations<
#define GET_OP_LIST
#include "dialect/ChunkOps.cpp.inc"
      >();
}
