// Names of generated functions for Linux' perf, in /tmp/perf-PID.map, if the environment variable SAKER_PERF_MAP is 1.
#pragma once

#include <cstddef>
#include <string_view>

namespace saker::codegen {

void addToPerfMap(const void* address, size_t size, std::string_view name);

}  // namespace saker::codegen
