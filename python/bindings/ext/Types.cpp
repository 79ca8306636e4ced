//===- Types.cpp - Python classes of the chunk dialect's types -----------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "python/bindings/ext/Bindings.h"

#include "python/bindings/capi/Chunk.h"

#include "mlir-c/BuiltinTypes.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"

#include <optional>
#include <vector>

namespace nb = nanobind;
using namespace mlir::python;
using namespace mlir::python::nanobind_adaptors;

static void bindTokenType(nb::module_ &module) {
  mlir_type_subclass(module, "TokenType", syncopateTypeIsAChunkToken,
                     syncopateChunkTokenTypeGetTypeID)
      .def_classmethod(
          "get",
          [](const nb::object &cls, MlirContext context) {
            return cls(syncopateChunkTokenTypeGet(context));
          },
          nb::arg("cls"), nb::arg("context").none() = nb::none(),
          "The type of the completion of transfers.");
}

/// Python spells a dynamic dimension as None.
static MlirType getBufferType(const std::vector<std::optional<int64_t>> &shape,
                              MlirType elementType) {
  std::vector<int64_t> sizes;
  for (std::optional<int64_t> size : shape)
    sizes.push_back(size.value_or(mlirShapedTypeGetDynamicSize()));
  MlirContext context = mlirTypeGetContext(elementType);
  CollectDiagnosticsToStringScope diagnostics(context);
  MlirType type = syncopateChunkBufferTypeGetChecked(
      mlirLocationUnknownGet(context), sizes.size(), sizes.data(), elementType);
  std::string message = syncopate::python::takeMessage(diagnostics);
  if (mlirTypeIsNull(type))
    throw nb::value_error(message.c_str());
  return type;
}

static std::vector<std::optional<int64_t>> getBufferShape(MlirType type) {
  std::vector<std::optional<int64_t>> shape;
  intptr_t rank = syncopateChunkBufferTypeGetRank(type);
  for (intptr_t dim = 0; dim < rank; ++dim) {
    int64_t size = syncopateChunkBufferTypeGetDimSize(type, dim);
    if (size == mlirShapedTypeGetDynamicSize())
      shape.push_back(std::nullopt);
    else
      shape.push_back(size);
  }
  return shape;
}

static void bindBufferType(nb::module_ &module) {
  mlir_type_subclass(module, "BufferType", syncopateTypeIsAChunkBuffer,
                     syncopateChunkBufferTypeGetTypeID)
      .def_classmethod(
          "get",
          [](const nb::object &cls,
             const std::vector<std::optional<int64_t>> &shape,
             MlirType elementType) {
            return cls(getBufferType(shape, elementType));
          },
          nb::arg("cls"), nb::arg("shape"), nb::arg("element_type"),
          "The type of a symmetric tensor. None in the shape is a dynamic "
          "dimension. Raises ValueError if the verifier refuses it.")
      .def_property_readonly(
          "shape",
          [](MlirType self) {
            return nb::tuple(nb::cast(getBufferShape(self)));
          },
          "Dimensions; None is a dynamic one.")
      .def_property_readonly("rank", syncopateChunkBufferTypeGetRank,
                             "Number of dimensions.")
      .def_property_readonly("element_type",
                             syncopateChunkBufferTypeGetElementType,
                             "Type of one element.");
}

void syncopate::python::bindTypes(nb::module_ &module) {
  bindTokenType(module);
  bindBufferType(module);
}
