//===- Attributes.cpp - Python classes of the chunk dialect's attributes -===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "python/bindings/ext/Bindings.h"

#include "python/bindings/capi/Chunk.h"

#include "mlir/Bindings/Python/NanobindAdaptors.h"

#include <nanobind/ndarray.h>

#include <string>
#include <vector>

namespace nb = nanobind;
using namespace mlir::python;
using namespace mlir::python::nanobind_adaptors;

using TableInput = nb::ndarray<const int64_t, nb::c_contig, nb::device::cpu>;
using TableView = nb::ndarray<nb::numpy, const int64_t, nb::ndim<2>>;

static MlirAttribute getTable(const std::vector<std::string> &columns,
                              const nb::object &values, MlirContext context) {
  // numpy takes lists, nested lists, and arrays of any integer type.
  nb::object array = nb::module_::import_("numpy").attr("ascontiguousarray")(
      values, nb::arg("dtype") = "int64");
  auto input = nb::cast<TableInput>(array);
  std::vector<MlirStringRef> names;
  for (const std::string &column : columns)
    names.push_back(mlirStringRefCreate(column.data(), column.size()));
  CollectDiagnosticsToStringScope diagnostics(context);
  MlirAttribute table = syncopateChunkTableAttrGetChecked(
      mlirLocationUnknownGet(context), names.size(), names.data(), input.size(),
      input.data());
  std::string message = syncopate::python::takeMessage(diagnostics);
  if (mlirAttributeIsNull(table))
    throw nb::value_error(message.c_str());
  return table;
}

static std::vector<std::string> getColumns(MlirAttribute table) {
  std::vector<std::string> columns;
  intptr_t count = syncopateChunkTableAttrGetNumColumns(table);
  for (intptr_t column = 0; column < count; ++column) {
    MlirStringRef name = syncopateChunkTableAttrGetColumnName(table, column);
    columns.emplace_back(name.data, name.length);
  }
  return columns;
}

/// The attribute object, which keeps the context alive, owns the view.
static TableView getValues(const nb::object &self) {
  auto table = nb::cast<MlirAttribute>(self);
  size_t shape[] = {
      static_cast<size_t>(syncopateChunkTableAttrGetNumRows(table)),
      static_cast<size_t>(syncopateChunkTableAttrGetNumColumns(table))};
  return TableView(syncopateChunkTableAttrGetValues(table), 2, shape, self);
}

static void bindTable(nb::module_ &module) {
  mlir_attribute_subclass(module, "TableAttr", syncopateAttributeIsAChunkTable,
                          syncopateChunkTableAttrGetTypeID)
      .def_classmethod(
          "get",
          [](const nb::object &cls, const std::vector<std::string> &columns,
             const nb::object &values, MlirContext context) {
            return cls(getTable(columns, values, context));
          },
          nb::arg("cls"), nb::arg("columns"), nb::arg("values"),
          nb::arg("context").none() = nb::none(),
          "A table with columns of these names; values are row by row, flat "
          "or nested. Raises ValueError if the verifier refuses it.")
      .def_property_readonly("columns", getColumns, "Names of the columns.")
      .def_property_readonly("num_rows", syncopateChunkTableAttrGetNumRows,
                             "Number of rows.")
      .def_property_readonly(
          "values", getValues,
          "A read-only int64 array [num_rows, columns] on the attribute's own "
          "memory: nothing is copied.");
}

void syncopate::python::bindAttributes(nb::module_ &module) {
  bindTable(module);
}
