//===- Chunk.h - C API of the chunk dialect ------------------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PYTHON_BINDINGS_CAPI_CHUNK_H
#define SYNCOPATE_PYTHON_BINDINGS_CAPI_CHUNK_H

#include "mlir-c/IR.h"
#include "mlir-c/Support.h"

#ifdef __cplusplus
extern "C" {
#endif

MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Chunk, chunk);

//===----------------------------------------------------------------------===//
// Registration
//===----------------------------------------------------------------------===//

/// Adds every dialect that syncopate-opt knows.
MLIR_CAPI_EXPORTED void syncopateRegisterDialects(MlirDialectRegistry registry);

/// Registers every pass and pipeline that syncopate-opt knows. Later calls do
/// nothing.
MLIR_CAPI_EXPORTED void syncopateRegisterPasses(void);

//===----------------------------------------------------------------------===//
// !chunk.token
//===----------------------------------------------------------------------===//

MLIR_CAPI_EXPORTED bool syncopateTypeIsAChunkToken(MlirType type);
MLIR_CAPI_EXPORTED MlirTypeID syncopateChunkTokenTypeGetTypeID(void);
MLIR_CAPI_EXPORTED MlirType syncopateChunkTokenTypeGet(MlirContext context);

//===----------------------------------------------------------------------===//
// !chunk.buffer
//===----------------------------------------------------------------------===//

MLIR_CAPI_EXPORTED bool syncopateTypeIsAChunkBuffer(MlirType type);
MLIR_CAPI_EXPORTED MlirTypeID syncopateChunkBufferTypeGetTypeID(void);

/// Emits a diagnostic at `location` and returns a null type if the parameters
/// are invalid. Dynamic dimensions are mlirShapedTypeGetDynamicSize().
MLIR_CAPI_EXPORTED MlirType
syncopateChunkBufferTypeGetChecked(MlirLocation location, intptr_t rank,
                                   const int64_t *shape, MlirType elementType);
MLIR_CAPI_EXPORTED intptr_t syncopateChunkBufferTypeGetRank(MlirType type);
MLIR_CAPI_EXPORTED int64_t syncopateChunkBufferTypeGetDimSize(MlirType type,
                                                              intptr_t dim);
MLIR_CAPI_EXPORTED MlirType
syncopateChunkBufferTypeGetElementType(MlirType type);

//===----------------------------------------------------------------------===//
// #chunk.table
//===----------------------------------------------------------------------===//

MLIR_CAPI_EXPORTED bool syncopateAttributeIsAChunkTable(MlirAttribute attr);
MLIR_CAPI_EXPORTED MlirTypeID syncopateChunkTableAttrGetTypeID(void);

/// Emits a diagnostic at `location` and returns a null attribute if the
/// parameters are invalid. `values` are row by row.
MLIR_CAPI_EXPORTED MlirAttribute syncopateChunkTableAttrGetChecked(
    MlirLocation location, intptr_t numColumns, const MlirStringRef *columns,
    intptr_t numValues, const int64_t *values);
MLIR_CAPI_EXPORTED intptr_t
syncopateChunkTableAttrGetNumColumns(MlirAttribute attr);
MLIR_CAPI_EXPORTED MlirStringRef
syncopateChunkTableAttrGetColumnName(MlirAttribute attr, intptr_t column);
MLIR_CAPI_EXPORTED intptr_t
syncopateChunkTableAttrGetNumRows(MlirAttribute attr);

/// Rows times columns integers that live as long as the attribute's context.
MLIR_CAPI_EXPORTED const int64_t *
syncopateChunkTableAttrGetValues(MlirAttribute attr);

#ifdef __cplusplus
}
#endif

#endif // SYNCOPATE_PYTHON_BINDINGS_CAPI_CHUNK_H
