#include "ir/print.h"

#include <unordered_map>

#include "ir/text.h"

namespace saker::ir {
namespace {

constexpr size_t kLineLength = 120;
constexpr size_t kIndent = 2;

bool isPlainName(std::string_view name) {
  if (name.empty() || !isIdentifierStart(name[0])) return false;
  for (char c : name) {
    if (!isIdentifierChar(c) && c != '.') return false;
  }
  return true;
}

bool isPlainOperator(std::string_view name) {
  if (name.empty() || !isIdentifierStart(name[0]) || name == "return") return false;
  for (char c : name) {
    if (!isIdentifierChar(c) && c != '.' && c != ':') return false;
  }
  return true;
}

class Printer {
 public:
  Printer(const Graph& graph, PrintOptions options)
      : graph_(graph), symbols_(graph.context().symbols()), options_(options), names_(graph) {}

  std::string run() {
    symbols();
    out_ += "graph @";
    if (isPlainName(graph_.name())) {
      out_ += graph_.name();
    } else {
      appendQuoted(out_, graph_.name());
    }
    parameters(*graph_.top(), 0);
    out_ += " {\n";
    body(*graph_.top(), kIndent);
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  void symbols() {
    for (const sym::Symbol& symbol : symbols_.symbols()) {
      out_ += "symbol ";
      out_ += symbol.name;
      if (symbol.node->isBool()) {
        out_ += ": bool";
        if (symbol.example) out_ += *symbol.example ? " example True" : " example False";
      } else if (symbol.node->isFloat()) {
        out_ += ": float";
        if (symbol.floatExample) out_ += " example ", appendFloat(out_, *symbol.floatExample);
      } else {
        sym::Range range = symbol.node->range;
        out_ += " in [";
        if (range.low == sym::Range::kNegInf) {
          out_ += "-inf";
        } else {
          appendInt(out_, range.low);
        }
        out_ += ", ";
        if (range.high == sym::Range::kInf) {
          out_ += "inf";
        } else {
          appendInt(out_, range.high);
        }
        out_ += ']';
        if (symbol.example) out_ += " example ", appendInt(out_, *symbol.example);
      }
      out_ += '\n';
    }
    for (const sym::Node* fact : symbols_.facts().assumed()) {
      out_ += options_.guards && isGuard(fact) ? "guard " : "fact ";
      out_ += sym::toString(fact);
      out_ += '\n';
    }
  }

  bool isGuard(const sym::Node* fact) const {
    for (const sym::Guard& guard : symbols_.guards()) {
      if (guard.condition == fact) return true;
    }
    return false;
  }

  void parameters(const Region& region, size_t indent) {
    size_t start = out_.size();
    size_t lineStart = out_.rfind('\n', start);
    lineStart = lineStart == out_.npos ? 0 : lineStart + 1;
    parameterList(region, ", ");
    if (out_.size() - lineStart <= kLineLength || region.parameters().size() < 2) return;
    // Too long for one line: one parameter each.
    out_.resize(start);
    typeTexts_.clear();
    parameterList(region, ",\n" + std::string(indent + 2 * kIndent, ' '));
  }

  void parameterList(const Region& region, std::string_view separator) {
    out_ += '(';
    bool first = true;
    for (const Value* parameter : region.parameters()) {
      if (!first) {
        out_ += separator;
      } else if (separator.size() > 2) {
        out_ += separator.substr(1);
      }
      first = false;
      definition(parameter);
    }
    out_ += ')';
  }

  void definition(const Value* value) {
    names_.append(out_, value);
    out_ += ": ";
    type(value->type());
  }

  // Types repeat: the text of one seen before is copied from where it stands.
  void type(const Type* type) {
    auto [seen, fresh] = typeTexts_.try_emplace(type);
    if (fresh) {
      seen->second.first = out_.size();
      appendType(out_, type);
      seen->second.second = out_.size() - seen->second.first;
    } else {
      auto [at, length] = seen->second;
      out_.reserve(out_.size() + length);
      out_.append(out_.data() + at, length);
    }
  }

  void body(const Region& region, size_t indent) {
    for (const Node* node = region.first(); node; node = node->next()) {
      out_.append(indent, ' ');
      statement(*node, indent);
      out_ += '\n';
    }
  }

  void statement(const Node& node, size_t indent) {
    for (size_t i = 0; i < node.resultCount(); ++i) {
      if (i) out_ += ", ";
      definition(node.result(i));
    }
    if (node.resultCount()) out_ += " = ";
    if (node.isReturn()) {
      out_ += "return";
      const char* separator = " ";
      for (const Arg& value : node.args()) {
        out_ += separator;
        arg(value);
        separator = ", ";
      }
    } else {
      if (isPlainOperator(node.op()->qualified)) {
        out_ += node.op()->qualified;
      } else {
        appendQuoted(out_, node.op()->qualified);
      }
      out_ += '(';
      arguments(node);
      out_ += ')';
    }
    if (node.attributes() != Attributes{}) attributes(node.attributes());
    if (options_.locations && node.location()) location(*node.location());
    regions(node, indent);
  }

  void regions(const Node& node, size_t indent) {
    if (node.regions().empty()) return;
    out_ += " {\n";
    const char* separator = "";
    for (const Region* region : node.regions()) {
      out_ += separator;
      out_.append(indent + kIndent, ' ');
      parameters(*region, indent + kIndent);
      out_ += " {\n";
      body(*region, indent + 2 * kIndent);
      out_.append(indent + kIndent, ' ');
      out_ += '}';
      separator = ",\n";
    }
    out_ += '\n';
    out_.append(indent, ' ');
    out_ += '}';
  }

  static bool isDefault(const Schema& schema, size_t i, const Arg& arg) {
    const std::optional<Arg>& value = schema.arguments[i].defaultValue;
    return value && sameArg(*value, arg);
  }

  void arguments(const Node& node) {
    std::span<const Arg> args = node.args();
    const Schema* schema = node.op()->schema;
    // Arguments that do not fit the schema are all written.
    if (schema && (schema->variadicArguments || schema->arguments.size() != args.size())) schema = nullptr;
    size_t positional = args.size();
    if (schema) {
      while (positional > 0 && schema->arguments[positional - 1].keywordOnly) --positional;
      while (positional > 0 && isDefault(*schema, positional - 1, args[positional - 1])) --positional;
    }
    const char* separator = "";
    for (size_t i = 0; i < args.size(); ++i) {
      bool named = i >= positional;
      if (named && isDefault(*schema, i, args[i])) continue;
      out_ += separator;
      if (named) {
        out_ += schema->arguments[i].name;
        out_ += '=';
      }
      arg(args[i]);
      separator = ", ";
    }
  }

  void arg(const Arg& arg) {
    switch (arg.kind()) {
      case Arg::Kind::None:
        out_ += "None";
        break;
      case Arg::Kind::Bool:
        out_ += arg.toBool() ? "True" : "False";
        break;
      case Arg::Kind::Int:
        appendInt(out_, arg.toInt());
        break;
      case Arg::Kind::Float:
        appendFloat(out_, arg.toFloat());
        break;
      case Arg::Kind::Complex:
        out_ += "complex(";
        appendFloat(out_, arg.toComplex().real());
        out_ += ", ";
        appendFloat(out_, arg.toComplex().imag());
        out_ += ')';
        break;
      case Arg::Kind::String:
        appendQuoted(out_, arg.toString());
        break;
      case Arg::Kind::DType:
        if (symbols_.find(name(arg.toDType()))) out_ += "dtype.";
        out_ += name(arg.toDType());
        break;
      case Arg::Kind::Device:
        if (symbols_.find(toString(Device{arg.toDevice().type, -1}))) out_ += "device.";
        out_ += toString(arg.toDevice());
        break;
      case Arg::Kind::Layout:
        out_ += "layout.";
        out_ += name(arg.toLayout());
        break;
      case Arg::Kind::MemoryFormat:
        out_ += "format.";
        out_ += name(arg.toMemoryFormat());
        break;
      case Arg::Kind::SymInt:
      case Arg::Kind::SymBool:
      case Arg::Kind::SymFloat:
        out_ += sym::toString(arg.toSym());
        break;
      case Arg::Kind::Opaque:
        out_ += "opaque(";
        appendQuoted(out_, arg.toOpaque()->className);
        out_ += ", ";
        out_ += std::to_string(arg.toOpaque()->number);
        out_ += ')';
        break;
      case Arg::Kind::Value:
        names_.append(out_, arg.toValue());
        break;
      case Arg::Kind::List: {
        out_ += '[';
        const char* separator = "";
        for (const Arg& element : arg.toList()) {
          out_ += separator;
          this->arg(element);
          separator = ", ";
        }
        out_ += ']';
        break;
      }
      case Arg::Kind::Type:
        appendType(out_, arg.toType());
        break;
    }
  }

  void attributes(Attributes known) {
    out_ += " [";
    const char* separator = "";
    auto add = [&](std::string_view name) {
      out_ += separator;
      out_ += name;
      separator = ", ";
    };
#define X(member, text) \
  if (known.member) add(text);
    SAKER_NODE_FLAGS(X)
#undef X
    if (known.isCheckpointed()) {
      add(textOf(known.checkpoint));
      out_ += ": ";
      appendInt(out_, int64_t{known.region});
    }
    if (known.call) {
      add("call");
      out_ += ": ";
      appendInt(out_, int64_t{known.call});
    }
    out_ += ']';
  }

  static std::string_view textOf(Attributes::Checkpoint checkpoint) {
    switch (checkpoint) {
#define X(enumerator, text)                \
  case Attributes::Checkpoint::enumerator: \
    return text;
      SAKER_CHECKPOINTS(X)
#undef X
      case Attributes::Checkpoint::None:
        break;
    }
    return "";
  }

  void location(const Location& innermost) {
    out_ += " loc(";
    for (const Location* at = &innermost; at; at = at->caller) {
      if (at != &innermost) out_ += " from ";
      appendQuoted(out_, at->file);
      out_ += ':';
      appendInt(out_, at->line);
      if (!at->function.empty()) out_ += " in ", appendQuoted(out_, at->function);
      if (!at->modulePath.empty()) out_ += " at ", appendQuoted(out_, at->modulePath);
    }
    out_ += ')';
  }

  const Graph& graph_;
  const sym::Context& symbols_;
  PrintOptions options_;
  ValueNames names_;
  std::unordered_map<const Type*, std::pair<size_t, size_t>> typeTexts_;
  std::string out_;
};

}  // namespace

ValueNames::ValueNames(const Graph& graph) : numbers_(graph.valueLimit(), kNone) { number(graph.top()); }

void ValueNames::number(const Value* value, std::vector<std::string_view>& names) {
  if (!value->name().empty() && known_.insert(value->name()).second) {
    names.push_back(value->name());
  } else {
    numbers_[value->id()] = next_++;
  }
}

void ValueNames::number(const Region* region) {
  std::vector<std::string_view> names;
  for (const Value* parameter : region->parameters()) number(parameter, names);
  for (const Node* node = region->first(); node; node = node->next()) {
    for (size_t i = 0; i < node->resultCount(); ++i) number(node->result(i), names);
    for (const Region* body : node->regions()) number(body);
  }
  for (std::string_view name : names) known_.erase(name);
}

void ValueNames::append(std::string& out, const Value* value) const {
  out += '%';
  if (value->id() < numbers_.size() && numbers_[value->id()] != kNone) {
    appendInt(out, int64_t{numbers_[value->id()]});
  } else if (!value->name().empty()) {
    if (isPlainName(value->name())) {
      out += value->name();
    } else {
      appendQuoted(out, value->name());
    }
  } else {
    out += "<not in the graph>";
  }
}

std::string ValueNames::of(const Value* value) const {
  std::string out;
  append(out, value);
  return out;
}

std::string ValueNames::of(const Node* node) const {
  std::string out;
  for (size_t i = 0; i < node->resultCount(); ++i) {
    if (i) out += ", ";
    append(out, node->result(i));
  }
  if (node->resultCount()) out += " = ";
  return out + node->op()->qualified;
}

std::string print(const Graph& graph, PrintOptions options) { return Printer(graph, options).run(); }

}  // namespace saker::ir
