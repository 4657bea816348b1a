#include "ir/schema.h"

#include <charconv>

#include "ir/schema_default.h"

namespace saker::ir {
namespace {

using Base = SchemaType::Base;

struct BaseName {
  std::string_view name;
  Base base;
};
constexpr BaseName kBaseNames[] = {
    {"Tensor", Base::Tensor},       {"int", Base::Int},
    {"SymInt", Base::SymInt},       {"float", Base::Float},
    {"SymFloat", Base::SymFloat},   {"bool", Base::Bool},
    {"SymBool", Base::SymBool},     {"complex", Base::Complex},
    {"Scalar", Base::Scalar},       {"str", Base::String},
    {"ScalarType", Base::DType},    {"Device", Base::Device},
    {"Layout", Base::Layout},       {"MemoryFormat", Base::MemoryFormat},
    {"Generator", Base::Generator}, {"Stream", Base::Stream},
    {"Storage", Base::Storage},
};

bool isNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Recursive only through parameters of types, which this many levels bound.
constexpr int kMaxTypeDepth = 16;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<Schema> run() {
    Schema schema;
    if (!operatorName(schema) || !expect('(') || !arguments(schema) || !arrow() || !returns(schema)) return {};
    skipSpace();
    if (at_ != text_.size()) return fail("expected the end of the schema"), std::nullopt;
    return schema;
  }

  SchemaError error() const { return {errorAt_, message_}; }

 private:
  bool fail(std::string message) {
    if (message_.empty()) {
      errorAt_ = at_;
      message_ = std::move(message);
      message_ += at_ < text_.size() ? ", found '" + std::string(1, text_[at_]) + "'" : ", found the end";
    }
    return false;
  }
  void skipSpace() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool peek(char c) {
    skipSpace();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) { return peek(c) ? ++at_, true : false; }
  bool take(std::string_view word) {
    skipSpace();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  bool expect(char c) { return take(c) || fail(std::string("expected '") + c + "'"); }
  bool arrow() { return take("->") || fail("expected '->'"); }

  std::string_view identifier() {
    skipSpace();
    size_t start = at_;
    while (at_ < text_.size() && isNameChar(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }

  // aten::add.Tensor; a namespace is optional.
  bool operatorName(Schema& schema) {
    skipSpace();
    size_t start = at_;
    while (at_ < text_.size() && (isNameChar(text_[at_]) || text_[at_] == ':')) ++at_;
    schema.name = text_.substr(start, at_ - start);
    if (schema.name.empty() || schema.name.back() == ':') return fail("expected the name of an operator");
    if (take('.')) {
      schema.overload = identifier();
      if (schema.overload.empty()) return fail("expected the name of an overload");
    }
    return true;
  }

  bool arguments(Schema& schema) {
    if (take(')')) return true;
    bool keywordOnly = false;
    do {
      if (take("...")) {
        schema.variadicArguments = true;
      } else if (take('*')) {
        keywordOnly = true;
      } else {
        SchemaArgument argument;
        if (!type(argument, 0)) return false;
        argument.keywordOnly = keywordOnly;
        argument.name = identifier();
        if (argument.name.empty()) return fail("expected the name of an argument");
        if (take('=') && !defaultValue(argument)) return false;
        schema.arguments.push_back(std::move(argument));
      }
    } while (take(','));
    return expect(')');
  }

  bool returns(Schema& schema) {
    if (take("...")) return schema.variadicReturns = true;
    size_t start = at_;
    if (peek('(')) {
      ++at_;
      if (take(')')) return true;
      do {
        if (take("...")) {
          schema.variadicReturns = true;
          continue;
        }
        SchemaArgument result;
        if (!type(result, 0)) return false;
        result.name = identifier();
        schema.returns.push_back(std::move(result));
      } while (take(','));
      if (!expect(')')) return false;
      skipSpace();
      if (at_ == text_.size()) return true;
      // Not a list of results: a tuple with a suffix.
      schema.returns.clear();
      at_ = start;
    }
    SchemaArgument result;
    if (!type(result, 0)) return false;
    result.name = identifier();
    schema.returns.push_back(std::move(result));
    return true;
  }

  bool type(SchemaArgument& out, int depth) {
    if (depth > kMaxTypeDepth) return fail("expected a type nested less deeply");
    skipSpace();
    size_t start = at_;
    out.type.base = Base::Other;
    if (peek('(')) {
      if (!typeParameters(depth)) return false;
    } else {
      std::string_view name = dottedName();
      if (name.empty()) return fail("expected a type");
      for (const BaseName& known : kBaseNames) {
        if (known.name == name) out.type.base = known.base;
      }
      bool generic = name == "Dict" || name == "Future" || name == "RRef" || name == "Await" || name == "Union";
      if (generic && !typeParameters(depth)) return false;
    }
    return suffixes(out, start);
  }

  // [], [3], ?, (a!) in any order; more than the four flags can say makes it a type of its own.
  bool suffixes(SchemaArgument& out, size_t start) {
    SchemaType& type = out.type;
    bool nested = false;
    size_t end = at_;
    for (;; end = at_) {
      if (at_ < text_.size() && text_[at_] == '[') {
        ++at_;
        nested |= type.list;
        if (type.optional) type.elementOptional = true;
        type.optional = false;
        type.list = true;
        std::string_view digits = identifier();
        if (!digits.empty()) {
          auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), type.fixedSize);
          if (error != std::errc() || last != digits.data() + digits.size()) return fail("expected the size of a list");
        }
        if (!expect(']')) return false;
      } else if (at_ < text_.size() && text_[at_] == '?') {
        ++at_;
        type.optional = true;
      } else if (at_ < text_.size() && text_[at_] == '(') {
        if (!alias(out)) return false;
      } else {
        break;
      }
    }
    if (nested) type = SchemaType{.base = Base::Other};
    if (type.base == Base::Other) type.other = text_.substr(start, end - start);
    return true;
  }

  bool alias(SchemaArgument& out) {
    size_t start = ++at_;
    while (at_ < text_.size() && text_[at_] != ')') ++at_;
    std::string set;
    for (char c : text_.substr(start, at_ - start)) {
      if (c == '!') {
        out.writes = true;
      } else {
        set += c;
      }
    }
    if (set.empty()) return fail("expected the name of an alias set");
    if (out.alias.empty()) out.alias = std::move(set);
    return expect(')');
  }

  bool typeParameters(int depth) {
    if (!expect('(')) return false;
    do {
      SchemaArgument parameter;
      if (!type(parameter, depth + 1)) return false;
    } while (take(','));
    return expect(')');
  }

  std::string_view dottedName() {
    size_t start = at_;
    while (at_ < text_.size() && (isNameChar(text_[at_]) || text_[at_] == '.')) ++at_;
    return text_.substr(start, at_ - start);
  }

  bool defaultValue(SchemaArgument& argument) {
    skipSpace();
    size_t start = at_;
    char first = at_ < text_.size() ? text_[at_] : '\0';
    if (first == '[') {
      while (at_ < text_.size() && text_[at_] != ']') ++at_;
      if (!expect(']')) return false;
    } else if (first == '"' || first == '\'') {
      for (++at_; at_ < text_.size() && text_[at_] != first; ++at_) at_ += text_[at_] == '\\';
      if (at_ >= text_.size()) at_ = text_.size();
      if (!expect(first)) return false;
    } else {
      while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')' && text_[at_] != ' ') ++at_;
    }
    if (at_ == start) return fail("expected a default");
    argument.hasDefault = true;
    argument.defaultText = text_.substr(start, at_ - start);
    detail::resolveDefault(argument);
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t errorAt_ = 0;
  std::string message_;
};

std::string_view baseName(const SchemaType& type) {
  for (const BaseName& known : kBaseNames) {
    if (known.base == type.base) return known.name;
  }
  return type.other;
}

void appendType(std::string& out, const SchemaArgument& argument) {
  const SchemaType& type = argument.type;
  out += baseName(type);
  if (type.base == Base::Other) return;  // as written, annotations included
  std::string alias;
  if (!argument.alias.empty()) {
    size_t arrow = argument.alias.find(" -> ");
    std::string before = argument.alias.substr(0, arrow);
    alias =
        '(' + before + (argument.writes ? "!" : "") + (arrow == alias.npos ? "" : argument.alias.substr(arrow)) + ')';
  }
  // A set of a list of tensors is that of its elements.
  if (!type.list || type.base == Base::Tensor) out += alias;
  if (type.elementOptional) out += '?';
  if (type.list) out += type.fixedSize ? '[' + std::to_string(type.fixedSize) + ']' : "[]";
  if (type.list && type.base != Base::Tensor) out += alias;
  if (type.optional) out += '?';
}

}  // namespace

std::optional<size_t> Schema::indexOf(std::string_view argument) const {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name == argument) return i;
  }
  return std::nullopt;
}

