#include "aot/exits.h"

#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <memory>

namespace saker::aot {

using torch::autograd::variable_list;

variable_list Entry::apply(variable_list&& gradients) {
  if (!stage_ && !leads_ && torch::autograd::get_current_graph_task_id() >= 0) {
    for (size_t i = 0; i < num_outputs(); ++i) {
      if (!gradients[i].defined() || task_should_compute_output(i)) continue;
      static_cast<Backward&>(*next_edge(i).function).ranAlone(next_edge(i).input_nr);
    }
  }
  if (!stage_ || leads_) return EntryNode::apply(std::move(gradients));
  if (torch::autograd::get_current_graph_task_id() < 0) return variable_list(num_outputs());  // nobody computes
  static_cast<Backward&>(*stage_).arrive(number_, std::move(gradients));
  return variable_list(num_outputs());
}

void Entry::leadTo(torch::autograd::edge_list edges) {
  leads_ = true;
  next_edges() = std::move(edges);
}

variable_list Exit::apply(variable_list&&) {
  if (torch::autograd::get_current_graph_task_id() < 0) return variable_list(num_outputs());
  return static_cast<Backward&>(*stage_).leave(number_);
}

// --- the stage between them ---

// What leads to a node of the graph task that runs decides whether that runs too.
static bool isToRun(const aten::WeakNodePtr& weak) {
  aten::NodePtr node = weak.lock();
  // What is asked for need not be reached.
  if (!node || !torch::autograd::get_current_graph_task_nodes_in_graph()->contains(node.get())) return false;
  const auto* asked = torch::autograd::get_current_graph_task_exec_info();
  if (!asked || asked->empty()) return true;
  auto found = asked->find(node.get());
  return found != asked->end() && found->second.should_execute();
}

Backward::Pass& Backward::pass() {
  auto [known, isNew] = passes_.try_emplace(torch::autograd::get_current_graph_task_id());
  Pass& pass = known->second;
  if (!isNew) return pass;
  pass.tangents.resize(stage().tangents.size());
  pass.gradients.resize(stage().gradients.size());
  pass.arrived.resize(delivery_->entries);
  pass.given.resize(delivery_->exits.size());
  for (size_t i = 0; i < delivery_->exits.size(); ++i) {
    pass.runs.push_back(isToRun(around_[delivery_->entries + i]));
    pass.left += pass.runs.back();
  }
  pass.freedBefore = saved_->freed;
  return pass;
}

void Backward::arrive(size_t entry, variable_list tangents) {
  std::lock_guard held(saved_->lock);
  Pass& to = pass();
  to.arrived[entry] = true;
  bool leads = false;
  for (size_t i = 0; i < to.runs.size(); ++i) {
    const std::vector<size_t>& own = delivery_->exits[i].entries;
    leads |= to.runs[i] && std::find(own.begin(), own.end(), entry) != own.end();
  }
  for (size_t i = 0; i < to.tangents.size(); ++i) {
    if (delivery_->entryOf[i] != entry) continue;
    at::Tensor& tangent = tangents[entries_[i].second];
    if (!leads && tangent.defined()) ranAloneLocked(i);
    to.tangents[i] = std::move(tangent);
  }
  if (to.left == 0) passes_.erase(torch::autograd::get_current_graph_task_id());
}

variable_list Backward::leave(size_t exit) {
  std::lock_guard held(saved_->lock);
  Pass& from = pass();
  if (!from.given[exit]) compute(from);
  variable_list gradients;
  for (size_t i : delivery_->exits[exit].gradients) gradients.push_back(std::move(from.gradients[i]));
  if (--from.left == 0) passes_.erase(torch::autograd::get_current_graph_task_id());
  return gradients;
}

// Of all exits to which nothing more will arrive.
void Backward::compute(Pass& pass) {
  std::vector<bool> given(pass.tangents.size()), wanted(pass.gradients.size());
  std::vector<size_t> exits;
  auto isComplete = [&](size_t entry) { return pass.arrived[entry] || !isToRun(around_[entry]); };
  pass.last = true;
  for (size_t i = 0; i < delivery_->exits.size(); ++i) {
    const Delivery::Exit& exit = delivery_->exits[i];
    if (!pass.runs[i] || pass.given[i]) continue;
    if (!std::all_of(exit.entries.begin(), exit.entries.end(), isComplete)) {
      pass.last = false;
      continue;
    }
    exits.push_back(i);
    aten::NodePtr node = around_[delivery_->entries + i].lock();
    for (size_t k = 0; k < exit.gradients.size(); ++k) {
      size_t gradient = exit.gradients[k];
      wanted[gradient] = node->task_should_compute_output(k);
      for (size_t t = 0; wanted[gradient] && t < given.size(); ++t) {
        given[t] = given[t] || plan_->joint.reaches[stage().tangents[t]][stage().gradients[gradient]];
      }
    }
  }
  variable_list tangents(pass.tangents.size());
  for (size_t i = 0; i < tangents.size(); ++i) {
    given[i] = given[i] && pass.tangents[i].defined();
    if (given[i]) tangents[i] = pass.last ? std::move(pass.tangents[i]) : pass.tangents[i];
  }
  pass_ = &pass;
  auto none = [](Backward* self) { self->pass_ = nullptr; };
  std::unique_ptr<Backward, decltype(none)> ended(this, none);
  variable_list gradients = gradientsOf(std::move(tangents), given, wanted);
  for (size_t i : exits) {
    pass.given[i] = true;
    for (size_t gradient : delivery_->exits[i].gradients) pass.gradients[gradient] = std::move(gradients[gradient]);
  }
}

torch::autograd::Edge Backward::edge(size_t gradient) const {
  if (!delivery_) return next_edge(gradient);
  for (size_t i = 0; i < delivery_->exits.size(); ++i) {
    const std::vector<size_t>& own = delivery_->exits[i].gradients;
    auto found = std::find(own.begin(), own.end(), gradient);
    if (found == own.end()) continue;
    aten::NodePtr exit = around_[delivery_->entries + i].lock();
    return exit ? exit->next_edge(static_cast<size_t>(found - own.begin())) : torch::autograd::Edge();
  }
  return {};
}

const std::type_info& entryType() { return typeid(Entry); }
const std::type_info& exitType() { return typeid(Exit); }

}  // namespace saker::aot
