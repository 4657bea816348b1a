// What must hold of every graph between passes: links and uses agree, values are defined before and visible where they
// are used, regions end in `return`, arguments and results fit the operator's schema, types and symbols are of this
// context, names are unique. Linear in the size of the graph.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace saker::ir {

struct Diagnostic {
  std::string message;  // names the node or value as print() does
  const Node* node = nullptr;
  const Location* location = nullptr;
};

// Up to `limit` of them, in the order of the text; none: the graph is valid.
std::vector<Diagnostic> verify(const Graph& graph, size_t limit = 1);

// Why an argument does not fit an argument of a schema, or nothing.
std::optional<std::string> schemaMismatch(const SchemaType& expected, const Arg& arg);
// Likewise for the results of a node.
std::optional<std::string> schemaMismatch(const Schema& schema, const Node& results);

}  // namespace saker::ir
