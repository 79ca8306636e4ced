# syncopate_link_llvm_statically()
#
# Prebuilt MLIR is configured to link LLVM's shared library, so every exported
# MLIR target carries "LLVM" in its link interface and anything linked to it
# would need a 120 MB libLLVM.so at run time. This replaces that entry by the
# static component libraries, of which the linker keeps what is used.
function(syncopate_link_llvm_statically)
  set(LLVM_LINK_LLVM_DYLIB OFF)
  set(LLVM_LINK_LLVM_DYLIB OFF PARENT_SCOPE)
  llvm_map_components_to_libnames(_components
    support core asmparser binaryformat bitreader bitwriter bitstreamreader
    irreader remarks targetparser demangle option frontendopenmp)
  add_library(SyncopateLLVM INTERFACE)
  target_link_libraries(SyncopateLLVM INTERFACE ${_components})

  foreach(_target IN LISTS MLIR_EXPORTED_TARGETS)
    if(NOT TARGET ${_target})
      continue()
    endif()
    foreach(_property INTERFACE_LINK_LIBRARIES MLIR_AGGREGATE_DEP_LIBS_IMPORTED)
      get_target_property(_libraries ${_target} ${_property})
      if(_libraries)
        list(TRANSFORM _libraries REPLACE "^LLVM$" "SyncopateLLVM")
        set_property(TARGET ${_target} PROPERTY ${_property} "${_libraries}")
      endif()
    endforeach()
  endforeach()
endfunction()
