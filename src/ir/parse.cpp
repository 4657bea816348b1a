#include "ir/parse.h"

#include <charconv>

#include "ir/parser.h"

namespace saker::ir {
namespace detail {

std::unique_ptr<Graph> Parser::graph(std::shared_ptr<Context> context) {
  for (;;) {
    if (scan_.takeWord("symbol")) {
      if (!symbol()) return nullptr;
    } else if (scan_.takeWord("fact")) {
      if (!fact(/*guard=*/false)) return nullptr;
    } else if (scan_.takeWord("guard")) {
      if (!fact(/*guard=*/true)) return nullptr;
    } else {
      break;
    }
  }
  if (!scan_.takeWord("graph")) return scan_.fail("'graph', 'symbol', 'fact' or 'guard'"), nullptr;
  std::string name;
  if (!graphName(name)) return nullptr;
  auto graph = std::make_unique<Graph>(std::move(context), std::move(name));
  graph_ = graph.get();
  if (!parameters(graph->top()) || !body(graph->top(), 0)) return nullptr;
  scan_.skip();
  if (!scan_.atEnd()) return scan_.fail("the end of the text"), nullptr;
  return graph;
}

bool Parser::symbol() {
  scan_.skip();
  size_t at = scan_.at();
  std::string_view name = scan_.identifier();
  if (!sym::isSymbolName(name) || name == "None") return scan_.failAt(at, "the name of a symbol");
  enum { kInt, kBool, kFloat } kind = kInt;
  sym::Range range = sym::Range::all();
  if (scan_.take(':')) {
    if (scan_.takeWord("bool")) {
      kind = kBool;
    } else if (scan_.takeWord("float")) {
      kind = kFloat;
    } else {
      return scan_.fail("'bool' or 'float'");
    }
  } else {
    if (!scan_.takeWord("in")) return scan_.fail("'in' and a range, or ': bool' or ': float'");
    size_t rangeAt = scan_.at();
    if (!scan_.expect('[')) return false;
    if (scan_.peek('-') && scan_.text().substr(scan_.at()).starts_with("-inf")) {
      scan_.seek(scan_.at() + 4);
    } else if (!scan_.integer(range.low, "the lower end of a range")) {
      return false;
    }
    if (!scan_.expect(',')) return false;
    if (!scan_.takeWord("inf") && !scan_.integer(range.high, "the upper end of a range")) return false;
    if (!scan_.expect(']')) return false;
    if (range.empty()) return scan_.refuseAt(rangeAt, "expected a range with at least one number");
  }
  std::optional<int64_t> example;
  std::optional<double> floatExample;
  if (scan_.takeWord("example")) {
    scan_.skip();
    size_t exampleAt = scan_.at();
    if (kind == kBool) {
      bool yes = scan_.takeWord("True");
      if (!yes && !scan_.takeWord("False")) return scan_.fail("True or False");
      example = yes;
    } else if (kind == kFloat) {
      if (!scan_.number(floatExample.emplace())) return false;
    } else {
      if (!scan_.integer(example.emplace(), "an integer")) return false;
      if (!range.contains(*example)) return scan_.refuseAt(exampleAt, "expected an example within the range");
    }
  }
  sym::Context& symbols = context_.symbols();
  if (const sym::Symbol* known = symbols.find(name)) {
    bool same = kind == kInt    ? known->node->kind == sym::Kind::Symbol && known->node->range == range
                : kind == kBool ? known->node->kind == sym::Kind::BoolSymbol
                                : known->node->kind == sym::Kind::FloatSymbol;
    if (!same) return scan_.refuseAt(at, "symbol " + std::string(name) + " exists with another range or kind");
    return true;
  }
  switch (kind) {
    case kInt:
      symbols.symbol(name, range, example);
      break;
    case kBool:
      symbols.boolSymbol(name, example ? std::optional(*example != 0) : std::nullopt);
      break;
    case kFloat:
      symbols.floatSymbol(name, floatExample);
      break;
  }
  return true;
}

// A guard is a fact that later runs have to check.
bool Parser::fact(bool guard) {
  scan_.skip();
  size_t at = scan_.at();
  const sym::Node* condition = nullptr;
  if (!expression(condition)) return false;
  if (!condition->isBool()) return scan_.refuseAt(at, "expected a condition, found a number");
  try {
    if (guard ? context_.symbols().decide(condition) : context_.symbols().facts().assume(condition)) return true;
  } catch (const std::runtime_error& refusal) {  // Overflow, Undecided
    return scan_.refuseAt(at, refusal.what());
  }
  return scan_.refuseAt(at, "the fact contradicts what is known");
}

bool Parser::graphName(std::string& name) {
  if (!scan_.expect('@')) return false;
  if (scan_.current() == '"') return scan_.quoted(name);
  size_t start = scan_.at();
  while (isIdentifierChar(scan_.current()) || scan_.current() == '.') scan_.seek(scan_.at() + 1);
  name = scan_.slice(start);
  if (name.empty() || !isIdentifierStart(name[0])) return scan_.failAt(start, "the name of the graph");
  return true;
}

bool Parser::valueName(Name& out) {
  scan_.skip();
  out.at = scan_.at();
  if (!scan_.take('%')) return scan_.fail("a value");
  size_t start = scan_.at();
  char c = scan_.current();
  if (c == '"') {
    if (!scan_.quoted(buffer_)) return false;
    if (buffer_.empty()) return scan_.failAt(start, "the name of a value");
    out.text = scratch_.copy(std::string_view(buffer_));
    return true;
  }
  while (isIdentifierChar(scan_.current()) || scan_.current() == '.') scan_.seek(scan_.at() + 1);
  out.text = scan_.slice(start);
  if (out.text.empty()) return scan_.fail("the name of a value");
  if (c >= '0' && c <= '9') {
    out.numbered = true;
    const char* end = out.text.data() + out.text.size();
    auto [last, error] = std::from_chars(out.text.data(), end, out.number);
    // Numbers are dense where we print them; a limit keeps the table small whatever is written.
    if (error != std::errc() || last != end || out.number > scan_.text().size() + 65536) {
      return scan_.failAt(start, "the number or the name of a value");
    }
  } else if (!isIdentifierStart(c)) {
    return scan_.failAt(start, "the number or the name of a value");
  }
  return true;
}

bool Parser::define(const Name& name, Value* value) {
  bool fresh;
  if (name.numbered) {
    if (name.number >= numbered_.size()) numbered_.resize(std::max<size_t>(name.number + 1, numbered_.size() * 2));
    fresh = !numbered_[name.number];
    numbered_[name.number] = value;
  } else {
    graph_->setName(value, name.text);
    auto [known, made] = named_.emplace(value->name(), value);
    const Region* before = made ? nullptr : known->second->region();
    fresh = made || (before != value->region() && !isOpen(before));  // bodies beside each other may use one name
    if (fresh) known->second = value;
  }
  return fresh || scan_.refuseAt(name.at, "%" + std::string(name.text) + " is defined twice");
}

bool Parser::isOpen(const Region* region) const {
  const Region* open = region_;
  while (open && open != region) open = open->owner() ? open->owner()->region() : nullptr;
  return open != nullptr;
}

bool Parser::use(const Name& name, Value*& out) {
  out = nullptr;
  if (name.numbered) {
    if (name.number < numbered_.size()) out = numbered_[name.number];
  } else if (auto found = named_.find(name.text); found != named_.end()) {
    out = found->second;
  }
  if (!out) return scan_.refuseAt(name.at, "%" + std::string(name.text) + " is used but not defined before");
  if (isOpen(out->region())) return true;
  return scan_.refuseAt(name.at, "%" + std::string(name.text) + " is defined in a region that has ended");
}

bool Parser::parameters(Region* region) {
  if (!scan_.expect('(')) return false;
  if (scan_.take(')')) return true;
  do {
    Arena::Mark mark = scratch_.mark();
    Name name;
    const Type* parameterType = nullptr;
    if (!valueName(name) || !scan_.expect(':') || !type(parameterType, 0)) return false;
    if (!define(name, graph_->addParameter(region, parameterType))) return false;
    scratch_.reset(mark);
  } while (scan_.take(','));
  return scan_.expect(')');
}

bool Parser::body(Region* region, int depth) {
  if (depth > kMaxNesting) return scan_.fail("regions nested less deeply");
  if (!scan_.expect('{')) return false;
  Region* around = region_;
  region_ = region;
  while (!scan_.take('}')) {
    if (region->terminator()) return scan_.fail("'}' after return");
    if (!statement(region, depth)) return false;
  }
  region_ = around;
  return true;
}

bool Parser::statement(Region* region, int depth) {
  Arena::Mark mark = scratch_.mark();
  scan_.skip();
  size_t start = scan_.at();
  if (scan_.takeWord("return")) {
    bool ok = returns(region);
    nodePlaces_.push_back(start);
    scratch_.reset(mark);
    return ok;
  }
  Names names;
  Types types;
  if (scan_.peek('%') && !results(names, types)) return false;
  scan_.skip();
  size_t opAt = scan_.at();
  const OpDef* op = nullptr;
  Arguments given;
  Origin origin;
  if (!operatorName(op) || !arguments(op, opAt, given)) return false;
  if (!attributes(origin.attributes) || !location(origin.location)) return false;
  Node* node = graph_->create(op, given.positional, types, 0, origin);
  graph_->append(region, node);
  nodePlaces_.push_back(start);
  if (scan_.peek('{') && !bodies(node, depth)) return false;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!define(names[i], node->result(i))) return false;
  }
  scratch_.reset(mark);
  return true;
}

