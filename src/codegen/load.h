// Loads libsaker_codegen.so, once, when it is first needed.
#pragma once

#include <string>

#include "codegen/emit_api.h"

namespace saker::codegen {

// Null, and an error, if it cannot be loaded. SAKER_CODEGEN_LIBRARY names another file; otherwise it lies beside the
// library or program that this code is in, or where the loader looks.
SakerEmitFunction loadEmitter(std::string& error);

}  // namespace saker::codegen
