// Nodes of autograd's graph between a tensor subclass and the plain tensors that it is made of. While a function is
// captured they connect stand-ins of the plain tensors with the subclass that the program sees, and at a call the
// subclass that is given with the plain tensors that the graph takes: gradients pass them like values do.
//
// All of this is called under the interpreter's lock.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "host/subclass_form.h"

namespace saker {

// Backwards, by the number that autograd gives each, in which a result of one call was given a gradient.
using GivenTasks = std::set<int>;
// The same, of late, that led through a function that was called again.
class JoinedTasks {
 public:
  void add(int task);
  bool contains(int task) const;

 private:
  static constexpr size_t kLimit = 64;
  std::deque<int> tasks_;
};

// Of what form the gradient of a tensor is, which may lie otherwise in memory than the tensor: a capture finds out.
using GradientForm = std::shared_ptr<FormPtr>;

std::vector<at::Tensor> detached(const std::vector<at::Tensor>& tensors);
// From here on `inner`, of a subclass, counts writes with `outer`. Of a subclass, eager mode looks at that counter
// alone to see whether what a backward reads has been written.
void countWith(const at::Tensor& inner, const at::Tensor& outer);

// The tensors inside of `outer`, detached, with its history.
std::vector<at::Tensor> toInner(FormPtr form, const at::Tensor& outer, std::vector<at::Tensor> inner,
                                GradientForm gradient = nullptr);

// A tensor of this form, with the history of the tensors inside. `found` gets the form of its gradient.
at::Tensor toOuter(FormPtr form, const std::vector<at::Tensor>& inner, GradientForm found = nullptr);
// The same as a result of a call.
at::Tensor toResult(FormPtr form, std::shared_ptr<GivenTasks> given, const std::vector<at::Tensor>& inner);

// A plain tensor whose gradient is of this form: the tensor, and beside it something for each further part of the
// gradient to go to. In a backward that gives no result a gradient its own is a plain one.
std::vector<at::Tensor> split(FormPtr form, std::shared_ptr<GivenTasks> given, std::shared_ptr<JoinedTasks> joined,
                              const at::Tensor& plain);

// The plain tensor of these parts again, while capturing or where the function is called again for a backward.
at::Tensor join(std::shared_ptr<JoinedTasks> joined, const std::vector<at::Tensor>& parts);

// The same tensor, while capturing; `told` is called with the form of its gradient, if that is a subclass.
at::Tensor note(std::function<void(FormPtr)> told, const at::Tensor& plain);

// Raises saker.errors.NotTakenApart.
[[noreturn]] void refuseTakingApart(const char* why);

// Gives them the classes by which Python sees them.
void nameSubclassNodes();

}  // namespace saker
