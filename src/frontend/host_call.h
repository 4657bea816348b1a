// A call of Python's that computes with the memory of tensors: numpy's functions. In a graph it is one operator,
// saker::host, that takes the tensors and makes the call again.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include <optional>
#include <vector>

#include "frontend/casts_around.h"
#include "frontend/guards.h"
#include "watch/ref.h"

namespace saker::frontend {

// An argument of the call, with tensors in place of what shows their memory.
struct HostPart {
  enum class Kind : uint8_t { Constant, Tensor, Array, Scalar, Float, Tuple, List, Slice, Handle } kind;
  Ref object;          // of Constant
  uint32_t index = 0;  // among the tensors; of Handle: among the handles of hooks
  std::vector<HostPart> parts;
  std::optional<at::ScalarType> dtype = std::nullopt;  // of Scalar
};

// While one lives, results pass through Python, where a number is a Python number: it has no other type.
class NumbersOfPython {
 public:
  NumbersOfPython();
  ~NumbersOfPython();
  NumbersOfPython(const NumbersOfPython&) = delete;
  NumbersOfPython& operator=(const NumbersOfPython&) = delete;

 private:
  bool before_;
};

class HostCall final : public torch::CustomClassHolder {
 public:
  ~HostCall() override;

  Ref callable;
  std::vector<HostPart> arguments;  // those of keywords last
  Ref names;
  bool repeatable = false;
  bool sets = false;               // changes what surrounds operators: never ahead of time
  bool wraps = false;              // makes a tensor of others, or takes one out: no data is looked at
  bool hooks = false;              // sets or removes hooks on the backward, which no data makes fail
  Ref study;                       // of a torch.autograd.Function that may become operators (frontend/open_functions.h)
  std::optional<uint32_t> handle;  // it gives the handle of a hook, of this number, and no tensor
  std::vector<TensorShape> shapes;  // of what it gives
  std::optional<CastsAround> casts;

  // The first time, what the call that was watched has given.
  std::vector<at::Tensor> given;
  bool isFirst = true;

  std::vector<at::Tensor> run(const std::vector<at::Tensor>& tensors);
  // May it be taken apart: a torch.autograd.Function, given tensors and constants?
  bool isPlainFunction() const;
};

// The call of the host that this is, or nothing.
c10::intrusive_ptr<HostCall> hostCallIn(const c10::IValue& object);

// Calls `visit` with each array, scalar of numpy's, float or tensor in a result, in order. False: there is something
// else.
bool eachLeaf(PyObject* result, const std::function<bool(PyObject* leaf)>& visit);

// A leaf as a tensor: of numbers, a tensor of no dimensions that operators treat as a number.
std::optional<at::Tensor> leafTensor(PyObject* leaf);
at::Tensor numberTensor(double number);

// Runs the operator, which a tape sees.
std::vector<at::Tensor> callHost(const c10::intrusive_ptr<HostCall>& call, const std::vector<at::Tensor>& tensors);

// Are there calls of the host in a program, and may all of them be made twice?
struct HostCalls {
  bool any = false;
  bool sets = false;
  bool wraps = false;  // such as only make tensors of others do not count as `any`
  bool repeatable = true;
  bool onlyFunctions = true;  // all are such as may be taken apart
};
HostCalls hostCallsOf(const std::vector<c10::IValue>& objects);

}  // namespace saker::frontend
