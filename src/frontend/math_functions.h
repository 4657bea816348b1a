// Functions of Python's math module that are operations of expressions.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "symbolic/expr.h"

namespace saker::frontend {

inline constexpr std::array<std::pair<std::string_view, sym::FloatOp>, 14> kMathFunctions = {{
    {"sqrt", sym::FloatOp::Sqrt},
    {"exp", sym::FloatOp::Exp},
    {"log", sym::FloatOp::Log},
    {"log2", sym::FloatOp::Log2},
    {"sin", sym::FloatOp::Sin},
    {"cos", sym::FloatOp::Cos},
    {"tan", sym::FloatOp::Tan},
    {"asin", sym::FloatOp::Asin},
    {"acos", sym::FloatOp::Acos},
    {"atan", sym::FloatOp::Atan},
    {"sinh", sym::FloatOp::Sinh},
    {"cosh", sym::FloatOp::Cosh},
    {"tanh", sym::FloatOp::Tanh},
    {"fabs", sym::FloatOp::Abs},
}};

inline std::optional<sym::FloatOp> mathFunctionNamed(std::string_view name) {
  for (const auto& [known, op] : kMathFunctions) {
    if (known == name) return op;
  }
  return std::nullopt;
}

}  // namespace saker::frontend
