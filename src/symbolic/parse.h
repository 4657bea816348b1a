// Reads what toString() writes: integer, boolean and float expressions over the symbols of a context.
//
//   or < and < not < == != < <= > >= < + - < * // / % < unary - < **; min(a, b), max(a, b), floor(f), sqrt(f), ...
//
// `/` is Python's true division; an integer beside a float becomes one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "symbolic/expr.h"

namespace saker::sym {

// Reads one expression from text[position]. Stops in front of the first thing that cannot continue it, which becomes
// the new position. On failure returns nullptr; `position` is then where and `error` what.
const Node* parseExpression(Context& context, std::string_view text, size_t& position, std::string& error);

}  // namespace saker::sym
