#include "codegen/load.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

namespace saker::codegen {
namespace {

constexpr const char* kName = "libsaker_codegen.so";

struct Loaded {
  SakerEmitFunction emit = nullptr;
  std::string error;
};

Loaded load() {
  std::vector<std::string> paths;
  Dl_info self{};
  if (const char* given = std::getenv("SAKER_CODEGEN_LIBRARY")) {
    paths.push_back(given);
  } else {
    if (dladdr(reinterpret_cast<void*>(&load), &self) && self.dli_fname) {
      std::string path = self.dli_fname;
      size_t slash = path.rfind('/');
      if (slash != path.npos) paths.push_back(path.substr(0, slash + 1) + kName);
    }
    paths.push_back(kName);
  }
  Loaded loaded;
  for (const std::string& path : paths) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      loaded.error = dlerror();
      continue;
    }
    loaded.emit = reinterpret_cast<SakerEmitFunction>(dlsym(library, "saker_codegen_emit"));
    loaded.error = loaded.emit ? "" : path + " has no function saker_codegen_emit";
    break;
  }
  return loaded;
}

}  // namespace

SakerEmitFunction loadEmitter(std::string& error) {
  static const Loaded kLoaded = load();
  error = kLoaded.error;
  return kLoaded.emit;
}

}  // namespace saker::codegen
