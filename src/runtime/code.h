// A graph made ready to be run many times through ATen: operators are looked up, constant arguments converted and last
// uses found once. Graphs with sizes that change go through the interpreter.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace saker::runtime {

class Code {
 public:
  // Both live as long as the code.
  Code(const ir::Graph& graph, const std::vector<c10::IValue>& objects);
  ~Code();
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  // One tensor for each parameter, `numbers` in their order where a parameter is a number; undefined tensors for what
  // is no tensor in the result. Inputs are let go at their last use.
  // `freely`: inputs may have other strides than the graph says, and so may what is computed.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, std::span<const int64_t> numbers = {},
                              bool freely = false) const;
  // Does the graph compute the same values whatever the strides of its inputs? It may still refuse some of them.
  bool mayRunFreely() const;

 private:
  struct Instruction;
  void translate(const ir::Node& node, std::vector<uint32_t>& lastUse);
  std::vector<at::Tensor> interpret(std::vector<at::Tensor> inputs, std::span<const int64_t> numbers) const;

  const ir::Graph& graph_;
  const std::vector<c10::IValue>& objects_;
  bool plain_ = true;  // everything is known beforehand
  std::vector<Instruction> instructions_;
  std::vector<uint32_t> returned_;  // by result: its slot, or none
};

// Has a type of the graph, or an argument, sizes that change?
bool isSymbolic(const ir::Graph& graph);

}  // namespace saker::runtime
