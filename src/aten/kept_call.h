// Calls of PyTorch's kernels for the CPU that are prepared once and then run many times, on tensors that look alike.
// What the dispatcher and the kernel's own preparation (checks, promotion, the iterator over elements) find out is the
// same in each run; what computes is entered directly, so that the results are the same to the last bit.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <span>
#include <vector>

namespace saker::aten {

// Where a tensor of the call is. `fixed`: it is the same one over the same memory in each run, and is not looked at
// again; of the others the memory may differ from run to run.
struct KeptTensor {
  const at::Tensor* at = nullptr;
  bool fixed = false;
};

struct KeptArguments {
  std::span<const c10::IValue> values;  // by argument of the operator, but for tensors that are given in each run
  std::span<const KeptTensor> tensors;  // by argument: `at` is nullptr where `values` has it
  KeptTensor result;                    // what is computed into; it is there, in the layout that it has in each run
};

class KeptCall {
 public:
  virtual ~KeptCall() = default;
  // False, and nothing has happened: a tensor looks otherwise than when this was prepared.
  bool run();
  // Has the kernel changed what was prepared? Then there is no other run.
  bool spent() const { return spent_; }
  // How many were prepared in this process, and how often one did not run for that reason; for tests.
  static uint64_t prepared();
  static uint64_t missed();

 protected:
  // Notes what the tensors look like that are not fixed.
  void keep(const KeptArguments& arguments);
  virtual void compute() = 0;
  bool spent_ = false;

 private:
  struct Form {
    const at::Tensor* at;
    c10::DispatchKeySet keys;
    caffe2::TypeMeta dtype;
    c10::DimVector sizes, strides;
    bool fits() const;
  };
  std::vector<Form> forms_;
};

// A kernel that can be prepared, of one operator.
class KeptKernel {
 public:
  // Whose products of matrices: eager mode's, to the bit, or the fastest there are (product_call.h).
  enum class Products : uint8_t { Eager, Fastest };
  // nullptr: calls of it cannot be kept, or it has another kernel than PyTorch's own.
  static const KeptKernel* find(const c10::OperatorHandle& handle, Products products);
  // Prepares a call; nullptr: this one cannot be kept. Nothing of the arguments is held but for `values`.
  std::unique_ptr<KeptCall> prepare(const KeptArguments& arguments) const;
  // Is the kernel still the one that was found? A program may register another one.
  bool isCurrent() const;

  using Make = std::unique_ptr<KeptCall> (*)(const KeptArguments&);
  KeptKernel(const c10::OperatorHandle& handle, Make make);

 private:
  Make make_;
  const c10::KernelFunction& current_;  // of the dispatcher's table
  const c10::KernelFunction found_;
};

// Would an operator that is called now on ordinary tensors of the CPU go to its kernel, seen by nobody?
bool reachesKernels();

}  // namespace saker::aten
