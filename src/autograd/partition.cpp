#include "autograd/partition.h"

#include "autograd/checkpoint.h"
#include "autograd/imitated.h"
#include "autograd/joint_graph.h"
#include "autograd/min_cut.h"
#include "autograd/split.h"
#include "ir/clone.h"
#include "passes/pass.h"

namespace saker::autograd {
namespace {

// Forward values that something outside of the forward reads.
std::vector<ir::Value*> savedByDefault(const JointGraph& joint) {
  std::vector<bool> seen(joint.graph().valueLimit());
  std::vector<ir::Value*> saved;
  auto read = [&](ir::Value* value) {
    // A view of what is copied because the forward writes it is made anew, from the copy.
    while (!value->isParameter() && joint.mustCopy(value) && joint.isView(joint.definedAt(value))) {
      value = value->def()->operand(0);
    }
    bool ofForward = value->isParameter() ? joint.isPrimal(value) : joint.inForward(joint.definedAt(value));
    if (!ofForward || seen[value->id()]) return;
    seen[value->id()] = true;
    saved.push_back(value);
  };
  for (size_t place = 0; place < joint.nodes().size(); ++place) {
    if (!joint.inForward(place)) joint.eachInput(joint.nodes()[place], read);
  }
  for (ir::Value* gradient : joint.gradients()) read(gradient);
  return saved;
}

std::optional<std::string> badLayout(const ir::Graph& joint, const Joint& layout) {
  auto count = [](size_t n, const char* what) { return std::to_string(n) + " " + what; };
  size_t parameters = joint.top()->parameters().size();
  if (parameters != layout.primals + layout.tangents) {
    return "the joint graph has " + count(parameters, "parameters, not ") + count(layout.primals, "primals and ") +
           count(layout.tangents, "tangents");
  }
  const ir::Node* end = joint.top()->terminator();
  if (!end) return "the joint graph does not return";
  if (end->args().size() < layout.forwardResults) {
    return "the joint graph returns " + count(end->args().size(), "values, fewer than the ") +
           count(layout.forwardResults, "forward results");
  }
  return std::nullopt;
}

}  // namespace

std::variant<Cut, std::string> partition(const ir::Graph& joint, const Joint& layout, const PartitionOptions& options) {
  if (!(options.memoryBudget >= 0 && options.memoryBudget <= 1)) {
    return "the memory budget is " + std::to_string(options.memoryBudget) + ", not between 0 and 1";
  }
  if (std::optional<std::string> error = badLayout(joint, layout)) return *error;
  std::unique_ptr<ir::Graph> graph = ir::clone(joint);
  // Sizes become expressions, so that no tensor is saved for its size; what both halves compute becomes one value.
  passes::RunResult cleaned = passes::run(*graph, "fold,cse,dce");
  if (!cleaned.ok()) return *cleaned.error;
  bool checkpoints = hasCheckpoints(*graph);
  if (checkpoints) readStates(*graph);
  JointGraph first(*graph, layout);
  if (first.error()) return *first.error();
  const ir::Node* backwardStart = first.backwardStart();
  freeImitated(first);
  JointGraph analysed(*graph, layout, backwardStart);
  if (analysed.error()) return *analysed.error();
  std::vector<ir::Value*> saved = savedByDefault(analysed);
  if (options.strategy == Strategy::MinCut || checkpoints) {
    auto chosen =
        options.strategy == Strategy::MinCut ? minCutWithin(analysed, options.memoryBudget) : minCutAsAsked(analysed);
    if (std::string* error = std::get_if<std::string>(&chosen)) return *error;
    // Time counts in the choice too, so that it may save more bytes than the simple rule, which computes nothing again.
    std::vector<ir::Value*>& cut = std::get<std::vector<ir::Value*>>(chosen);
    if (checkpoints || analysed.bytesOf(cut) <= analysed.bytesOf(saved)) saved = std::move(cut);
  }
  return split(analysed, std::move(saved));
}

}  // namespace saker::autograd
