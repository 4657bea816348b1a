// The graph: one type from capture to code generation. A Graph has one top Region; a Region has parameters and a list
// of nodes ending in `return`; a Node applies an operator to arguments, has results, and may have regions of its own
// (bodies of higher-order operators). A body may use values of the regions around it.
//
// Nodes, values and uses live in the graph's arena and are linked lists: insertion, removal and replacement are O(1)
// (per use). Node and value numbers are dense, so a pass keeps its side tables in vectors.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/arg.h"
#include "ir/attributes.h"
#include "ir/context.h"
#include "ir/type.h"
#include "support/arena.h"

namespace saker::ir {

class Graph;
class Node;
class Region;
class Value;

// One place where a value is read: an argument slot of a node.
struct Use {
  Value* value = nullptr;
  Node* user = nullptr;
  Arg* slot = nullptr;
  Use* next = nullptr;
  Use** link = nullptr;  // what points to this use

 private:
  friend class Graph;
  void insertAt(Value* to, Use** at) {
    value = to;
    *slot = Arg::value(to);
    next = *at;
    if (next) next->link = &next;
    link = at;
    *at = this;
  }
  void remove() {
    *link = next;
    if (next) next->link = link;
    value = nullptr;
    next = nullptr;
    link = nullptr;
  }
};

// What a node that takes the place of another one, or is made for it, keeps of it.
struct Origin {
  const Location* location = nullptr;
  Attributes attributes = {};

  Origin(const Location* where = nullptr, Attributes known = {}) : location(where), attributes(known) {}
};

class Value {
 public:
  const Type* type() const { return type_; }
  const TensorType* tensor() const { return asTensor(type_); }
  uint32_t id() const { return id_; }
  uint32_t index() const { return index_; }  // among the results or parameters
  Node* def() const { return def_; }         // nullptr: a parameter
  Region* region() const;                    // where it is defined; nullptr: by a node outside of the graph
  bool isParameter() const { return !def_; }
  bool hasUses() const { return uses_; }
  bool hasOneUse() const { return uses_ && !uses_->next; }
  const Use* firstUse() const { return uses_; }
  std::string_view name() const { return name_; }  // as written in the text; may be empty

 private:
  friend class Graph;
  friend struct GraphBreaker;  // tests of the verifier
  const Type* type_ = nullptr;
  Node* def_ = nullptr;
  Region* region_ = nullptr;  // of a parameter
  Use* uses_ = nullptr;
  uint32_t id_ = 0;
  uint32_t index_ = 0;
  std::string_view name_;
};

class Node {
 public:
  const OpDef* op() const { return op_; }
  uint32_t id() const { return id_; }
  Region* region() const { return region_; }
  Node* next() const { return next_; }
  Node* prev() const { return prev_; }
  const Location* location() const { return location_; }
  Attributes attributes() const { return attributes_; }
  Origin origin() const { return {location_, attributes_}; }
  std::span<const Arg> args() const { return {args_, argCount_}; }
  const Arg& arg(size_t i) const { return args()[i]; }
  // The values among the arguments, those inside lists included, in order.
  size_t operandCount() const { return useCount_; }
  Value* operand(size_t i) const { return uses_[i].value; }
  std::span<const Use> operands() const { return {uses_, useCount_}; }
  size_t resultCount() const { return resultCount_; }
  Value* result(size_t i = 0) const { return &results_[i]; }
  std::span<Region* const> regions() const { return {regions_, regionCount_}; }
  bool isReturn() const { return op_ == returnOp(); }
  bool hasUsedResults() const;

 private:
  friend class Graph;
  friend struct GraphBreaker;  // tests of the verifier
  const OpDef* op_ = nullptr;
  Node* prev_ = nullptr;
  Node* next_ = nullptr;
  Region* region_ = nullptr;  // nullptr: not in the graph
  const Location* location_ = nullptr;
  Arg* args_ = nullptr;
  Use* uses_ = nullptr;
  Value* results_ = nullptr;
  Region** regions_ = nullptr;
  uint32_t id_ = 0;
  uint32_t argCount_ = 0;
  uint32_t useCount_ = 0;
  uint32_t resultCount_ = 0;
  uint32_t regionCount_ = 0;
  Attributes attributes_;
};
static_assert(sizeof(Node) <= 104);

inline Region* Value::region() const { return def_ ? def_->region() : region_; }

class Region {
 public:
  Graph* graph() const { return graph_; }
  Node* owner() const { return owner_; }  // nullptr: the top region
  std::span<Value* const> parameters() const { return {parameters_, parameterCount_}; }
  Node* first() const { return first_; }
  Node* last() const { return last_; }
  // The `return` at the end, or nullptr while the region is being built.
  Node* terminator() const { return last_ && last_->isReturn() ? last_ : nullptr; }
  bool empty() const { return !first_; }

