#include "passes/region_finder.h"

#include <algorithm>

#include "ops/effects.h"
#include "ops/operator.h"

namespace saker::passes {

namespace {

using ir::Node;
using ir::Value;

template <typename F>
void visit(Node* node, F&& f) {
  f(node);
  for (ir::Region* body : node->regions()) {
    for (Node* inner = body->first(); inner; inner = inner->next()) visit(inner, f);
  }
}

// The node itself, or the one around it, in this region; nullptr: there is none.
const Node* nodeIn(const ir::Region* region, const Node* node) {
  while (node && node->region() != region) node = node->region() ? node->region()->owner() : nullptr;
  return node;
}

bool isFollowed(const Value* value) {
  const ir::TensorType* type = value->tensor();
  return type && (ir::isFloat(type->dtype) || ir::isComplex(type->dtype));
}

bool hasOpaque(const ir::Arg& arg) {
  if (!arg.isList()) return arg.kind() == ir::Arg::Kind::Opaque;
  return std::any_of(arg.toList().begin(), arg.toList().end(), hasOpaque);
}

}  // namespace

RunQuestions::RunQuestions(const ir::Graph& graph)
    : memory_(graph, {true, Memory::Assumptions::Unknown::ShareOperands}),
      runOf_(graph.nodeLimit()),
      seenIn_(graph.valueLimit()),
      writers_(graph.valueLimit() + 1) {
  for (Node* node = graph.top()->first(); node; node = node->next()) {
    visit(node, [&](Node* each) {
      if (!ops::of(each)) return;
      ops::eachWritten(*each, [&](const Value* written) { writers_[memory_.classOf(written)].push_back(each); });
    });
  }
}

template <typename F>
void RunQuestions::eachNode(const NodeRun& run, F&& f) {
  for (Node* node = run.first;; node = node->next()) {
    visit(node, f);
    if (node == run.last) return;
  }
}

bool RunQuestions::isInRun(const Node* node) const { return node && runOf_[node->id()] == run_; }

void RunQuestions::describe(NodeRun& run) {
  ++run_;
  run.operands.clear();
  run.results.clear();
  eachNode(run, [&](Node* node) { runOf_[node->id()] = run_; });
  eachNode(run, [&](Node* node) {
    for (const ir::Use& use : node->operands()) {
      const Value* value = use.value;
      const Node* made = value->def() ? value->def() : value->region()->owner();  // a parameter of a body
      if (isInRun(made) || seenIn_[value->id()] == run_) continue;
      seenIn_[value->id()] = run_;
      run.operands.push_back(use.value);
    }
  });
  for (Node* node = run.first;; node = node->next()) {
    for (size_t i = 0; i < node->resultCount(); ++i) {
      const ir::Use* use = node->result(i)->firstUse();
      while (use && isInRun(use->user)) use = use->next;
      if (use) run.results.push_back(node->result(i));
    }
    if (node == run.last) return;
  }
}

// Nothing outside of the run writes to its memory, it writes to its own alone, and its results are its own, each.
bool RunQuestions::hasOwnMemory(const NodeRun& run) {
  std::vector<uint32_t> given, made;
  for (const Value* operand : run.operands) given.push_back(memory_.classOf(operand));
  auto isGiven = [&](uint32_t memory) { return std::find(given.begin(), given.end(), memory) != given.end(); };
  for (uint32_t memory : given) {
    if (!writers_[memory].empty()) return false;
  }
  for (const Value* result : run.results) {
    uint32_t memory = memory_.classOf(result);
    if (isGiven(memory) || memory_.isFromOutside(result)) return false;
    if (std::find(made.begin(), made.end(), memory) != made.end()) return false;
    for (const Node* writer : writers_[memory]) {
      if (!isInRun(writer)) return false;
    }
    made.push_back(memory);
  }
  return true;
}

bool RunQuestions::canBeCall(const NodeRun& run) {
  if (run.first == run.last || run.results.empty()) return false;
  auto isTensor = [](const Value* value) { return value->tensor() != nullptr; };
  if (!std::all_of(run.operands.begin(), run.operands.end(), isTensor)) return false;
  if (!std::all_of(run.results.begin(), run.results.end(), isTensor)) return false;
  bool plain = true;
  eachNode(run, [&](const Node* node) {
    if (node->isReturn()) return;
    ir::Attributes known = node->attributes();
    known.call = 0;
    known.noGrad = false;
    const ops::Operator* op = ops::of(node);
    plain = plain && op && known == ir::Attributes{};
    if (!plain) return;
    plain = !op->has(ops::kRandom) && !op->has(ops::kEffect) && !op->has(ops::kReadsState) &&
            !op->has(ops::kDynamicShape) && !op->has(ops::kDataDependent) && !op->has(ops::kSetsStorage);
    for (const ir::Arg& arg : node->args()) plain &= !hasOpaque(arg);
  });
  return plain && hasOwnMemory(run);
}

bool RunQuestions::canBeDifferentiatedAlone(const NodeRun& run) {
  if (!canBeCall(run)) return false;
  if (std::count_if(run.results.begin(), run.results.end(), isFollowed) != 1) return false;
  for (const Value* result : run.results) {
    if (memory_.escapes(result)) return false;  // whoever called the program sees it, or a view of it
  }
  bool plain = true;
  eachNode(run, [&](const Node* node) {
    ir::Attributes known = node->attributes();
    known.call = 0;
    const ops::Operator* op = ops::of(node);
    // What a derivative computes again is found to be the same by common subexpressions.
    plain = plain && op && known == ir::Attributes{} && node->regions().empty() && op->isRemovable() &&
            !op->has(ops::kNondeterministic) && node->op()->qualified != "aten::detach";
  });
  if (!plain) return false;
  // Gradients of a value that is read several times are added up in here, and then to those from elsewhere.
  for (const Value* operand : run.operands) {
    if (!isFollowed(operand)) continue;
    size_t inside = 0, outside = operand->isParameter() ? 1 : 0;
    for (const ir::Use* use = operand->firstUse(); use; use = use->next) ++(isInRun(use->user) ? inside : outside);
    if (inside > 1 && outside > 0) return false;
  }
  return true;
}

Value* CallMaker::now(Value* value) const {
  auto found = results_.find(value);
  return found == results_.end() ? value : found->second;
}

void CallMaker::useResults(const NodeRun& run, Node* call) {
  for (size_t i = 0; i < run.results.size(); ++i) {
    std::vector<std::pair<Node*, size_t>> outside;
    for (const ir::Use* use = run.results[i]->firstUse(); use; use = use->next) {
      if (nodeIn(call->regions()[0], use->user)) continue;
      outside.emplace_back(use->user, static_cast<size_t>(use - use->user->operands().data()));
    }
    for (auto [user, operand] : outside) graph_.setOperand(user, operand, call->result(i));
    results_[run.results[i]] = call->result(i);
  }
}

Node* CallMaker::make(const NodeRun& run, const std::vector<std::pair<const Value*, std::string>>& given) {
  static const ops::Operator* const op = ops::find("saker::call");
  std::vector<Value*> operands;
  std::vector<std::string> names;
  auto has = [](const std::vector<Value*>& values, const Value* value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  };
  for (const auto& [value, name] : given) {
    if (!has(run.operands, value) || has(operands, value)) continue;
    operands.push_back(*std::find(run.operands.begin(), run.operands.end(), value));
    names.push_back(name);
  }
  for (Value* value : run.operands) {
    if (!has(operands, value)) operands.push_back(value);
  }
  names.resize(operands.size());
  std::vector<ir::Arg> args, returned;
  std::vector<const ir::Type*> types;
  for (Value*& operand : operands) args.push_back(ir::Arg::value(operand = now(operand)));
  for (Value* result : run.results) {
    types.push_back(result->type());
    returned.push_back(ir::Arg::value(result));
  }
  Node* call = graph_.create(op, args, types, 1, run.first->location());
  graph_.insertBefore(run.first->region(), run.first, call);
  ir::Region* body = call->regions()[0];
  std::unordered_map<const Value*, Value*> parameters;
  for (size_t i = 0; i < operands.size(); ++i) {
    parameters[operands[i]] = graph_.addParameter(body, operands[i]->type(), names[i]);
  }
  for (Node *node = run.first, *next = nullptr; node; node = next) {
    next = node == run.last ? nullptr : node->next();
    graph_.unlink(node);
    graph_.append(body, node);
    visit(node, [&](Node* each) {
      for (size_t i = 0; i < each->operandCount(); ++i) {
        auto found = parameters.find(each->operand(i));
        if (found != parameters.end()) graph_.setOperand(each, i, found->second);
      }
    });
    ir::Attributes known = node->attributes();
    known.call = 0;
    graph_.setAttributes(node, known);
  }
  useResults(run, call);
  graph_.appendReturn(body, returned);
  return call;
}

}  // namespace saker::passes
