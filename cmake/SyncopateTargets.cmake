# Upstream dialects that TritonGPU modules use. They are registered through the
# handles of MLIR's C API, whose headers compile in a fraction of the time.
set(SYNCOPATE_UPSTREAM_DIALECTS Arith ControlFlow Func GPU LLVM Math NVVM SCF UB)
set(SYNCOPATE_UPSTREAM_CAPI MLIRCAPIIR MLIRCAPITransforms)
foreach(_dialect IN LISTS SYNCOPATE_UPSTREAM_DIALECTS)
  list(APPEND SYNCOPATE_UPSTREAM_CAPI MLIRCAPI${_dialect})
endforeach()

# syncopate_add_objects(<name> SOURCES ... DEPENDS ...)
#
# Compiles sources once, as objects that both the tools and the library of the
# Python bindings take in. Like LLVM they have neither RTTI nor exceptions.
# All names are collected in the global property SYNCOPATE_OBJECTS.
function(syncopate_add_objects name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} OBJECT ${ARG_SOURCES})
  syncopate_compile_like_llvm(${name})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  set_property(GLOBAL APPEND PROPERTY SYNCOPATE_OBJECTS ${name})
endfunction()

function(syncopate_compile_like_llvm name)
  target_compile_options(${name} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti -fno-exceptions -Wall -Wextra -Wno-unused-parameter>)
  # What a C API declares is what leaves the library of the bindings.
  target_compile_definitions(${name} PRIVATE MLIR_CAPI_BUILDING_LIBRARY=1)
endfunction()

# syncopate_add_tool(<name> SOURCES ... LINK_LIBS ...)
#
# A self-contained executable with the project's objects in it, stripped in
# release builds, installed into the Python package.
function(syncopate_add_tool name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK_LIBS" ${ARGN})
  get_property(_objects GLOBAL PROPERTY SYNCOPATE_OBJECTS)
  add_executable(${name} ${ARG_SOURCES})
  foreach(_object IN LISTS _objects)
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:${_object}>)
    add_dependencies(${name} ${_object})
  endforeach()
  syncopate_compile_like_llvm(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINK_LIBS} ${SYNCOPATE_UPSTREAM_CAPI})
  target_link_options(${name} PRIVATE -Wl,--gc-sections $<$<CONFIG:Release>:-s>)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  install(TARGETS ${name} RUNTIME DESTINATION syncopate/bin COMPONENT SyncopatePackage)
endfunction()
