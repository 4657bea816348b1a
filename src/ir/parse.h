// Reads the text form. Any text is answered: by a graph, or by the place and reason of the first refusal. What was
// read is well-formed; whether it makes sense is the verifier's question.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace saker::ir {

struct ParseError {
  size_t line;    // from 1
  size_t column;  // from 1, in bytes
  std::string message;
};

struct Parsed {
  std::unique_ptr<Graph> graph;
  std::vector<size_t> nodePlaces;  // by node id: where in the text it starts
  std::optional<ParseError> error;
  bool ok() const { return graph != nullptr; }
};

// Symbols the context has already may be declared again, alike.
Parsed parse(std::string_view text, std::shared_ptr<Context> context);

// The line and column of a place in the text, with a message for it.
ParseError errorAt(std::string_view text, size_t place, std::string message);

struct ParsedType {
  const Type* type = nullptr;
  std::optional<ParseError> error;
};
ParsedType parseType(std::string_view text, Context& context);

}  // namespace saker::ir
