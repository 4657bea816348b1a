#include "ir/graph.h"

#include <array>
#include <bit>

#include "ir/graph_change.h"

namespace saker::ir {

bool Node::hasUsedResults() const {
  for (uint32_t i = 0; i < resultCount_; ++i) {
    if (results_[i].hasUses()) return true;
  }
  return false;
}

Graph::Graph(std::shared_ptr<Context> context, std::string name)
    : context_(std::move(context)), name_(std::move(name)), top_(newRegion(nullptr)) {}

Graph::~Graph() = default;

Region* Graph::newRegion(Node* owner) {
  Region* region = arena_.make<Region>();
  region->graph_ = this;
  region->owner_ = owner;
  return region;
}

Value* Graph::addParameter(Region* region, const Type* type, std::string_view name) {
  SAKER_CHECK(type, "a value has a type");
  record({.kind = Change::Kind::AddParameter,
          .count = region->parameterCapacity_,
          .object = region,
          .first = region->parameters_});
  if (region->parameterCount_ == region->parameterCapacity_) {
    uint32_t capacity = region->parameterCapacity_ ? region->parameterCapacity_ * 2 : 4;
    Value** grown = arena_.makeArray<Value*>(capacity);
    for (uint32_t i = 0; i < region->parameterCount_; ++i) grown[i] = region->parameters_[i];
    region->parameters_ = grown;
    region->parameterCapacity_ = capacity;
  }
  Value* value = arena_.make<Value>();
  value->type_ = type;
  value->region_ = region;
  value->id_ = nextValue_++;
  value->index_ = region->parameterCount_;
  value->name_ = arena_.copy(name);
  region->parameters_[region->parameterCount_++] = value;
  return value;
}

Node* Graph::create(const OpDef* op, std::span<const Arg> args, std::span<const Type* const> results, size_t regions,
                    Origin origin) {
  SAKER_CHECK(op, "a node has an operator");
  Node* node = arena_.make<Node>();
  node->op_ = op;
  node->location_ = origin.location;
  node->attributes_ = origin.attributes;
  node->id_ = static_cast<uint32_t>(nodes_.size());
  makeResults(node, results);
  node->regionCount_ = static_cast<uint32_t>(regions);
  node->regions_ = arena_.makeArray<Region*>(regions);
  for (size_t i = 0; i < regions; ++i) node->regions_[i] = newRegion(node);
  attachArgs(node, args);
  nodes_.push_back(node);
  ++live_;
  record({.kind = Change::Kind::Create, .object = node});
  return node;
}

void Graph::makeResults(Node* node, std::span<const Type* const> results) {
  node->resultCount_ = static_cast<uint32_t>(results.size());
  node->results_ = arena_.makeArray<Value>(results.size());
  for (uint32_t i = 0; i < node->resultCount_; ++i) {
    SAKER_CHECK(results[i], "a value has a type");
    Value& result = node->results_[i];
    result.type_ = results[i];
    result.def_ = node;
    result.id_ = nextValue_++;
    result.index_ = i;
  }
}

void Graph::addResults(Node* node, std::span<const Type* const> results) {
  SAKER_CHECK(node->resultCount_ == 0, "the node has results already");
  record({.kind = Change::Kind::AddResults, .object = node});
  makeResults(node, results);
}

Region* Graph::addRegion(Node* node) {
  record({.kind = Change::Kind::AddRegion, .object = node, .first = node->regions_});
  // Operators have few bodies: a new array each time.
  Region** grown = arena_.makeArray<Region*>(node->regionCount_ + 1);
  for (uint32_t i = 0; i < node->regionCount_; ++i) grown[i] = node->regions_[i];
  node->regions_ = grown;
  return node->regions_[node->regionCount_++] = newRegion(node);
}

Arg Graph::copyArg(const Arg& from) {
  switch (from.kind()) {
    case Arg::Kind::String:
      return Arg::string(arena_.copy(from.toString()));
    case Arg::Kind::Complex:
      return Arg::complex(arena_.make<std::complex<double>>(from.toComplex()));
    case Arg::Kind::Opaque:
      return Arg::opaque(
          arena_.make<OpaqueRef>(OpaqueRef{arena_.copy(from.toOpaque()->className), from.toOpaque()->number}));
    case Arg::Kind::List: {
      std::span<const Arg> elements = from.toList();
      Arg* copied = arena_.makeArray<Arg>(elements.size());
      for (size_t i = 0; i < elements.size(); ++i) copied[i] = copyArg(elements[i]);
      return Arg::list({copied, elements.size()});
    }
    case Arg::Kind::Type:
      SAKER_CHECK(false, "an argument that is a type is never part of a graph");
      [[fallthrough]];
    default:
      return from;
  }
}

namespace {

uint32_t countValues(const Arg& arg) {
  if (arg.isValue()) return 1;
  if (!arg.isList()) return 0;
  uint32_t count = 0;
  for (const Arg& element : arg.toList()) count += countValues(element);
  return count;
}

}  // namespace

Use* Graph::registerUses(Node* node, Arg& arg, Use* next) {
  if (arg.isValue()) {
    next->user = node;
    next->slot = &arg;
    next->insertAt(arg.toValue(), &arg.toValue()->uses_);
    return next + 1;
  }
  if (arg.isList()) {
    // The elements are ours: copyArg made them.
    std::span<const Arg> elements = arg.toList();
    for (size_t i = 0; i < elements.size(); ++i) next = registerUses(node, const_cast<Arg&>(elements[i]), next);
  }
  return next;
}

void Graph::attachArgs(Node* node, std::span<const Arg> args) {
  uint32_t count = 0;
  Arg* copied = arena_.makeArray<Arg>(args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    copied[i] = copyArg(args[i]);
    count += countValues(copied[i]);
  }
  node->args_ = copied;
  node->argCount_ = static_cast<uint32_t>(args.size());
  node->uses_ = arena_.makeArray<Use>(count);
  node->useCount_ = count;
  Use* next = node->uses_;
  for (size_t i = 0; i < args.size(); ++i) next = registerUses(node, copied[i], next);
}

void Graph::link(Region* region, Node* next, Node* node) {
  Node* prev = next ? next->prev_ : region->last_;
  node->region_ = region;
  node->prev_ = prev;
  node->next_ = next;
  (prev ? prev->next_ : region->first_) = node;
  (next ? next->prev_ : region->last_) = node;
}

void Graph::detach(Node* node) {
  Region* region = node->region_;
  (node->prev_ ? node->prev_->next_ : region->first_) = node->next_;
  (node->next_ ? node->next_->prev_ : region->last_) = node->prev_;
  node->region_ = nullptr;
  node->prev_ = node->next_ = nullptr;
}

void Graph::insertBefore(Region* region, Node* position, Node* node) {
  SAKER_CHECK(!node->region_, "the node is in the graph already");
  SAKER_CHECK(!position || position->region_ == region, "the position is in another region");
  link(region, position, node);
  record({.kind = Change::Kind::Link, .object = node});
}

Node* Graph::append(Region* region, const OpDef* op, std::span<const Arg> args, std::span<const Type* const> results,
                    Origin origin) {
  Node* node = create(op, args, results, 0, origin);
  append(region, node);
  return node;
}

Node* Graph::appendReturn(Region* region, std::span<const Arg> values, const Location* location) {
  return append(region, returnOp(), values, {}, location);
}

void Graph::unlink(Node* node) {
  SAKER_CHECK(node->region_, "the node is not in the graph");
  record({.kind = Change::Kind::Unlink, .object = node, .first = node->region_, .second = node->next_});
  detach(node);
}

void Graph::moveBefore(Node* node, Node* position) {
  SAKER_CHECK(position && position->region_, "the position is not in the graph");
  if (node == position) return;
  for (Node* around = position->region_->owner_; around; around = around->region_ ? around->region_->owner_ : nullptr) {
    SAKER_CHECK(around != node, "a node is moved into its own region");
  }
  unlink(node);
  insertBefore(position->region_, position, node);
}

void Graph::changeUse(Use& use, Value* value) {
  record({.kind = Change::Kind::Use, .object = &use, .first = use.value, .second = use.link});
  use.remove();
  if (value) use.insertAt(value, &value->uses_);
}

void Graph::setOperand(Node* node, size_t index, Value* value) {
  SAKER_CHECK(index < node->useCount_, "the node has fewer operands");
  SAKER_CHECK(value, "an operand is a value");
  changeUse(node->uses_[index], value);
}

void Graph::replaceAllUses(Value* from, Value* to) {
  SAKER_CHECK(to, "uses are replaced by a value");
  if (from == to) return;
  while (from->uses_) changeUse(*from->uses_, to);
}

void Graph::dropUses(Node* node) {
  for (uint32_t i = node->useCount_; i-- > 0;) changeUse(node->uses_[i], nullptr);
}

void Graph::setArgs(Node* node, std::span<const Arg> args) {
  // The new arguments may be parts of the old ones, so these stay as they are until copied.
  dropUses(node);
  record({.kind = Change::Kind::Args,
          .count = node->argCount_,
          .count2 = node->useCount_,
          .object = node,
          .first = node->args_,
          .second = node->uses_});
  attachArgs(node, args);
}

void Graph::setArg(Node* node, size_t index, const Arg& arg) {
  SAKER_CHECK(index < node->argCount_, "the node has fewer arguments");
  SmallVec<Arg, 16> args(node->args());
  args[index] = arg;
  setArgs(node, args);
}

void Graph::setType(Value* value, const Type* type) {
  SAKER_CHECK(type, "a value has a type");
  record({.kind = Change::Kind::Type, .object = value, .first = value->type_});
  value->type_ = type;
}

void Graph::setName(Value* value, std::string_view name) {
  record({.kind = Change::Kind::Name,
          .count = static_cast<uint32_t>(value->name_.size()),
          .object = value,
          .first = value->name_.data()});
  value->name_ = arena_.copy(name);
}

void Graph::setLocation(Node* node, const Location* location) {
  record({.kind = Change::Kind::Location, .object = node, .first = node->location_});
  node->location_ = location;
}

void Graph::setAttributes(Node* node, Attributes attributes) {
  if (attributes == node->attributes_) return;
  auto bits = std::bit_cast<std::array<uint16_t, 3>>(node->attributes_);
  record({.kind = Change::Kind::Attributes,
          .count = bits[0] | uint32_t{bits[1]} << 16,
          .count2 = bits[2],
          .object = node});
  node->attributes_ = attributes;
}

void Graph::eraseBody(Region* region) {
  while (region->last_) erase(region->last_);
}

void Graph::erase(Node* node) {
  for (uint32_t i = node->regionCount_; i-- > 0;) eraseBody(node->regions_[i]);
  SAKER_CHECK(!node->hasUsedResults(), "a node is erased while its results are in use");
  if (node->region_) unlink(node);
  dropUses(node);
  record({.kind = Change::Kind::Erase, .object = node});
  nodes_[node->id_] = nullptr;
  --live_;
}

}  // namespace saker::ir