 private:
  friend class Graph;
  friend struct GraphBreaker;  // tests of the verifier
  Graph* graph_ = nullptr;
  Node* owner_ = nullptr;
  Node* first_ = nullptr;
  Node* last_ = nullptr;
  Value** parameters_ = nullptr;
  uint32_t parameterCount_ = 0;
  uint32_t parameterCapacity_ = 0;
};

class Graph {
 public:
  explicit Graph(std::shared_ptr<Context> context, std::string name = "main");
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Context& context() const { return *context_; }
  const std::shared_ptr<Context>& sharedContext() const { return context_; }
  const std::string& name() const { return name_; }
  Region* top() const { return top_; }
  size_t liveNodes() const { return live_; }
  // One more than the largest number in use: the size of side tables.
  uint32_t nodeLimit() const { return static_cast<uint32_t>(nodes_.size()); }
  uint32_t valueLimit() const { return nextValue_; }

  // Building. Arguments may live anywhere: they are copied into the graph.
  Value* addParameter(Region* region, const Type* type, std::string_view name = {});
  Node* create(const OpDef* op, std::span<const Arg> args, std::span<const Type* const> results, size_t regions = 0,
               Origin origin = {});
  Region* addRegion(Node* node);
  // For a node that was created without results: what they are may follow from its bodies.
  void addResults(Node* node, std::span<const Type* const> results);
  void append(Region* region, Node* node) { insertBefore(region, nullptr, node); }
  void insertBefore(Region* region, Node* position, Node* node);  // position nullptr: at the end
  Node* append(Region* region, const OpDef* op, std::span<const Arg> args, std::span<const Type* const> results,
               Origin origin = {});
  Node* appendReturn(Region* region, std::span<const Arg> values, const Location* location = nullptr);

  // Changing.
  void setOperand(Node* node, size_t index, Value* value);
  void setArgs(Node* node, std::span<const Arg> args);
  void setArg(Node* node, size_t index, const Arg& arg);
  void setLocation(Node* node, const Location* location);
  void setAttributes(Node* node, Attributes attributes);
  void replaceAllUses(Value* from, Value* to);
  void setType(Value* value, const Type* type);
  void setName(Value* value, std::string_view name);
  void unlink(Node* node);                      // takes it out; it may be inserted again
  void moveBefore(Node* node, Node* position);  // within or between regions
  void erase(Node* node);                       // its results must be unused; its regions go with it

  // Everything done to the graph after checkpoint() is undone by rollback(), in time proportional to it. Checkpoints
  // nest; each ends in one rollback() or commit(), which also end those inside it. commit() keeps the changes.
  struct Checkpoint {
    size_t journal;
    size_t depth;
    Arena::Mark arena;
    uint32_t nodes;
    uint32_t values;
    size_t live;
  };
  Checkpoint checkpoint();
  void rollback(const Checkpoint& checkpoint);
  void commit(const Checkpoint& checkpoint);

 private:
  friend struct GraphBreaker;
  struct Change;
  Region* newRegion(Node* owner);
  void makeResults(Node* node, std::span<const Type* const> results);
  void link(Region* region, Node* next, Node* node);
  void detach(Node* node);
  void changeUse(Use& use, Value* value);
  void attachArgs(Node* node, std::span<const Arg> args);
  void dropUses(Node* node);
  void eraseBody(Region* region);
  void record(const Change& change);
  void undo(const Change& change);
  Arg copyArg(const Arg& from);
  Use* registerUses(Node* node, Arg& arg, Use* next);

  std::shared_ptr<Context> context_;
  std::string name_;
  Arena arena_;
  Region* top_;
  std::vector<Node*> nodes_;  // by number; erased ones stay as nullptr
  std::vector<Change> journal_;
  size_t checkpoints_ = 0;
  uint32_t nextValue_ = 0;
  size_t live_ = 0;
};

}  // namespace saker::ir
