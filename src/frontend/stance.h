// torch.compiler.set_stance: what calls of compiled functions may do, as the program has told torch.compile.
#pragma once

#include <cstdint>

namespace saker::frontend {

enum class Stance : uint8_t { Default, ForceEager, EagerOnRecompile, FailOnRecompile };

// Default where torch.compile is not loaded: then nobody has set one.
Stance stance();

}  // namespace saker::frontend
