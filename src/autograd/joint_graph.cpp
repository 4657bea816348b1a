#include "autograd/joint_graph.h"

#include <algorithm>

#include "ir/each_value.h"
#include "ops/effects.h"
#include "support/check.h"

namespace saker::autograd {
namespace {

// Of a size that no one has seen yet.
constexpr int64_t kUnseenSize = 64;

}  // namespace

JointGraph::JointGraph(ir::Graph& graph, const JointLayout& layout, std::optional<const ir::Node*> backwardStart)
    : graph_(graph),
      layout_(layout),
      places_(graph.nodeLimit()),
      values_(graph.valueLimit()),
      memory_(graph, {false, passes::Memory::Assumptions::Unknown::ShareOperands}),
      known_(memory_.allKnown() ? memory_
                                : passes::Memory(graph, {false, passes::Memory::Assumptions::Unknown::Nothing})),
      holder_(graph.valueLimit()),
      forwardWrites_(graph.valueLimit()),
      backwardWrites_(graph.valueLimit()),
      examples_(sym::exampleAssignment(graph.context().symbols())) {
  for (ir::Value* parameter : graph.top()->parameters()) values_[parameter->id()] = parameter;
  for (ir::Node* node = graph.top()->first(); node && !node->isReturn(); node = node->next()) {
    places_[node->id()] = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back(node);
    for (size_t i = 0; i < node->resultCount(); ++i) values_[node->result(i)->id()] = node->result(i);
  }
  for (std::optional<int64_t>& example : examples_.ints) example = example.value_or(kUnseenSize);
  for (const ir::Node* node : nodes_) {
    effects_.push_back(ops::effectsOf(*node));
    pinned_.push_back(effects_.back().ordered() || !effects_.back().removable());
  }
  findHolders();
  followTangents();
  if (backwardStart) start_ = *backwardStart ? placeOf(*backwardStart) : nodes_.size();
  findForward();
  if (!error_) findBackward();
  if (!error_) checkOrder();
}

bool JointGraph::isView(size_t node) const {
  const ops::Operator* op = ops::of(nodes_[node]);
  return op && op->cost == ops::Cost::View && !pinned_[node] && nodes_[node]->regions().empty();
}

// In bodies too: memory of their own counts as that of a value that nobody else reads.
template <typename F>
void JointGraph::eachWritten(const ir::Node* node, F&& f) const {
  ops::eachWritten(*node, f);
  for (const ir::Region* body : node->regions()) {
    for (const ir::Node* inner = body->first(); inner; inner = inner->next()) eachWritten(inner, f);
  }
}

void JointGraph::findHolders() {
  for (uint32_t i = 0; i < holder_.size(); ++i) holder_[i] = i;
  for (const ir::Node* node : nodes_) {
    ops::eachShared(*node, [&](const ir::Value* result, const ir::Value* argument, bool surely) {
      bool both = argument && argument->tensor() && result->tensor();
      if (surely && both) holder_[result->id()] = holder_[argument->id()];
    });
  }
}

void JointGraph::followTangents() {
  onTangents_.resize(nodes_.size());
  start_ = nodes_.size();
  std::vector<bool> tainted(values_.size());  // by memory: written by what depends on tangents
  for (size_t place = 0; place < nodes_.size(); ++place) {
    bool depends = false;
    eachInput(nodes_[place], [&](const ir::Value* input) {
      depends |= input->isParameter() ? isTangent(input) : bool(onTangents_[definedAt(input)]);
      depends |= tainted[memory_.classOf(input)];
    });
    onTangents_[place] = depends;
    if (!depends) continue;
    start_ = std::min(start_, place);
    eachWritten(nodes_[place], [&](const ir::Value* value) { tainted[memory_.classOf(value)] = true; });
  }
}

void JointGraph::findForward() {
  inForward_.resize(nodes_.size());
  auto need = [&](const ir::Value* value) {
    if (!value->isParameter()) inForward_[definedAt(value)] = true;
  };
  std::vector<ir::Value*> results = forwardResults();
  for (const ir::Value* result : results) {
    if (isTangent(result)) error_ = "a forward result is a tangent";
    need(result);
  }
  // Drawn or done by the backward, or following from that.
  std::vector<bool> late(nodes_.size());
  for (size_t place = start_; place < nodes_.size(); ++place) {
    late[place] = effects_[place].ordered();
    eachInput(nodes_[place], [&](const ir::Value* input) {
      if (!input->isParameter() && late[definedAt(input)]) late[place] = true;
    });
  }
  for (size_t place = nodes_.size(); place-- > 0;) {
    const ir::Node* node = nodes_[place];
    if (pinned_[place] && !onTangents_[place]) {
      // Behind the first use of a tangent there are effects of the backward, and the copies into primals.
      bool ofForward = place < start_;
      eachWritten(node, [&](const ir::Value* value) { ofForward |= !late[place] && isOfInput(value); });
      if (ofForward) inForward_[place] = true;
    }
    if (!inForward_[place]) continue;
    if (onTangents_[place]) {
      error_ = "a forward result depends on a tangent, through " + node->op()->qualified;
      return;
    }
    eachInput(node, need);
    eachWritten(node, [&](const ir::Value* value) { forwardWrites_[memory_.classOf(value)] = true; });
  }
}

void JointGraph::findBackward() {
  inBackward_.resize(nodes_.size());
  for (size_t place = 0; place < nodes_.size(); ++place) {
    bool once = pinned_[place] || effects_[place].has(ops::kNondeterministic);
    inBackward_[place] = onTangents_[place] || (once && !inForward_[place]);
    if (!inBackward_[place]) continue;
    eachWritten(nodes_[place], [&](const ir::Value* value) { backwardWrites_[memory_.classOf(value)] = true; });
  }
  for (size_t place = 0; place < nodes_.size(); ++place) {
    const ir::Node* node = nodes_[place];
    auto check = [&](const ir::Value* value) {
      if (!backwardWrites(value)) return;
      if (forwardWrites(value)) error_ = "forward and backward write the same tensor, in " + node->op()->qualified;
      bool ofPrimal = isOfInput(value);
      if (ofPrimal && inForward_[place]) return;
      // The backward makes what it writes itself, so that it can be run again.
      if (inForward_[place]) error_ = "the backward writes a tensor of the forward, made by " + node->op()->qualified;
      inBackward_[place] = true;
    };
    eachInput(node, [&](const ir::Value* input) {
      check(input);
      // Random numbers or memory of the backward lead here without any tangent.
      if (!input->isParameter() && inBackward_[definedAt(input)]) inBackward_[place] = true;
    });
    for (size_t i = 0; i < node->resultCount(); ++i) check(node->result(i));
  }
}

void JointGraph::checkOrder() {
  const ir::Node* before = nullptr;
  for (size_t place = 0; place < nodes_.size(); ++place) {
    if (!effects_[place].ordered()) continue;
    if (inBackward_[place]) {
      before = nodes_[place];
    } else if (before) {
      error_ = nodes_[place]->op()->qualified + " of the forward comes after " + before->op()->qualified +
               " of the backward: they would change places";
      return;
    }
  }
}

std::vector<ir::Value*> JointGraph::returned(size_t from, size_t to) const {
  std::vector<ir::Value*> out;
  std::span<const ir::Arg> args = graph_.top()->terminator()->args();
  for (size_t i = from; i < std::min(to, args.size()); ++i) {
    ir::eachValue(args[i], [&](ir::Value* value) { out.push_back(value); });
  }
  return out;
}

int64_t JointGraph::example(sym::Int size) const {
  if (size.isConst()) return size.constant();
  return sym::evaluateInt(size.node(), examples_).value_or(kUnseenSize);
}

uint64_t JointGraph::elementsOf(const ir::TensorType& type) const {
  auto [known, fresh] = elements_.try_emplace(&type, 0);
  if (!fresh) return known->second;
  // Elements that share an address (an expanded dimension) count once.
  uint64_t elements = 1;
  for (size_t i = 0; i < type.rank; ++i) {
    int64_t size = example(type.size(i));
    if (size <= 0) return known->second = 0;
    if (example(type.stride(i)) == 0) continue;
    if (__builtin_mul_overflow(elements, static_cast<uint64_t>(size), &elements)) elements = uint64_t{1} << 50;
  }
  return known->second = std::min(elements, uint64_t{1} << 50);
}

uint64_t JointGraph::elementsOf(const ir::Value* value) const {
  return value->tensor() ? elementsOf(*value->tensor()) : 1;
}

uint64_t JointGraph::bytesOf(const ir::Value* value) const {
  if (!value->tensor()) return 8;
  return elementsOf(*value->tensor()) * static_cast<uint64_t>(ir::byteSize(value->tensor()->dtype));
}

uint64_t JointGraph::bytesOf(const std::vector<ir::Value*>& saved) const {
  uint64_t total = 0;
  std::vector<bool> counted(values_.size());
  for (const ir::Value* value : saved) {
    const ir::Value* holder = holderOf(value);
    if (mustCopy(value)) {
      total += bytesOf(value);
    } else if (!holder->isParameter() && !counted[holder->id()]) {
      counted[holder->id()] = true;
      total += bytesOf(holder);
    }
  }
  return total;
}

}  // namespace saker::autograd
