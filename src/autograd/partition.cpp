#include "autograd/partition.h"

#include "autograd/checkpoint.h"
#include "autograd/imitated.h"
#include "autograd/joint_graph.h"
#include "autograd/keep_values.h"
#include "autograd/min_cut.h"
#include "autograd/split.h"
#include "ir/clone.h"
#include "ops/builder.h"
#include "ops/effects.h"
#include "passes/pass.h"

namespace saker::autograd {
namespace {

// Forward values that something outside of the forward reads.
Choice savedByDefault(const JointGraph& joint, const Exposure& exposure) {
  std::vector<bool> isBanned(joint.nodes().size());
  for (size_t place = 0; place < isBanned.size(); ++place) isBanned[place] = joint.inForward(place);
  LateReads late = exposure.find(isBanned);
  std::vector<bool> seen(joint.graph().valueLimit()), needed(isBanned.size());
  std::vector<size_t> copies(seen.size(), SIZE_MAX);
  Choice choice;
  auto copy = [&](ir::Value* value, size_t reader) {
    size_t& number = copies[value->id()];
    if (number == SIZE_MAX) {
      number = choice.copied.size();
      choice.copied.push_back({value, {}});
    }
    choice.copied[number].readers.push_back(reader);
  };
  auto read = [&](ir::Value* value, size_t reader) {
    if (late.needsCopy(value, reader)) return copy(value, reader);
    // A view of what is copied because the forward writes it is made anew, from the copy.
    while (!value->isParameter() && joint.mustCopy(value) && joint.isView(joint.definedAt(value))) {
      value = value->def()->operand(0);
    }
    bool ofForward = value->isParameter() ? joint.isPrimal(value) : joint.inForward(joint.definedAt(value));
    if (!ofForward && !value->isParameter()) needed[joint.definedAt(value)] = true;
    if (!ofForward || seen[value->id()]) return;
    seen[value->id()] = true;
    choice.saved.push_back(value);
  };
  for (ir::Value* gradient : joint.gradients()) read(gradient, joint.nodes().size());
  for (size_t place = joint.nodes().size(); place-- > 0;) {
    if (joint.inForward(place) || !(needed[place] || joint.inBackward(place))) continue;
    joint.eachInput(joint.nodes()[place], [&](ir::Value* value) { read(value, place); });
  }
  return choice;
}

void readInstead(ir::Graph& graph, ir::Node* node, const ir::Value* value, ir::Value* copy) {
  for (size_t i = 0; i < node->operandCount(); ++i) {
    if (node->operand(i) == value) graph.setOperand(node, i, copy);
  }
  for (ir::Region* body : node->regions()) {
    for (ir::Node* inner = body->first(); inner; inner = inner->next()) readInstead(graph, inner, value, copy);
  }
}

// Writes the copies into the graph, where their readers read them: then they are values like others.
void makeCopies(const JointGraph& joint, Choice& choice) {
  ir::Graph& graph = joint.graph();
  ir::Node* end = graph.top()->terminator();
  for (const Choice::Copied& copied : choice.copied) {
    ir::Value* value = copied.value;
    ops::Builder build(graph, graph.top(), value->def() ? value->def()->next() : graph.top()->first());
    ir::Value* copy = build.call("aten::clone", {ir::Arg::value(value), ir::Arg::none()});
    if (!value->name().empty()) graph.setName(copy, std::string(value->name()) + "_copy");
    for (size_t reader : copied.readers) {
      for (size_t i = joint.layout().forwardResults; reader == joint.nodes().size() && i < end->args().size(); ++i) {
        if (end->arg(i).isValue() && end->arg(i).toValue() == value) graph.setArg(end, i, ir::Arg::value(copy));
      }
      if (reader < joint.nodes().size()) readInstead(graph, joint.nodes()[reader], value, copy);
    }
    choice.saved.push_back(copy);
  }
}

// The forward itself reads what was copied: so none of its operators waits for a copy that is there for the backward.
void readOriginals(ir::Graph& forward) {
  const ir::Node* end = forward.top()->terminator();
  for (const ir::Node* node = forward.top()->first(); node != end; node = node->next()) {
    ops::Effects effects = ops::effectsOf(*node);
    if (effects.unknown || effects.writes) return;
  }
  const ir::OpDef* clone = ops::find("aten::clone");
  for (const ir::Node* copy = forward.top()->first(); copy != end; copy = copy->next()) {
    if (copy->op() != clone || copy->result()->type() != copy->operand(0)->type()) continue;
    std::vector<ir::Node*> readers;
    for (const ir::Use* use = copy->result()->firstUse(); use; use = use->next) {
      if (use->user != end) readers.push_back(use->user);
    }
    for (ir::Node* reader : readers) {
      for (size_t i = 0; i < reader->operandCount(); ++i) {
        if (reader->operand(i) == copy->result()) forward.setOperand(reader, i, copy->operand(0));
      }
    }
  }
}

std::optional<std::string> badLayout(const ir::Graph& joint, const JointLayout& layout) {
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

std::variant<Cut, std::string> partition(const ir::Graph& joint, const JointLayout& layout,
                                         const PartitionOptions& options) {
  if (!(options.memoryBudget >= 0 && options.memoryBudget <= 1)) {
    return "the memory budget is " + std::to_string(options.memoryBudget) + ", not between 0 and 1";
  }
  if (std::optional<std::string> error = badLayout(joint, layout)) return *error;
  std::unique_ptr<ir::Graph> graph = ir::clone(joint);
  // Sizes become expressions, so that no tensor is saved for its size; what both halves compute becomes one value.
  passes::RunResult cleaned = passes::run(*graph, "fold,cse,dce");
  if (!cleaned.ok()) return *cleaned.error;
  if (options.memoryBudget == 1) {
    keepValues(*graph);
    cleaned = passes::run(*graph, "dce");
    if (!cleaned.ok()) return *cleaned.error;
  }
  bool checkpoints = hasCheckpoints(*graph);
  if (checkpoints) readStates(*graph);
  JointGraph first(*graph, layout);
  if (first.error()) return *first.error();
  const ir::Node* backwardStart = first.backwardStart();
  freeImitated(first);
  JointGraph analysed(*graph, layout, backwardStart);
  if (analysed.error()) return *analysed.error();
  Exposure exposure(analysed);
  Choice choice = savedByDefault(analysed, exposure);
  if (options.strategy == Strategy::MinCut || checkpoints) {
    auto chosen = options.strategy == Strategy::MinCut ? minCutWithin(analysed, exposure, options.memoryBudget)
                                                       : minCutAsAsked(analysed, exposure);
    if (std::string* error = std::get_if<std::string>(&chosen)) return *error;
    // Time counts in the choice too, so that it may save more bytes than the simple rule, which computes nothing again.
    Choice& cut = std::get<Choice>(chosen);
    if (checkpoints || bytesOf(analysed, cut) <= bytesOf(analysed, choice)) choice = std::move(cut);
  }
  if (choice.copied.empty()) return split(analysed, std::move(choice.saved));
  makeCopies(analysed, choice);
  std::variant<Cut, std::string> made = split(JointGraph(*graph, layout, backwardStart), std::move(choice.saved));
  if (Cut* cut = std::get_if<Cut>(&made)) readOriginals(*cut->forward);
  return made;
}

}  // namespace saker::autograd
