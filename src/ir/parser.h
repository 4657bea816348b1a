// Internal: the recursive descent. One function per rule of the grammar; each returns false after leaving an error in
// the scanner.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "ir/scanner.h"
#include "support/arena.h"
#include "support/small_vec.h"

namespace saker::ir::detail {

// Lists in lists, types in types and regions in regions go this deep.
inline constexpr int kMaxNesting = 100;

class Parser {
 public:
  Parser(std::string_view text, Context& context) : scan_(text), context_(context) {}

  std::unique_ptr<Graph> graph(std::shared_ptr<Context> context);
  const Type* wholeType();
  std::optional<ParseError> error() const { return scan_.error(); }
  std::vector<size_t> takeNodePlaces() { return std::move(nodePlaces_); }

 private:
  // Where a name stands, for messages about it.
  struct Name {
    size_t at = 0;
    bool numbered = false;
    uint64_t number = 0;
    std::string_view text;
  };
  using Names = SmallVec<Name, 4>;
  using Types = SmallVec<const Type*, 4>;
  struct Keyword {
    size_t at;
    std::string_view name;
    Arg arg;
  };
  struct Arguments {
    SmallVec<Arg, 16> positional;
    SmallVec<size_t, 16> places;  // of the positional ones
    SmallVec<Keyword, 8> keywords;
  };

  // parse.cpp
  bool symbol();
  bool fact(bool guard);
  bool graphName(std::string& name);
  bool parameters(Region* region);
  bool body(Region* region, int depth);
  bool statement(Region* region, int depth);
  bool returns(Region* region);
  bool results(Names& names, Types& types);
  bool operatorName(const OpDef*& op);
  bool bodies(Node* node, int depth);
  bool attributes(Attributes& out);
  bool location(const Location*& out);
  bool valueName(Name& out);
  bool define(const Name& name, Value* value);
  bool use(const Name& name, Value*& out);
  // Is it a region that is being read?
  bool isOpen(const Region* region) const;

  // parse_type.cpp
  bool type(const Type*& out, int depth);
  bool tensor(std::string_view dtype, size_t start, const Type*& out);
  bool tensorAttributes(TensorSpec& spec);
  bool scalar(TypeKind kind, const Type*& out);
  bool dims(Dims& out);
  bool size(Int& out);
  bool device(Device& out);

  // parse_arg.cpp
  bool arguments(const OpDef* op, size_t opAt, Arguments& scratch);
  bool matchSchema(const OpDef* op, size_t opAt, Arguments& given);
  bool arg(Arg& out, int depth);
  bool word(Arg& out);
  bool numeric(Arg& out);
  bool list(Arg& out, int depth);
  bool complexNumber(Arg& out);
  bool opaque(Arg& out);
  bool namedConstant(std::string_view kind, Arg& out);
  bool symbolic(Arg& out);
  // An expression of any kind, made in the context.
  bool expression(const sym::Node*& out);

  Scanner scan_;
  Context& context_;
  Graph* graph_ = nullptr;
  Region* region_ = nullptr;  // the innermost open one
  Arena scratch_;             // lists and strings of the statement being read
  std::string buffer_;
  std::vector<Arg> listStack_;
  std::vector<size_t> nodePlaces_;  // by node id: nodes are made in the order of the text
  std::vector<Value*> numbered_;
  std::unordered_map<std::string_view, Value*> named_;
  std::unordered_map<std::string_view, const Type*> types_;  // by text
};

}  // namespace saker::ir::detail
