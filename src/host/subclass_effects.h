// What a function does to arguments that are tensor subclasses, done again to the arguments of each call. Graphs see
// the tensors inside. What autograd knows of the subclass around them (that a result is a view of it, that it was
// written, and how often) is found out on the stand-ins of a capture.
//
// All of this is called under the interpreter's lock.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "aten/torch_version/autograd_node.h"

namespace saker {

int64_t versionOf(const at::Tensor& tensor);  // 0 where none is counted

class ArgumentEffects {
 public:
  // A result that is a view of a tensor, or the tensor itself: an argument, or a base that the function made and that
  // is no other result.
  struct View {
    size_t place;     // among the results
    size_t base;      // among the arguments; behind them, bases
    at::Tensor view;  // of the capture; undefined: the base itself
    bool grad = true;
  };

  std::vector<View> views;
  std::vector<size_t> contents;  // arguments that get other contents and another history

  bool writeArguments() const { return !writes_.empty() || !contents.empty(); }
  // How many tensors of a call are needed to do it again: bases, then contents.
  size_t needed() const { return bases_ + contents.size(); }
  // Writes to the arguments, and gives views by their places. `versions` are those that arguments had before the call.
  std::vector<std::pair<size_t, at::Tensor>> redo(const std::vector<at::Tensor>& arguments,
                                                  const std::vector<int64_t>& versions,
                                                  std::span<const at::Tensor> needed) const;

 private:
  friend class WatchedArguments;
  std::vector<std::pair<size_t, int64_t>> writes_;  // how often an argument is written
  size_t bases_ = 0;
};

// The stand-ins of a call's arguments; `watched` are those that are made of others.
class WatchedArguments {
 public:
  WatchedArguments(const std::vector<at::Tensor>& tensors, std::vector<size_t> watched);

  // After the function: what it did to them. `results` are its results by place, undefined where one is no tensor;
  // `needed` gets what doing it again needs.
  ArgumentEffects ended(const std::vector<at::Tensor>& results, std::vector<at::Tensor>& needed) const;

 private:
  std::optional<size_t> placeOf(const at::Tensor& base, std::vector<at::Tensor>& bases) const;
  void findViews(const std::vector<at::Tensor>& results, ArgumentEffects& effects,
                 std::vector<at::Tensor>& bases) const;

  std::vector<at::Tensor> tensors_;
  std::vector<size_t> watched_;
  std::vector<int64_t> versions_;         // by watched
  std::vector<aten::NodePtr> histories_;  // by watched
};

}  // namespace saker
