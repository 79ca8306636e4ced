//===- TritonDialects.cpp - opaque stand-ins for Triton's dialects --------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/TritonDialects.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;

namespace {

/// A dialect that takes every operation, type and attribute of its namespace.
/// A typo in any other dialect is still an error, as it would not be with
/// --allow-unregistered-dialect.
template <typename Self> class OpaqueDialect : public Dialect {
public:
  explicit OpaqueDialect(MLIRContext *context)
      : Dialect(Self::getDialectNamespace(), context, TypeID::get<Self>()) {
    allowUnknownOperations();
    allowUnknownTypes();
  }

  Attribute parseAttribute(DialectAsmParser &parser, Type type) const override {
    return OpaqueAttr::get(StringAttr::get(getContext(), getNamespace()),
                           parser.getFullSymbolSpec(),
                           type ? type : NoneType::get(getContext()));
  }
};

#define SYNCOPATE_OPAQUE_DIALECT(NAME, NAMESPACE)                              \
  struct NAME : OpaqueDialect<NAME> {                                          \
    using OpaqueDialect::OpaqueDialect;                                        \
    static constexpr llvm::StringLiteral getDialectNamespace() {               \
      return NAMESPACE;                                                        \
    }                                                                          \
  }

SYNCOPATE_OPAQUE_DIALECT(TritonDialect, "tt");
SYNCOPATE_OPAQUE_DIALECT(TritonGPUDialect, "ttg");
SYNCOPATE_OPAQUE_DIALECT(TritonNvidiaGPUDialect, "ttng");
SYNCOPATE_OPAQUE_DIALECT(NVWSDialect, "nvws");
SYNCOPATE_OPAQUE_DIALECT(GluonDialect, "gluon");

#undef SYNCOPATE_OPAQUE_DIALECT

} // namespace

void syncopate::registerTritonDialects(DialectRegistry &registry) {
  registry.insert<TritonDialect, TritonGPUDialect, TritonNvidiaGPUDialect,
                  NVWSDialect, GluonDialect>();
}
