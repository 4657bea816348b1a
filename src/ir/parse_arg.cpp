#include <charconv>

#include "ir/parser.h"
#include "symbolic/parse.h"

namespace saker::ir::detail {

bool Parser::arguments(const OpDef* op, size_t opAt, Arguments& given) {
  if (!scan_.expect('(')) return false;
  if (!scan_.take(')')) {
    do {
      scan_.skip();
      size_t at = scan_.at();
      std::string_view name = scan_.identifier();
      bool keyword = false;
      if (!name.empty()) {
        scan_.skip();
        keyword = scan_.current() == '=' && scan_.ahead(1) != '=';
        scan_.seek(keyword ? scan_.at() + 1 : at);
      }
      Arg value;
      if (!arg(value, 0)) return false;
      if (keyword) {
        given.keywords.push_back({at, name, value});
      } else if (!given.keywords.empty()) {
        return scan_.refuseAt(at, "expected positional arguments before those with a name");
      } else {
        given.positional.push_back(value);
        given.places.push_back(at);
      }
    } while (scan_.take(','));
    if (!scan_.expect(')')) return false;
  }
  return matchSchema(op, opAt, given);
}

// Puts arguments with names in their places and fills in defaults.
bool Parser::matchSchema(const OpDef* op, size_t opAt, Arguments& given) {
  const Schema* schema = op->schema;
  if (!schema || schema->variadicArguments) {
    if (given.keywords.empty()) return true;
    return scan_.refuseAt(given.keywords[0].at,
                          "expected positional arguments only: " + op->qualified + " has no schema");
  }
  const std::vector<SchemaArgument>& wanted = schema->arguments;
  size_t positional = 0;
  while (positional < wanted.size() && !wanted[positional].keywordOnly) ++positional;
  if (given.positional.size() > positional) {
    return scan_.refuseAt(given.places[positional], "expected at most " + std::to_string(positional) +
                                                        " positional arguments for " + op->qualified);
  }
  SmallVec<bool, 16> filled(wanted.size(), false);
  for (size_t i = 0; i < given.positional.size(); ++i) filled[i] = true;
  given.positional.resize(wanted.size());
  for (const Keyword& keyword : given.keywords) {
    std::optional<size_t> at = schema->indexOf(keyword.name);
    if (!at) return scan_.refuseAt(keyword.at, op->qualified + " has no argument " + std::string(keyword.name));
    if (filled[*at]) return scan_.refuseAt(keyword.at, "argument " + std::string(keyword.name) + " is given twice");
    filled[*at] = true;
    given.positional[*at] = keyword.arg;
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (filled[i]) continue;
    if (!wanted[i].defaultValue) {
      return scan_.refuseAt(opAt, "expected argument " + wanted[i].name + " of " + op->qualified);
    }
    given.positional[i] = *wanted[i].defaultValue;
  }
  return true;
}

bool Parser::arg(Arg& out, int depth) {
  scan_.skip();
  char c = scan_.current();
  switch (c) {
    case '%': {
      Name name;
      Value* value = nullptr;
      if (!valueName(name) || !use(name, value)) return false;
      out = Arg::value(value);
      return true;
    }
    case '"':
      if (!scan_.quoted(buffer_)) return false;
      out = Arg::string(scratch_.copy(std::string_view(buffer_)));
      return true;
    case '[':
      return list(out, depth);
    case '(':
      return symbolic(out);
    default:
      if (isIdentifierStart(c)) return word(out);
      if (c == '-' || (c >= '0' && c <= '9')) return numeric(out);
      return scan_.fail("an argument");
  }
}

bool Parser::list(Arg& out, int depth) {
  if (depth >= kMaxNesting) return scan_.fail("lists nested less deeply");
  size_t base = listStack_.size();
  scan_.take('[');
  if (!scan_.take(']')) {
    do {
      Arg element;
      if (!arg(element, depth + 1)) return false;
      listStack_.push_back(element);
    } while (scan_.take(','));
    if (!scan_.expect(']')) return false;
  }
  out = Arg::list(scratch_.copy(std::span<const Arg>(listStack_).subspan(base)));
  listStack_.resize(base);
  return true;
}

// A number, or an expression that begins with one.
bool Parser::numeric(Arg& out) {
  size_t at = scan_.at();
  std::string_view text = scan_.text();
  size_t end = at + (scan_.current() == '-');
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  scan_.seek(end);
  bool digits = end > at + (text[at] == '-');
  bool plain = digits && scan_.current() != '.' && !isIdentifierChar(scan_.current());
  bool continues = plain && scan_.expressionContinues();
  scan_.seek(at);
  if (continues) return symbolic(out);
  if (plain) {
    int64_t value = 0;
    if (!scan_.integer(value, "an integer")) return false;
    out = Arg::integer(value);
    return true;
  }
  bool infinite = text.substr(end).starts_with("inf") && (end + 3 >= text.size() || !isIdentifierChar(text[end + 3]));
  if (!digits && !infinite) return symbolic(out);
  double value = 0;
  if (!scan_.number(value)) return false;
  if (scan_.expressionContinues()) {
    scan_.seek(at);
    return symbolic(out);
  }
  out = Arg::number(value);
  return true;
}

bool Parser::word(Arg& out) {
  size_t at = scan_.at();
  std::string_view name = scan_.identifier();
  if (scan_.current() == '.' && (name == "dtype" || name == "device" || name == "layout" || name == "format")) {
    scan_.seek(scan_.at() + 1);
    return namedConstant(name, out);
  }
  if (scan_.current() == '(') {
    if (name == "complex") return complexNumber(out);
    if (name == "opaque") return opaque(out);
  }
  if (name == "None") return out = Arg::none(), true;
  if (name == "nan" || name == "inf") {
    scan_.seek(at);
    double value = 0;
    if (!scan_.number(value)) return false;
    if (!scan_.expressionContinues()) return out = Arg::number(value), true;
  } else if (!scan_.expressionContinues()) {
    if (name == "True" || name == "False") return out = Arg::boolean(name == "True"), true;
    if (!context_.symbols().find(name)) {
      // No symbol: a constant that needs no prefix to be told from one.
      if (std::optional<DType> dtype = dtypeFromName(name)) return out = Arg::dtype(*dtype), true;
      if (deviceFromName(name)) {
        Device device;
        scan_.seek(at);
        if (!this->device(device)) return false;
        return out = Arg::device(device), true;
      }
      if (name != "not") return scan_.failAt(at, "a symbol or a constant");
    }
  }
  scan_.seek(at);
  return symbolic(out);
}

bool Parser::namedConstant(std::string_view kind, Arg& out) {
  size_t at = scan_.at();
  if (kind == "device") {
    Device value;
    if (!device(value)) return false;
    return out = Arg::device(value), true;
  }
  std::string_view name = scan_.identifier();
  if (kind == "dtype") {
    if (std::optional<DType> value = dtypeFromName(name)) return out = Arg::dtype(*value), true;
    return scan_.failAt(at, "an element type");
  }
  if (kind == "layout") {
    if (std::optional<Layout> value = layoutFromName(name)) return out = Arg::layout(*value), true;
    return scan_.failAt(at, "a layout");
  }
  if (std::optional<MemoryFormat> value = memoryFormatFromName(name)) return out = Arg::memoryFormat(*value), true;
  return scan_.failAt(at, "a memory format");
}

bool Parser::complexNumber(Arg& out) {
  double real = 0, imaginary = 0;
  if (!scan_.expect('(') || !scan_.number(real) || !scan_.expect(',') || !scan_.number(imaginary) ||
      !scan_.expect(')')) {
    return false;
  }
  out = Arg::complex(scratch_.make<std::complex<double>>(real, imaginary));
  return true;
}

bool Parser::opaque(Arg& out) {
  if (!scan_.expect('(') || !scan_.quoted(buffer_) || !scan_.expect(',')) return false;
  std::string_view className = scratch_.copy(std::string_view(buffer_));
  scan_.skip();
  size_t at = scan_.at();
  while (scan_.current() >= '0' && scan_.current() <= '9') scan_.seek(scan_.at() + 1);
  std::string_view digits = scan_.slice(at);
  uint64_t number = 0;
  if (digits.empty() || std::from_chars(digits.data(), digits.data() + digits.size(), number).ec != std::errc()) {
    return scan_.failAt(at, "the number of an object");
  }
  if (!scan_.expect(')')) return false;
  out = Arg::opaque(scratch_.make<OpaqueRef>(OpaqueRef{className, number}));
  return true;
}

bool Parser::symbolic(Arg& out) {
  const sym::Node* node = nullptr;
  if (!expression(node)) return false;
  if (node->isInt()) {
    out = Arg::symInt(sym::Int(node));
  } else if (node->isBool()) {
    out = Arg::symBool(sym::Bool(node));
  } else {
    out = Arg::symFloat(sym::Float(node));
  }
  return true;
}

bool Parser::expression(const sym::Node*& out) {
  scan_.skip();
  size_t at = scan_.at();
  sym::Context& symbols = context_.symbols();
  if (std::string_view name = scan_.identifier(); !name.empty() && !scan_.expressionContinues()) {
    const sym::Symbol* symbol = symbols.find(name);
    if (symbol) return out = symbol->node, true;
  }
  std::string message;
  out = sym::parseExpression(symbols, scan_.text(), at, message);
  if (!out) return scan_.refuseAt(at, std::move(message));
  scan_.seek(at);
  return true;
}

}  // namespace saker::ir::detail
