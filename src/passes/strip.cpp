#include "passes/pass.h"

namespace saker::passes {
namespace {

template <typename F>
void eachNode(ir::Region* region, F&& f) {
  for (ir::Node* node = region->first(); node; node = node->next()) {
    f(node);
    for (ir::Region* body : node->regions()) eachNode(body, f);
  }
}

void stripParameters(ir::Graph& graph, ir::Region* region) {
  for (ir::Value* parameter : region->parameters()) {
    if (!parameter->name().empty()) graph.setName(parameter, {});
  }
}

}  // namespace

void stripLocations(ir::Graph& graph) {
  eachNode(graph.top(), [&](ir::Node* node) {
    if (node->location()) graph.setLocation(node, nullptr);
  });
}

void stripNames(ir::Graph& graph) {
  stripParameters(graph, graph.top());
  eachNode(graph.top(), [&](ir::Node* node) {
    for (size_t i = 0; i < node->resultCount(); ++i) {
      if (!node->result(i)->name().empty()) graph.setName(node->result(i), {});
    }
    for (ir::Region* body : node->regions()) stripParameters(graph, body);
  });
}

}  // namespace saker::passes