bool Parser::returns(Region* region) {
  SmallVec<Arg, 16> values;
  const Location* location = nullptr;
  // The first value stands on the line of its return, so that a statement behind it is not taken for one.
  scan_.skipBlanks();
  bool lineEnds = scan_.atEnd() || std::string_view("}#\r\n").find(scan_.current()) != std::string_view::npos;
  if (!lineEnds && !(scan_.peekWord("loc") && scan_.ahead(3) == '(')) {
    do {
      Arg value;
      if (!arg(value, 0)) return false;
      values.push_back(value);
    } while (scan_.take(','));
  }
  if (!this->location(location)) return false;
  graph_->appendReturn(region, values, location);
  return true;
}

bool Parser::results(Names& names, Types& types) {
  do {
    Name name;
    const Type* resultType = nullptr;
    if (!valueName(name) || !scan_.expect(':') || !type(resultType, 0)) return false;
    names.push_back(name);
    types.push_back(resultType);
  } while (scan_.take(','));
  return scan_.expect('=');
}

bool Parser::operatorName(const OpDef*& op) {
  size_t start = scan_.at();
  if (scan_.current() == '"') {
    if (!scan_.quoted(buffer_)) return false;
    op = context_.op(buffer_);
    return true;
  }
  if (!isIdentifierStart(scan_.current())) return scan_.fail("an operator");
  for (char c = scan_.current(); isIdentifierChar(c) || c == '.' || c == ':'; c = scan_.current()) {
    scan_.seek(scan_.at() + 1);
  }
  op = context_.op(scan_.slice(start));
  return true;
}

