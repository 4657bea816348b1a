# The torch of the Python that is used: its headers (pybind11 among them) and libraries. Not find_package(Torch), which
# asks for a whole CUDA toolkit where torch was built with CUDA, and which Saker does not need.
find_package(Python 3.11 COMPONENTS Interpreter Development.Module REQUIRED)
execute_process(
  COMMAND ${Python_EXECUTABLE} -c
    "import os, sysconfig, torch; print(os.path.dirname(torch.__file__), int(torch._C._GLIBCXX_USE_CXX11_ABI), sysconfig.get_config_var('EXT_SUFFIX'), torch.__version__, sep=';')"
  OUTPUT_VARIABLE TORCH_FACTS OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
list(GET TORCH_FACTS 0 TORCH_ROOT)
list(GET TORCH_FACTS 1 TORCH_CXX11_ABI)
list(GET TORCH_FACTS 2 PYTHON_MODULE_SUFFIX)
list(GET TORCH_FACTS 3 TORCH_VERSION)
message(STATUS "torch ${TORCH_VERSION}")
# Another torch in the same environment is another configuration.
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${TORCH_ROOT}/version.py)

add_library(torch_libraries INTERFACE)
target_include_directories(torch_libraries SYSTEM INTERFACE
  ${TORCH_ROOT}/include ${TORCH_ROOT}/include/torch/csrc/api/include)
target_compile_definitions(torch_libraries INTERFACE
  _GLIBCXX_USE_CXX11_ABI=${TORCH_CXX11_ABI} AT_PER_OPERATOR_HEADERS)
target_link_directories(torch_libraries INTERFACE ${TORCH_ROOT}/lib)
target_link_libraries(torch_libraries INTERFACE c10 torch_cpu torch)
# The extension is imported after torch, which has loaded these libraries: no path is written into it.
target_link_options(torch_libraries INTERFACE -Wl,--disable-new-dtags)

add_library(torch_python_library INTERFACE)
target_include_directories(torch_python_library SYSTEM INTERFACE ${Python_INCLUDE_DIRS})
target_link_libraries(torch_python_library INTERFACE torch_python)
