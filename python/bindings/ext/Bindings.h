//===- Bindings.h - topics of the Python extension -----------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SYNCOPATE_PYTHON_BINDINGS_EXT_BINDINGS_H
#define SYNCOPATE_PYTHON_BINDINGS_EXT_BINDINGS_H

#include "mlir/Bindings/Python/Diagnostics.h"
#include "mlir/Bindings/Python/Nanobind.h"

#include <string>

namespace syncopate::python {

/// The diagnostics of a refused type or attribute, as the text of a ValueError.
/// They have no location worth showing: the caller's is in Python's traceback.
inline std::string
takeMessage(mlir::python::CollectDiagnosticsToStringScope &diagnostics) {
  static const std::string unknown = "at loc(unknown): ";
  std::string message = diagnostics.takeMessage();
  return message.compare(0, unknown.size(), unknown) == 0
             ? message.substr(unknown.size())
             : message;
}

/// Adds the classes of the dialect's types to the module.
void bindTypes(nanobind::module_ &module);

/// Adds the classes of the dialect's attributes to the module.
void bindAttributes(nanobind::module_ &module);

} // namespace syncopate::python

#endif // SYNCOPATE_PYTHON_BINDINGS_EXT_BINDINGS_H
