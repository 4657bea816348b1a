// Reads a kernel's text. Any text is answered: by a kernel, or by the place and reason of the first refusal. Whether
// the kernel makes sense is the verifier's question (verify.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/kernel.h"

namespace saker::kernel {

struct ParseError {
  size_t line;    // from 1
  size_t column;  // from 1, in bytes
  std::string message;
};

struct Parsed {
  Kernel kernel;
  std::vector<size_t> nodePlaces;  // by node: where in the text its line starts
  std::optional<ParseError> error;
  bool ok() const { return !error; }
};

Parsed parse(std::string_view text);

// The line and column of a place in the text, with a message for it.
ParseError errorAt(std::string_view text, size_t place, std::string message);

}  // namespace saker::kernel
