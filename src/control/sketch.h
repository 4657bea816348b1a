// A graph that is made by calling operators on stand-ins: a capture of its own, without a program around it.
#pragma once

#include <ATen/SavedTensorHooks.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <vector>

#include "capture/tape.h"
#include "capture/trace.h"

namespace saker::control {

// Bodies do what the program may, and what no graph of theirs does: it has to run as Python code.
struct OnlyAsPython : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Hooks of the program's on what autograd saves are not called for stand-ins while one lives.
class WithoutHooks {
 public:
  WithoutHooks() : kept_(at::SavedTensorDefaultHooks::get_tls_state()) {
    at::SavedTensorDefaultHooks::set_tls_state({});
  }
  ~WithoutHooks() { at::SavedTensorDefaultHooks::set_tls_state(kept_); }
  WithoutHooks(const WithoutHooks&) = delete;
  WithoutHooks& operator=(const WithoutHooks&) = delete;

 private:
  at::impl::SavedTensorDefaultHooksTLS kept_;
};

class Sketch {
 public:
  // Operators that this thread calls are recorded in here while it lives. `objects` are what arguments of other bodies
  // beside this one refer to.
  Sketch(std::shared_ptr<ir::Context> context, std::vector<c10::IValue> objects);
  ~Sketch();
  Sketch(const Sketch&) = delete;
  Sketch& operator=(const Sketch&) = delete;

  tracing::Trace& trace() { return *trace_; }
  // One more parameter, and what stands for it.
  at::Tensor add(const ir::TensorType* type, bool requiresGrad = false);
  // The same for a tensor like this one with nothing between its elements.
  at::Tensor addRowMajor(const ir::TensorType* type);
  // The graph, in which nothing is written, simplified. Results are memory of its own, without gaps. Throws
  // std::runtime_error with the reason where there is none. `objects` get those that arguments refer to, behind those
  // they were. `own` is false where results are memory of its own already, in the layout that is wanted.
  std::unique_ptr<ir::Graph> finish(std::vector<at::Tensor> results, std::vector<c10::IValue>& objects,
                                    bool own = true);

 private:
  WithoutHooks unhooked_;
  tracing::TapeScope untaped_;
  std::shared_ptr<tracing::Trace> trace_;
  std::unique_lock<std::recursive_mutex> held_;
  tracing::TraceScope scope_;
  std::vector<at::Tensor> parameters_;
};

// Copies, as operators of whoever records, results that are not memory of their own or have gaps: what shares memory
// with one of `given`, or with one before it. `rowMajor`: the copy, and what is left as it is, are so.
void makeOwn(std::vector<at::Tensor>& results, std::span<const at::Tensor> given, bool rowMajor);

// Of a body that was recorded: no write is left, and nothing that is not needed; to autograd it is the same. Throws
// std::runtime_error where a write is to a tensor that is not its own.
void makeFunctional(ir::Graph& body);

}  // namespace saker::control
