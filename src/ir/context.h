// What graphs share: symbols, types, operator definitions, source locations. One context serves one trace and what is
// made of it; one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/arg.h"
#include "ir/schema.h"
#include "ir/type.h"
#include "support/arena.h"
#include "support/intern_table.h"
#include "symbolic/context.h"

namespace saker::ir {

class Node;

// An operator as the graph sees it. The operator table (src/ops) derives from this; operators it does not know are made
// by the context, without a schema.
struct OpDef {
  std::string qualified;           // "aten::add.Tensor"
  const Schema* schema = nullptr;  // nullptr: unknown to the table
  bool registered = false;         // an ops::Operator
  // What is wrong with the bodies of a node of this operator, or nothing. nullptr: such nodes have none.
  using Check = std::optional<std::string> (*)(const Node& node);
  Check check = nullptr;
};

// Where a node comes from: a chain from the innermost user frame outwards.
struct Location {
  uint64_t hash;
  std::string_view file;
  int line;
  std::string_view function;
  std::string_view modulePath;  // "transformer.h.0.attn", or empty
  const Location* caller;       // or nullptr
};

// State of the program around an operator that decides what its results look like. It is read when an operator is
// recorded; whoever owns the context keeps it true.
struct TorchFacts;  // torch_facts.h
extern const TorchFacts kNewestTorch;

struct Ambient {
  const TorchFacts* torch = &kNewestTorch;
  DType defaultDType = DType::Float32;
  Device defaultDevice;
  // oneDNN has instructions for these on this CPU, and eager mode gives them to it.
  bool oneDnnTakesBFloat16 = false;
  bool oneDnnTakesHalf = false;
  bool gradEnabled = true;  // kernels that keep something for a backward ask for it
};

class Context {
 public:
  using OpLookup = const OpDef* (*)(std::string_view qualified);

  // `lookup` finds operators of the table; without one, all operators are unknown.
  explicit Context(OpLookup lookup = nullptr) : lookup_(lookup) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  sym::Context& symbols() { return symbols_; }
  const sym::Context& symbols() const { return symbols_; }
  TypeTable& types() { return types_; }
  Ambient& ambient() { return ambient_; }
  const Ambient& ambient() const { return ambient_; }
  // The operator of this name; never nullptr.
  const OpDef* op(std::string_view qualified);
  const Location* location(std::string_view file, int line, std::string_view function, std::string_view modulePath = {},
                           const Location* caller = nullptr);
  // A reference that lives as long as the context.
  const OpaqueRef* opaque(std::string_view className, uint64_t number);

 private:
  OpLookup lookup_;
  sym::Context symbols_;
  TypeTable types_;
  Ambient ambient_;
  Arena arena_;
  InternTable<Location> locations_;
  // By name: what lookup_ found, and operators without a schema.
  std::unordered_map<std::string_view, const OpDef*> ops_;
  std::vector<std::unique_ptr<OpDef>> unknownOps_;
};

namespace detail {
extern const OpDef returnOp;
}  // namespace detail

// The terminator of every region.
inline const OpDef* returnOp() { return &detail::returnOp; }

}  // namespace saker::ir
