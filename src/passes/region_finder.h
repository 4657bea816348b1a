// Finds runs of nodes that can be the body of one call, and makes that call (passes/regions.h).
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "passes/memory.h"

namespace saker::passes {

// A run of nodes, one behind the other in a region of a graph.
struct NodeRun {
  ir::Node* first = nullptr;
  ir::Node* last = nullptr;
  std::vector<ir::Value*> operands;  // values from before it that it reads, in the order of their first use
  std::vector<ir::Value*> results;   // its values that are read behind it
};

// Answers about runs of nodes of one graph, as it was when this was made.
class RunQuestions {
 public:
  explicit RunQuestions(const ir::Graph& graph);

  // Fills operands and results.
  void describe(NodeRun& run);
  // Would a call whose body it is be the same to everybody who reads the graph?
  bool canBeCall(const NodeRun& run);
  // Would its derivative, made for it alone, give the same gradients, bit by bit?
  bool canBeDifferentiatedAlone(const NodeRun& run);

 private:
  template <typename F>
  void eachNode(const NodeRun& run, F&& f);  // in bodies too
  bool isInRun(const ir::Node* node) const;
  bool hasOwnMemory(const NodeRun& run);

  Memory memory_;
  std::vector<uint32_t> runOf_;   // by node: the run that was described last and has it
  std::vector<uint32_t> seenIn_;  // by value: the same for operands
  uint32_t run_ = 0;
  std::vector<std::vector<const ir::Node*>> writers_;  // by class of memory
};

// Puts calls in the place of runs that were described before any of them was made.
class CallMaker {
 public:
  explicit CallMaker(ir::Graph& graph) : graph_(graph) {}
  // The operands that are `given` come first, by these names.
  ir::Node* make(const NodeRun& run, const std::vector<std::pair<const ir::Value*, std::string>>& given = {});

 private:
  ir::Value* now(ir::Value* value) const;
  void useResults(const NodeRun& run, ir::Node* call);

  ir::Graph& graph_;
  std::unordered_map<const ir::Value*, ir::Value*> results_;  // of calls, by the values that they stand for
};

}  // namespace saker::passes
