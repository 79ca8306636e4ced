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
    * (buffer_c4) the static dimensions come to fewer than 2^48 bytes.

    Example: `!chunk.buffer<8192x?xbf16>`.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape,
                        "::mlir::Type":$elementType);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// No buffer, and no chunk of one, has as many bytes; no chunk ends as far
    /// away. Sums and products of two such numbers and of a few others fit into
    /// 64 bits.
    static constexpr int64_t kMaxBytes = int64_t(1) << 48;
    /// Number of dimensions.
    size_t getRank() const { return getShape().size(); }
    /// Size of one element in bytes.
    int64_t getElementBytes() const {
      return getElementType().getIntOrFloatBitWidth() / 8;
    }
    /// Bytes of a region of these sizes, not counting dynamic ones; kMaxBytes
    /// if there are that many or more.
    int64_t getRegionBytes(::llvm::ArrayRef<int64_t> sizes) const;
    /// True if no dimension is dynamic.
    bool hasStaticShape() const {
      return !::llvm::is_contained(getShape(),
                                   ::mlir::ShapedType::kDynamic);
    }
  }];
}

#endif // SYNCOPATE_DIALECT_CHUNKTYPES_TD
