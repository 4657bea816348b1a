# Headers of the system, CPython and PyTorch, parsed once for a target. ccache is told what they are by a short text
# beside them (CCACHE_PCH_EXTSUM): the header that names them, and the versions of what it names.
function(precompile target header)
  target_precompile_headers(${target} PRIVATE ${header})
  file(READ ${PROJECT_SOURCE_DIR}/${header} named)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx.gch.sum
    CONTENT "@target@ torch @TORCH_VERSION@ Python @Python_VERSION@ @CMAKE_CXX_COMPILER_ID@ @CMAKE_CXX_COMPILER_VERSION@ @CMAKE_BUILD_TYPE@ @SAKER_SANITIZE@
@named@" @ONLY)
endfunction()
