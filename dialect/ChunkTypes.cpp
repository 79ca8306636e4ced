//===- ChunkTypes.cpp - types of the chunk dialect ------------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/Chunk.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace syncopate::chunk;

#define GET_TYPEDEF_CLASSES
#include "dialect/ChunkTypes.cpp.inc"

void ChunkDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/ChunkTypes.cpp.inc"
      >();
}

Type BufferType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  Type element;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseDimensionList(shape) ||
      parser.parseType(element) || parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    shape, element);
}

void BufferType::print(AsmPrinter &printer) const {
  printer << '<';
  for (int64_t size : getShape()) {
    if (ShapedType::isDynamic(size))
      printer << '?';
    else
      printer << size;
    printer << 'x';
  }
  printer << getElementType() << '>';
}

/// See BufferType::getRegionBytes.
static int64_t countBytes(ArrayRef<int64_t> sizes, int64_t elementBytes) {
  int64_t bytes = elementBytes;
  for (int64_t size : sizes) {
    if (ShapedType::isDynamic(size))
      continue;
    // Dividing keeps a huge size from wrapping around.
    if (size > (BufferType::kMaxBytes - 1) / bytes)
      return BufferType::kMaxBytes;
    bytes *= size;
  }
  return bytes;
}

int64_t BufferType::getRegionBytes(ArrayRef<int64_t> sizes) const {
  return countBytes(sizes, getElementBytes());
}

LogicalResult BufferType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> shape, Type elementType) {
  if (shape.empty() || shape.size() > 5)
    return emitError() << "expects a buffer of 1 to 5 dimensions, but got "
                       << shape.size();
  for (auto [dim, size] : llvm::enumerate(shape))
    if (size <= 0 && !ShapedType::isDynamic(size))
      return emitError() << "expects dimension " << dim
                         << " to be positive, but got " << size;
  if (!elementType.isIntOrFloat() ||
      !llvm::is_contained({8u, 16u, 32u, 64u},
                          elementType.getIntOrFloatBitWidth()))
    return emitError() << "expects elements of 8, 16, 32 or 64 bits, but got "
                       << elementType;
  if (countBytes(shape, elementType.getIntOrFloatBitWidth() / 8) >= kMaxBytes)
    return emitError() << "expects a buffer of fewer than 2^48 bytes"; // c4
  return success();
}
