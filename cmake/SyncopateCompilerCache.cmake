# Uses ccache where it is installed and nobody chose another launcher.
if(NOT CMAKE_CXX_COMPILER_LAUNCHER AND NOT DEFINED ENV{CMAKE_CXX_COMPILER_LAUNCHER})
  find_program(SYNCOPATE_CCACHE ccache)
  if(SYNCOPATE_CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER "${SYNCOPATE_CCACHE}")
    set(CMAKE_CXX_COMPILER_LAUNCHER "${SYNCOPATE_CCACHE}")
  endif()
endif()
