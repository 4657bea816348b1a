#include "ir/clone.h"

#include <utility>
#include <vector>

#include "ir/copy_arg.h"

namespace saker::ir {

namespace {

class Cloner {
 public:
  Cloner(Graph& to, std::vector<Value*> values) : to_(&to), values_(std::move(values)) {}

  void copyParameters(const Region& from, Region* to) {
    for (const Value* parameter : from.parameters()) copyParameter(*parameter, to);
  }
  void copyParameter(const Value& from, Region* to) {
    values_[from.id()] = to_->addParameter(to, from.type(), from.name());
  }
  void copyNodes(const Region& from, Region* to) {
    for (const Node* node = from.first(); node; node = node->next()) copyNode(*node, to);
  }

  void copyNode(const Node& from, Region* to) {
    scratch_.reset({});
    Arg* args = scratch_.makeArray<Arg>(from.args().size());
    for (size_t i = 0; i < from.args().size(); ++i) args[i] = copyArg(from.arg(i));
    std::vector<const Type*> types;
    types.reserve(from.resultCount());
    for (size_t i = 0; i < from.resultCount(); ++i) types.push_back(from.result(i)->type());
    Node* made = to_->create(from.op(), {args, from.args().size()}, types, 0, from.origin());
    to_->append(to, made);
    for (size_t i = 0; i < from.resultCount(); ++i) {
      values_[from.result(i)->id()] = made->result(i);
      if (!from.result(i)->name().empty()) to_->setName(made->result(i), from.result(i)->name());
    }
    for (const Region* body : from.regions()) {
      Region* copy = to_->addRegion(made);
      copyParameters(*body, copy);
      copyNodes(*body, copy);
    }
  }

  Arg copyArg(const Arg& from) { return ir::copyArg(from, values_, scratch_); }

  Graph* to_;
  std::vector<Value*> values_;  // by number of the original
  Arena scratch_;
};

}  // namespace

std::unique_ptr<Graph> clone(const Graph& graph) { return clone(graph, {}); }

std::unique_ptr<Graph> clone(const Graph& graph, std::span<const size_t> order) {
  auto made = std::make_unique<Graph>(graph.sharedContext(), graph.name());
  Cloner cloner(*made, std::vector<Value*>(graph.valueLimit()));
  for (size_t place : order) cloner.copyParameter(*graph.top()->parameters()[place], made->top());
  if (order.empty()) cloner.copyParameters(*graph.top(), made->top());
  cloner.copyNodes(*graph.top(), made->top());
  return made;
}

std::unique_ptr<Graph> clone(const Graph& graph, std::span<const Node* const> nodes, std::span<const size_t> returned) {
  auto made = std::make_unique<Graph>(graph.sharedContext(), graph.name());
  Cloner cloner(*made, std::vector<Value*>(graph.valueLimit()));
  cloner.copyParameters(*graph.top(), made->top());
  for (const Node* node : nodes) cloner.copyNode(*node, made->top());
  std::vector<Arg> args;
  for (size_t place : returned) args.push_back(cloner.copyArg(graph.top()->terminator()->arg(place)));
  made->appendReturn(made->top(), args);
  return made;
}

void copyNodes(const Graph& from, const Region& body, Graph& to, Region* into, std::vector<Value*> values) {
  values.resize(from.valueLimit());
  Cloner(to, std::move(values)).copyNodes(body, into);
}

}  // namespace saker::ir