bool Schema::writesAnything() const {
  for (const SchemaArgument& argument : arguments) {
    if (argument.writes) return true;
  }
  return false;
}

std::optional<Schema> parseSchema(std::string_view text, SchemaError* error) {
  Parser parser(text);
  std::optional<Schema> schema = parser.run();
  if (!schema && error) *error = parser.error();
  return schema;
}

std::string toString(const Schema& schema) {
  std::string out = schema.qualified() + "(";
  bool first = true, star = false;
  auto comma = [&] {
    if (!first) out += ", ";
    first = false;
  };
  for (const SchemaArgument& argument : schema.arguments) {
    comma();
    if (argument.keywordOnly && !star) out += "*, ";
    star |= argument.keywordOnly;
    appendType(out, argument);
    out += ' ' + argument.name;
    if (argument.hasDefault) out += '=' + argument.defaultText;
  }
  if (schema.variadicArguments) comma(), out += "...";
  out += ") -> ";
  first = true;
  bool single = schema.returns.size() + schema.variadicReturns == 1 &&
                (schema.variadicReturns || !schema.returns[0].type.other.starts_with('('));
  if (!single) out += '(';
  for (const SchemaArgument& result : schema.returns) {
    comma();
    appendType(out, result);
    if (!result.name.empty()) out += ' ' + result.name;
  }
  if (schema.variadicReturns) comma(), out += "...";
  if (!single) out += ')';
  return out;
}

}  // namespace saker::ir
