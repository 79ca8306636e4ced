//===- ChunkTypes.td - types of the chunk dialect -------------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_DIALECT_CHUNKTYPES_TD
#define SYNCOPATE_DIALECT_CHUNKTYPES_TD

include "dialect/ChunkBase.td"
include "mlir/IR/AttrTypeBase.td"

class Chunk_Type<string name, string typeMnemonic>
    : TypeDef<Chunk_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Chunk_TokenType : Chunk_Type<"Token", "token"> {
  let summary = "completion of transfers";
  let description = [{
    The value that a transfer yields when its last byte is in place at the
    destination, and that whatever comes after it takes.
  }];
}

def Chunk_BufferType : Chunk_Type<"Buffer", "buffer"> {
  let summary = "symmetric tensor, one instance per rank";
  let description = [{
    Constraints:
    * (buffer_c1) the rank of the shape is between 1 and 5.
    * (buffer_c2) every dimension is positive or dynamic (`?`).
    * (buffer_c3) the element type is an integer or a float of 8, 16, 32 or
      64 bits.

    Example: `!chunk.buffer<8192x?xbf16>`.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape,
                        "::mlir::Type":$elementType);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Number of dimensions.
    size_t getRank() const { return getShape().size(); }
    /// Size of one element in bytes.
    int64_t getElementBytes() const {
      return getElementType().getIntOrFloatBitWidth() / 8;
    }
    /// True if no dimension is dynamic.
    bool hasStaticShape() const {
      return !::llvm::is_contained(getShape(),
                                   ::mlir::ShapedType::kDynamic);
    }
  }];
}

#endif // SYNCOPATE_DIALECT_CHUNKTYPES_TD
