#include "aten/call_text.h"

#include <cstdio>

#include "ir/type.h"
#include "symbolic/expr.h"

namespace saker::aten {

namespace {

std::string numberText(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.17g", value);
  return buffer;
}

std::string argText(const ir::Arg& arg) {
  switch (arg.kind()) {
    case ir::Arg::Kind::None:
      return "None";
    case ir::Arg::Kind::Bool:
      return arg.toBool() ? "True" : "False";
    case ir::Arg::Kind::Int:
      return std::to_string(arg.toInt());
    case ir::Arg::Kind::Float:
      return numberText(arg.toFloat());
    case ir::Arg::Kind::Complex:
      return "(" + numberText(arg.toComplex().real()) + ", " + numberText(arg.toComplex().imag()) + ")";
    case ir::Arg::Kind::String:
      return "\"" + std::string(arg.toString()) + "\"";
    case ir::Arg::Kind::DType:
      return std::string(ir::name(arg.toDType()));
    case ir::Arg::Kind::Device:
      return ir::toString(arg.toDevice());
    case ir::Arg::Kind::Layout:
      return std::string(ir::name(arg.toLayout()));
    case ir::Arg::Kind::MemoryFormat:
      return std::string(ir::name(arg.toMemoryFormat()));
    case ir::Arg::Kind::SymInt:
    case ir::Arg::Kind::SymBool:
    case ir::Arg::Kind::SymFloat:
      return sym::toString(arg.toSym());
    case ir::Arg::Kind::Opaque:
      return "<" + std::string(arg.toOpaque()->className) + ">";
    case ir::Arg::Kind::Type:
      return ir::toString(arg.toType());
    case ir::Arg::Kind::Value:
      return "<value>";
    case ir::Arg::Kind::List: {
      std::string text;
      for (const ir::Arg& element : arg.toList()) text += (text.empty() ? "" : ", ") + argText(element);
      return "[" + text + "]";
    }
  }
  return "";
}

}  // namespace

std::string callText(std::string_view name, std::span<const ir::Arg> args) {
  std::string text(name);
  text += '(';
  for (size_t i = 0; i < args.size(); ++i) text += (i ? ", " : "") + argText(args[i]);
  return text + ')';
}

}  // namespace saker::aten
