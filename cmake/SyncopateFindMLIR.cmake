# Finds MLIR: where MLIR_DIR says, else in the Python environment that builds us.
#
# The development wheels of MLIR and LLVM install under the namespace packages
# `mlir` and `llvm`. Asking the interpreter for their paths is the only way that
# works in a virtual environment and inside pip's build isolation alike.

find_package(Python 3.10 REQUIRED COMPONENTS Interpreter OPTIONAL_COMPONENTS Development.Module)
# MLIR's own modules look for Python3; both searches must agree.
set(Python3_EXECUTABLE "${Python_EXECUTABLE}" CACHE FILEPATH "" FORCE)
if(SYNCOPATE_PYTHON AND NOT Python_Development.Module_FOUND)
  message(FATAL_ERROR "${Python_EXECUTABLE} has no headers, which the bindings need; on Debian and "
    "Ubuntu: apt-get install python3-dev")
endif()

if(NOT MLIR_DIR AND NOT DEFINED ENV{MLIR_DIR})
  set(_script [[
import importlib.util
import pathlib

for name, config in (("mlir", "MLIRConfig.cmake"), ("llvm", "LLVMConfig.cmake")):
    spec = importlib.util.find_spec(name)
    roots = list(spec.submodule_search_locations or []) if spec else []
    folders = [pathlib.Path(root, "lib", "cmake", name) for root in roots]
    print(next((f.as_posix() for f in folders if (f / config).exists()), "NOTFOUND"))
]])
  execute_process(COMMAND "${Python_EXECUTABLE}" -c "${_script}"
    OUTPUT_VARIABLE _folders OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" _folders "${_folders}")
  list(GET _folders 0 _mlir)
  list(GET _folders 1 _llvm)
  if(_mlir AND _llvm)
    set(MLIR_DIR "${_mlir}" CACHE PATH "Folder of MLIRConfig.cmake" FORCE)
    set(LLVM_DIR "${_llvm}" CACHE PATH "Folder of LLVMConfig.cmake" FORCE)
  endif()
endif()

find_package(MLIR 22.1 REQUIRED CONFIG)
message(STATUS "MLIR ${LLVM_PACKAGE_VERSION}: ${MLIR_DIR}")

list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
# What runs while another processor's code is built is this one's.
if(CMAKE_CROSSCOMPILING)
  find_program(SYNCOPATE_TABLEGEN mlir-tblgen REQUIRED NO_CMAKE_FIND_ROOT_PATH)
  set(MLIR_TABLEGEN_EXE "${SYNCOPATE_TABLEGEN}")
endif()
set(LLVM_RUNTIME_OUTPUT_INTDIR "${PROJECT_BINARY_DIR}/bin")
set(LLVM_LIBRARY_OUTPUT_INTDIR "${PROJECT_BINARY_DIR}/lib")
include(TableGen)
include(AddLLVM)
include(AddMLIR)
# Keeps assertions in step with the prebuilt libraries. Without it our objects
# would be built with NDEBUG, link against libraries that were not, and crash.
set(LLVM_ENABLE_WARNINGS ON)
include(HandleLLVMOptions)