bool Parser::bodies(Node* node, int depth) {
  if (!scan_.expect('{')) return false;
  do {
    Region* region = graph_->addRegion(node);
    if (!parameters(region) || !body(region, depth + 1)) return false;
  } while (scan_.take(','));
  return scan_.expect('}');
}

bool Parser::attributes(Attributes& out) {
  if (!scan_.take('[')) return true;
  do {
    scan_.skip();
    size_t at = scan_.at();
    std::string_view word = scan_.identifier();
    Attributes before = out;
    Attributes::Checkpoint checkpoint = Attributes::Checkpoint::None;
#define X(member, text) \
  if (word == text) out.member = true;
    SAKER_NODE_FLAGS(X)
#undef X
#define X(enumerator, text) \
  if (word == text) checkpoint = Attributes::Checkpoint::enumerator;
    SAKER_CHECKPOINTS(X)
#undef X
    if (word == "call" && !out.call) {
      int64_t call = 0;
      if (!scan_.expect(':')) return false;
      scan_.skip();
      size_t callAt = scan_.at();
      if (!scan_.integer(call, "the number of a call of a region")) return false;
      if (call < 1 || call > int64_t{Attributes::kMaxRegion}) {
        return scan_.failAt(callAt, "the number of a call of a region, from 1 on");
      }
      out.call = static_cast<uint16_t>(call);
    } else if (checkpoint != Attributes::Checkpoint::None) {
      if (out.isCheckpointed()) return scan_.refuseAt(at, "a node is in one checkpoint region, not in two");
      int64_t region = 0;
      if (!scan_.expect(':')) return false;
      scan_.skip();
      size_t regionAt = scan_.at();
      if (!scan_.integer(region, "the number of a checkpoint region")) return false;
      if (region < 1 || region > int64_t{Attributes::kMaxRegion}) {
        return scan_.failAt(regionAt, "the number of a checkpoint region, from 1 on");
      }
      out.checkpoint = checkpoint;
      out.region = static_cast<uint16_t>(region);
    } else if (out == before) {
      return scan_.failAt(at, "an attribute of a node that is not there already");
    }
  } while (scan_.take(','));
  return scan_.expect(']');
}

