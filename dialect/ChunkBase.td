//===- ChunkBase.td - the chunk dialect -----------------------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_DIALECT_CHUNKBASE_TD
#define SYNCOPATE_DIALECT_CHUNKBASE_TD

include "mlir/IR/OpBase.td"

def Chunk_Dialect : Dialect {
  let name = "chunk";
  let cppNamespace = "::syncopate::chunk";
  let summary = "Communication plans and the device operations they lower to";
  let description = [{
    The dialect has two halves.

    *Plan operations* describe, for all ranks at once, which chunk of which
    buffer moves between which ranks, and after what. A plan is a
    `chunk.plan`; transfers take and yield `!chunk.token` values, so that a
    dependence between ranks is an SSA edge and a cyclic plan cannot be
    written. A plan says nothing of how a transfer is carried out until a
    realization is assigned to it.

    *Device operations* stand inside a TritonGPU kernel between the passes
    that place them and `convert-chunk-to-triton-gpu`. They read the schedule
    tables, wait for signals, run communication commands and dispatch roles.

    A *chunk* is a rectangular region of a buffer: static offsets and sizes.
    A *buffer* is symmetric: every rank has an instance of the same shape.
  }];
  let extraClassDeclaration = [{
    void registerTypes();
    void registerAttrs();
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

#endif // SYNCOPATE_DIALECT_CHUNKBASE_TD
