// Names of functions in the text of expressions.
#pragma once

#include <string>
#include <string_view>

#include "symbolic/expr.h"

namespace saker::sym {

// Rounding to an integer.
inline std::string_view integerRoundingName(FloatOp op) {
  switch (op) {
    case FloatOp::Floor:
      return "floor";
    case FloatOp::Ceil:
      return "ceil";
    case FloatOp::Trunc:
      return "trunc";
    case FloatOp::Round:
      return "round";
    default:
      return {};
  }
}

// Functions whose result is a float; empty for what is written with an operator.
inline std::string_view floatFunctionName(FloatOp op) {
  switch (op) {
    case FloatOp::FromInt:
      return "float";
    case FloatOp::Abs:
      return "abs";
    case FloatOp::Min:
      return "min";
    case FloatOp::Max:
      return "max";
    case FloatOp::Sqrt:
      return "sqrt";
    case FloatOp::Exp:
      return "exp";
    case FloatOp::Log:
      return "log";
    case FloatOp::Log2:
      return "log2";
    case FloatOp::Sin:
      return "sin";
    case FloatOp::Cos:
      return "cos";
    case FloatOp::Tan:
      return "tan";
    case FloatOp::Asin:
      return "asin";
    case FloatOp::Acos:
      return "acos";
    case FloatOp::Atan:
      return "atan";
    case FloatOp::Sinh:
      return "sinh";
    case FloatOp::Cosh:
      return "cosh";
    case FloatOp::Tanh:
      return "tanh";
    case FloatOp::Floor:
      return "floorf";
    case FloatOp::Ceil:
      return "ceilf";
    case FloatOp::Trunc:
      return "truncf";
    case FloatOp::Round:
      return "roundf";
    default:
      return {};
  }
}

}  // namespace saker::sym
