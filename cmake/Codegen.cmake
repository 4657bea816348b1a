# libsaker_codegen.so: LLVM and what writes its code, apart from everything else, since it is large and loaded only when
# the first kernel is compiled. LLVM is linked statically and hidden, so that another one in the process is not met.
execute_process(COMMAND ${LLVM_CONFIG} --includedir OUTPUT_VARIABLE LLVM_HEADERS OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND ${LLVM_CONFIG} --link-static --libfiles core x86codegen
  OUTPUT_VARIABLE LLVM_ARCHIVES OUTPUT_STRIP_TRAILING_WHITESPACE)
separate_arguments(LLVM_ARCHIVES)

file(GLOB EMITTER_SOURCES CONFIGURE_DEPENDS src/codegen/llvm/*.cpp)
file(GLOB KERNEL_SOURCES CONFIGURE_DEPENDS src/kernel/*.cpp)
add_library(saker_codegen SHARED ${EMITTER_SOURCES} ${KERNEL_SOURCES} src/codegen/target.cpp src/codegen/outside.cpp
  src/ir/dtype.cpp)
target_include_directories(saker_codegen PRIVATE src)
target_include_directories(saker_codegen SYSTEM PRIVATE ${LLVM_HEADERS})
set_target_properties(saker_codegen PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_compile_options(saker_codegen PRIVATE -ffunction-sections -fdata-sections)
target_link_libraries(saker_codegen PRIVATE saker_options ${LLVM_ARCHIVES})
target_link_options(saker_codegen PRIVATE -Wl,--gc-sections -Wl,--exclude-libs,ALL -Wl,-Bsymbolic
  -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/codegen.map -s)
if(SAKER_SANITIZE)
  # LLVM is not instrumented, and neither is the code that it makes.
  target_compile_options(saker_codegen PRIVATE -fno-sanitize=all)
  target_link_options(saker_codegen PRIVATE -fno-sanitize=all)
else()
  target_compile_definitions(saker_codegen PRIVATE $<$<NOT:$<CONFIG:Debug>>:NDEBUG>)
  target_link_options(saker_codegen PRIVATE -Wl,-z,defs)
endif()

# It lies beside libsaker.so, where src/codegen/load looks.
set(SAKER_CODEGEN_DIR ${PROJECT_BINARY_DIR})
if(SKBUILD)
  install(TARGETS saker_codegen DESTINATION saker)
elseif(SAKER_TORCH)
  set(SAKER_CODEGEN_DIR ${PROJECT_SOURCE_DIR}/${SAKER_EXTENSION_DIR})
  install(TARGETS saker_codegen LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
set_target_properties(saker_codegen PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${SAKER_CODEGEN_DIR})
