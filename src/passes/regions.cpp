#include "passes/regions.h"

#include <algorithm>
#include <map>

#include "ops/control_flow.h"
#include "passes/inline.h"
#include "passes/pass.h"
#include "passes/region_finder.h"
#include "passes/repeats.h"
#include "support/intern_table.h"

namespace saker::passes {

namespace {

using ir::Node;

// The runs of nodes that carry a number, of those numbers that have one run.
std::vector<NodeRun> markedRuns(const ir::Region& region) {
  std::vector<NodeRun> runs;
  std::map<uint16_t, size_t> count;
  for (Node* node = region.first(); node; node = node->next()) {
    uint16_t call = node->attributes().call;
    if (!call) continue;
    if (runs.empty() || runs.back().last != node->prev() || runs.back().first->attributes().call != call) {
      runs.push_back({node, node, {}, {}});
      ++count[call];
    } else {
      runs.back().last = node;
    }
  }
  std::erase_if(runs, [&](const NodeRun& run) { return count[run.first->attributes().call] > 1; });
  return runs;
}

bool hasMarks(const ir::Region& region) {
  for (const Node* node = region.first(); node; node = node->next()) {
    if (node->attributes().call) return true;
    for (const ir::Region* body : node->regions()) {
      if (hasMarks(*body)) return true;
    }
  }
  return false;
}

// Those of a region and of the bodies in it that can be calls.
void findCalls(const ir::Region& region, RunQuestions& questions, std::vector<NodeRun>& found) {
  for (NodeRun& run : markedRuns(region)) {
    questions.describe(run);
    if (questions.canBeCall(run)) found.push_back(std::move(run));
  }
  for (const Node* node = region.first(); node; node = node->next()) {
    for (const ir::Region* body : node->regions()) findCalls(*body, questions, found);
  }
}

// Equal for runs that do the same on operands of the same types; others are told apart when bodies are compared.
uint64_t hashOf(const NodeRun& run) {
  std::map<const ir::Value*, uint64_t> numbers;
  uint64_t hash = run.operands.size();
  for (const ir::Value* operand : run.operands) {
    numbers.emplace(operand, numbers.size());
    hash = hashMix(hash, reinterpret_cast<uintptr_t>(operand->type()));
  }
  auto add = [&](auto&& self, const ir::Arg& arg) -> void {
    if (arg.isValue()) {
      hash = hashMix(hash, numbers[arg.toValue()]);
    } else if (arg.isList()) {
      hash = hashMix(hash, arg.toList().size());
      for (const ir::Arg& item : arg.toList()) self(self, item);
    } else {
      hash = ir::hashArg(hash, arg);
    }
  };
  for (const Node* node = run.first;; node = node->next()) {
    hash = hashMix(hash, reinterpret_cast<uintptr_t>(node->op()));
    for (const ir::Arg& arg : node->args()) add(add, arg);
    for (size_t i = 0; i < node->resultCount(); ++i) numbers.emplace(node->result(i), numbers.size());
    if (node == run.last) return hash;
  }
}

void inlineIn(ir::Graph& graph, ir::Region* region) {
  for (Node* node = region->first(); node;) {
    for (ir::Region* body : node->regions()) inlineIn(graph, body);
    Node* next = node->next();
    if (ops::isCall(*node)) {
      for (Node* inner = node->regions()[0]->first(); inner; inner = inner->next()) {
        if (!inner->location()) graph.setLocation(inner, node->location());
      }
      inlineRegion(graph, node, node->regions()[0], node->args());
    }
    node = next;
  }
}

}  // namespace

bool hasRegions(const ir::Graph& graph) { return hasMarks(*graph.top()); }

void outlineCalls(ir::Graph& graph, std::span<const RegionArguments> arguments) {
  if (!hasRegions(graph)) return;
  std::vector<NodeRun> runs;
  RunQuestions questions(graph);
  findCalls(*graph.top(), questions, runs);
  CallMaker maker(graph);
  for (const NodeRun& run : runs) {
    uint16_t call = run.first->attributes().call;
    auto found = std::find_if(arguments.begin(), arguments.end(), [&](const auto& each) { return each.call == call; });
    found == arguments.end() ? maker.make(run) : maker.make(run, found->given);
  }
}

void outlineCalls(ir::Graph& graph) { outlineCalls(graph, {}); }

size_t outlineShared(ir::Graph& graph) {
  std::vector<NodeRun> runs = hasRegions(graph) ? markedRuns(*graph.top()) : repeatedRuns(*graph.top());
  if (runs.size() < 2) return 0;
  RunQuestions questions(graph);
  std::vector<uint64_t> hashes;
  std::map<uint64_t, size_t> count;
  std::erase_if(runs, [&](NodeRun& run) {
    questions.describe(run);
    return !questions.canBeDifferentiatedAlone(run);
  });
  for (const NodeRun& run : runs) ++count[hashes.emplace_back(hashOf(run))];
  CallMaker maker(graph);
  size_t made = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (count[hashes[i]] < 2) continue;
    maker.make(runs[i]);
    ++made;
  }
  return made;
}

void outlineSharedRegions(ir::Graph& graph) { outlineShared(graph); }

void inlineCalls(ir::Graph& graph) { inlineIn(graph, graph.top()); }

}  // namespace saker::passes
