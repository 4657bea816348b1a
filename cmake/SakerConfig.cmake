# find_package(Saker): Saker::saker, with the LibTorch it was built against.
include(CMakeFindDependencyMacro)
find_dependency(Torch)
include(${CMAKE_CURRENT_LIST_DIR}/SakerTargets.cmake)
set_property(TARGET Saker::saker APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${TORCH_LIBRARIES})
