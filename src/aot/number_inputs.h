// Numbers of Python's that are others in each call, in a program whose gradients are compiled. What Python computes of
// them becomes inputs of the program beside its tensors, so that its derivative finds tensors where operators take one
// beside another: `x * (rate / 2)` is differentiated as `x * number`, which is what autograd does in eager mode.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/program.h"

namespace saker::aot {

// Is this a float that was recorded as an input? Nobody else has such a tensor.
bool isNumberInput(const at::Tensor& tensor);
// Is one of Python's floats in an expression?
bool namesFloat(const sym::Node* node);

class NumberInputs {
 public:
  // `examples` of its arguments. Nothing: a number is read from data, or an operator takes one elsewhere than as an
  // operand (`alpha=`), where autograd's formulas may go another way for another number.
  static std::optional<NumberInputs> takenOutOf(const runtime::Program& program, std::span<const at::Tensor> examples);

  // The same program with the numbers as further arguments.
  const std::shared_ptr<runtime::Program>& program() const { return program_; }
  // The arguments with them. Nothing: Python would raise on the way, as the program that was given does.
  std::optional<std::vector<at::Tensor>> with(const std::vector<at::Tensor>& arguments) const;

 private:
  struct Read {
    size_t argument;
    const sym::Node* symbol;
  };
  // A size that is a symbol.
  struct Size {
    size_t argument;
    size_t dimension;
    const sym::Node* symbol;
  };
  class Split;

  std::shared_ptr<runtime::Program> program_;
  std::vector<Read> reads_;
  std::vector<Size> sizes_;
  std::vector<const sym::Node*> numbers_;   // by further argument
  std::vector<const sym::Node*> expected_;  // must have a value
};

}  // namespace saker::aot
