// Puts an object file into memory and makes it executable. It knows what LLVM makes of kernels: code, constants, and
// references between them and to functions outside; everything else is refused.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace saker::codegen {

struct Place {
  void* address = nullptr;
  size_t size = 0;
};

struct Object {
  std::shared_ptr<const void> memory;  // unmapped when the last holder is gone
  std::map<std::string, Place, std::less<>> functions;
  std::string error;
};

// `resolve` gives the addresses of functions outside, or null.
Object loadObject(std::string_view file, const std::function<void*(const char*)>& resolve);

}  // namespace saker::codegen
