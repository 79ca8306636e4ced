//===- Module.cpp - the Python extension of the chunk dialect ------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Like all nanobind code of MLIR this is built with RTTI and exceptions, and
// therefore calls nothing but the C API: C++ classes of MLIR, compiled without
// RTTI, must not cross the boundary.

#include "python/bindings/ext/Bindings.h"

#include "python/bindings/capi/Chunk.h"

#include "mlir/Bindings/Python/NanobindAdaptors.h"

namespace nb = nanobind;

NB_MODULE(_syncopate, module) {
  module.doc() = "Native part of syncopate.mlir.dialects.chunk.";
  syncopateRegisterPasses();
  module.def("register_dialects", syncopateRegisterDialects,
             nb::arg("registry"),
             "Adds every dialect that syncopate-opt knows.");

  // Classes derive from those of `ir`, which is still being imported when this
  // module is, for the sake of register_dialects. They come on demand.
  module.def(
      "bind_classes",
      [](nb::module_ target) {
        syncopate::python::bindTypes(target);
        syncopate::python::bindAttributes(target);
      },
      nb::arg("module"), "Adds the classes of types and attributes.");
}
