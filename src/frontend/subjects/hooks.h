// Hooks on the backward of modules and tensors. What sets those of modules is code of PyTorch's that a module runs
// before and after its forward; each of both is an operator of the graph that makes that call again, so that the hooks
// are code of the user that runs whenever it would. A tensor without elements leads from the first to the second.
// Registering a hook on a tensor, and removing it by the handle, are operators as well (frontend/hook_handles.h).
#pragma once

#include <unordered_map>

#include "frontend/host_call.h"
#include "frontend/subject.h"

namespace saker::frontend {

class Hooks final : public SubjectOf<Hooks> {
 public:
  using SubjectOf::SubjectOf;

  // The number of a handle, where it removes a hook that the call has registered on a tensor.
  std::optional<uint32_t> handleOf(PyObject* object) const {
    auto found = handles_.find(object);
    return found == handles_.end() ? std::nullopt : std::optional(found->second);
  }
  size_t handleCount() const { return handles_.size(); }
  // What is called in place of a function of PyTorch's that looks at sizes of gradients, where these are symbols: a new
  // reference, or nullptr.
  static PyObject* insteadOf(PyObject* callable);

  Answer behaves(Behaviour behaviour, PyObject* callable, const Values& args, PyObject* names) override;
  Answer callsFunction(PyObject* function, const watch::Arguments& arguments) override;
  bool called(PyObject* callable, PyObject* result, bool spread) override;
  void goesOn() override;
  std::optional<Stop> seal() override;

 private:
  struct Hooking {
    Ref hook, given;  // without a hook: one is registered on a tensor, or removed
    c10::intrusive_ptr<HostCall> call;
    std::vector<at::Tensor> tensors;
    bool registers = false;
    Ref put = {};  // the hook that is registered, where a replay has to make or find it
  };

  // Is this the part of a module's call that sets them?
  bool setsHooks(PyObject* function, const watch::Arguments& arguments);
  // Or the function that registers one on a tensor?
  bool registersHook(PyObject* function, const watch::Arguments& arguments);
  // Or the one that removes such a one?
  bool removesHook(PyObject* function, const watch::Arguments& arguments);
  void setHooks(PyObject* result);
  void registered(PyObject* handle);
  bool takesGradients(const Values& args, PyObject* names);
  bool mayFollow(const Values& args, PyObject* names);
  // Where the call takes gradients itself: the tensors it was given have no hooks.
  std::optional<Stop> guardHooks();
  std::optional<HostPart> pinned(PyObject* object);
  HostPart tensorsOf(PyObject* values, std::vector<at::Tensor>& tensors);

  std::optional<Hooking> hooking_;
  std::unordered_map<PyObject*, at::Tensor> hookTokens_;
  std::unordered_map<PyObject*, uint32_t> handles_;
  bool hooksOutside_ = false;    // a hook was registered on a tensor from outside
  bool takesGradients_ = false;  // the call takes gradients itself
};

}  // namespace saker::frontend
