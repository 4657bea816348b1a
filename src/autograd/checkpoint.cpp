#include "autograd/checkpoint.h"

#include "ops/infer.h"

namespace saker::autograd {
namespace {

constexpr const char* kReadState = "saker::rng_state";

}  // namespace

bool hasCheckpoints(const ir::Graph& graph) {
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    if (node->attributes().isCheckpointed()) return true;
  }
  return false;
}

void readStates(ir::Graph& graph) {
  const ops::Operator* read = ops::find(kReadState);
  for (ir::Node* node = graph.top()->first(); node; node = node->next()) {
    const ops::Operator* op = ops::of(node);
    if (!op || !op->isRandom() || op == read || op->writes || !node->resultCount()) continue;
    if (node->attributes().checkpoint != ir::Attributes::Checkpoint::Recompute) continue;
    ops::Inferred inferred = ops::infer(*read, graph.context(), {});
    ir::Node* state = graph.create(read, {}, inferred.results);
    graph.insertBefore(graph.top(), node, state);
  }
}

ir::Value* stateBefore(const ir::Node& node) {
  const ir::Node* before = node.prev();
  return before && before->op() == ops::find(kReadState) ? before->result() : nullptr;
}

bool isUnreadState(const ir::Node& node) { return node.op() == ops::find(kReadState) && !node.hasUsedResults(); }

std::vector<bool> findLeaving(const JointGraph& joint) {
  size_t size = joint.nodes().size();
  std::vector<bool> leaves(size), returned(joint.graph().valueLimit());
  for (const ir::Value* result : joint.forwardResults()) returned[result->id()] = true;
  for (size_t place = size; place-- > 0;) {
    const ir::Node* node = joint.nodes()[place];
    ir::Attributes asked = node->attributes();
    if (!joint.inForward(place) || !asked.recomputes()) continue;
    for (size_t i = 0; i < node->resultCount(); ++i) {
      if (returned[node->result(i)->id()]) leaves[place] = true;
      joint.eachUser(node->result(i), [&](size_t user) {
        if (user == size || !joint.inForward(user)) return;
        bool outside = joint.nodes()[user]->attributes().region != asked.region;
        // A view that leaves takes along what it is a view of.
        if (outside || (joint.isView(user) && leaves[user])) leaves[place] = true;
      });
    }
  }
  return leaves;
}

std::vector<bool> findUnsavable(const JointGraph& joint, const std::vector<Ban>& bans) {
  std::vector<bool> unsavable(joint.graph().valueLimit());
  for (size_t place = 0; place < joint.nodes().size(); ++place) {
    if (joint.inBackward(place) || bans[place] != Ban::None) continue;
    const ir::Node* node = joint.nodes()[place];
    bool again = node->attributes().recomputes();
    // What the backward makes of such values belongs to it.
    if (!joint.inForward(place)) {
      joint.eachInput(node, [&](const ir::Value* input) { again |= unsavable[input->id()]; });
    }
    for (size_t i = 0; again && i < node->resultCount(); ++i) unsavable[node->result(i)->id()] = true;
  }
  return unsavable;
}

}  // namespace saker::autograd
