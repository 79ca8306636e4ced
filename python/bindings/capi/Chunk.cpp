//===- Chunk.cpp - C API of the chunk dialect ----------------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Everything is built with getChecked: MLIR has assertions on, and get() with
// parameters that the verifier refuses would end the Python process.

#include "python/bindings/capi/Chunk.h"

#include "dialect/Chunk.h"
#include "tools/Registration.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/CAPI/Support.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace syncopate;

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Chunk, chunk, chunk::ChunkDialect)

//===----------------------------------------------------------------------===//
// Registration
//===----------------------------------------------------------------------===//

void syncopateRegisterDialects(MlirDialectRegistry registry) {
  registerDialects(*unwrap(registry));
}

void syncopateRegisterPasses() { registerPasses(); }

//===----------------------------------------------------------------------===//
// !chunk.token
//===----------------------------------------------------------------------===//

bool syncopateTypeIsAChunkToken(MlirType type) {
  return isa<chunk::TokenType>(unwrap(type));
}

MlirTypeID syncopateChunkTokenTypeGetTypeID() {
  return wrap(chunk::TokenType::getTypeID());
}

MlirType syncopateChunkTokenTypeGet(MlirContext context) {
  return wrap(chunk::TokenType::get(unwrap(context)));
}

//===----------------------------------------------------------------------===//
// !chunk.buffer
//===----------------------------------------------------------------------===//

bool syncopateTypeIsAChunkBuffer(MlirType type) {
  return isa<chunk::BufferType>(unwrap(type));
}

MlirTypeID syncopateChunkBufferTypeGetTypeID() {
  return wrap(chunk::BufferType::getTypeID());
}

MlirType syncopateChunkBufferTypeGetChecked(MlirLocation location,
                                            intptr_t rank, const int64_t *shape,
                                            MlirType elementType) {
  Location loc = unwrap(location);
  return wrap(chunk::BufferType::getChecked(
      [&] { return emitError(loc); }, loc.getContext(),
      ArrayRef<int64_t>(shape, rank), unwrap(elementType)));
}

intptr_t syncopateChunkBufferTypeGetRank(MlirType type) {
  return cast<chunk::BufferType>(unwrap(type)).getRank();
}

int64_t syncopateChunkBufferTypeGetDimSize(MlirType type, intptr_t dim) {
  return cast<chunk::BufferType>(unwrap(type)).getShape()[dim];
}

MlirType syncopateChunkBufferTypeGetElementType(MlirType type) {
  return wrap(cast<chunk::BufferType>(unwrap(type)).getElementType());
}

//===----------------------------------------------------------------------===//
// #chunk.table
//===----------------------------------------------------------------------===//

bool syncopateAttributeIsAChunkTable(MlirAttribute attr) {
  return isa<chunk::TableAttr>(unwrap(attr));
}

MlirTypeID syncopateChunkTableAttrGetTypeID() {
  return wrap(chunk::TableAttr::getTypeID());
}

MlirAttribute syncopateChunkTableAttrGetChecked(MlirLocation location,
                                                intptr_t numColumns,
                                                const MlirStringRef *columns,
                                                intptr_t numValues,
                                                const int64_t *values) {
  Location loc = unwrap(location);
  MLIRContext *context = loc.getContext();
  SmallVector<StringAttr> names;
  for (MlirStringRef column : ArrayRef<MlirStringRef>(columns, numColumns))
    names.push_back(StringAttr::get(context, unwrap(column)));
  return wrap(chunk::TableAttr::getChecked(
      [&] { return emitError(loc); }, context, ArrayRef<StringAttr>(names),
      ArrayRef<int64_t>(values, numValues)));
}

intptr_t syncopateChunkTableAttrGetNumColumns(MlirAttribute attr) {
  return cast<chunk::TableAttr>(unwrap(attr)).getColumns().size();
}

MlirStringRef syncopateChunkTableAttrGetColumnName(MlirAttribute attr,
                                                   intptr_t column) {
  auto table = cast<chunk::TableAttr>(unwrap(attr));
  return wrap(table.getColumns()[column].getValue());
}

intptr_t syncopateChunkTableAttrGetNumRows(MlirAttribute attr) {
  return cast<chunk::TableAttr>(unwrap(attr)).getNumRows();
}

const int64_t *syncopateChunkTableAttrGetValues(MlirAttribute attr) {
  return cast<chunk::TableAttr>(unwrap(attr)).getValues().data();
}