bool Parser::location(const Location*& out) {
  if (!scan_.peekWord("loc") || scan_.ahead(3) != '(') return true;
  scan_.seek(scan_.at() + 4);
  struct Frame {
    std::string file, function, modulePath;
    int64_t line = 0;
  };
  std::vector<Frame> frames;  // from the innermost
  do {
    Frame& frame = frames.emplace_back();
    if (!scan_.quoted(frame.file) || !scan_.expect(':')) return false;
    size_t at = scan_.at();
    if (!scan_.integer(frame.line, "a line number")) return false;
    if (frame.line != static_cast<int>(frame.line)) return scan_.failAt(at, "a line number");
    if (scan_.takeWord("in") && !scan_.quoted(frame.function)) return false;
    if (scan_.takeWord("at") && !scan_.quoted(frame.modulePath)) return false;
  } while (scan_.takeWord("from"));
  if (!scan_.expect(')')) return false;
  for (size_t i = frames.size(); i-- > 0;) {
    out = context_.location(frames[i].file, static_cast<int>(frames[i].line), frames[i].function, frames[i].modulePath,
                            out);
  }
  return true;
}

}  // namespace detail

ParseError errorAt(std::string_view text, size_t place, std::string message) {
  ParseError error{1, 1, std::move(message)};
  for (char c : text.substr(0, place)) {
    if (c == '\n') {
      ++error.line;
      error.column = 1;
    } else if ((static_cast<uint8_t>(c) & 0xC0) != 0x80) {  // characters count, not bytes
      ++error.column;
    }
  }
  return error;
}

Parsed parse(std::string_view text, std::shared_ptr<Context> context) {
  detail::Parser parser(text, *context);
  Parsed result;
  result.graph = parser.graph(std::move(context));
  if (!result.graph) result.error = parser.error();
  result.nodePlaces = parser.takeNodePlaces();
  return result;
}

ParsedType parseType(std::string_view text, Context& context) {
  detail::Parser parser(text, context);
  ParsedType result;
  result.type = parser.wholeType();
  if (!result.type) result.error = parser.error();
  return result;
}

}  // namespace saker::ir
