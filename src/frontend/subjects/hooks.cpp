#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/variable.h>

#include "capture/user_code.h"
#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"
#include "host/objects.h"
#include "watch/once.h"

namespace saker::frontend {

namespace {

using Kind = HostPart::Kind;

PyObject* helper(const char* name) { return watch::importedAttribute("saker._hooks", name); }

}  // namespace

std::optional<HostPart> Hooks::pinned(PyObject* object) {
  if (recorder_.madeHere(object) || (placeOf(object) == kInside && !isNamed(object) && !isAtom(object))) {
    stop(Why::HookOfOwnValues);
    return std::nullopt;
  }
  pin(object);
  return HostPart{Kind::Constant, Ref::borrow(object), 0, {}};
}

// Of all that a module is given, hooks see the tensors.
HostPart Hooks::tensorsOf(PyObject* values, std::vector<at::Tensor>& tensors) {
  auto part = [&](PyObject* value) {
    if (!isTensor(value)) return HostPart{Kind::Constant, Ref::borrow(Py_None), 0, {}};
    tensors.push_back(tensorOf(value));
    return HostPart{Kind::Tensor, {}, static_cast<uint32_t>(tensors.size() - 1), {}};
  };
  if (!PyTuple_Check(values)) return part(values);
  HostPart all{Kind::Tuple, {}, 0, {}};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); ++i) all.parts.push_back(part(PyTuple_GET_ITEM(values, i)));
  return all;
}

bool Hooks::registersHook(PyObject* function, const watch::Arguments& arguments) {
  constexpr const char* kFile = "torch/_tensor.py";
  bool registers =
      isPartOf(function, "register_hook", kFile) || isPartOf(function, "register_post_accumulate_grad_hook", kFile);
  size_t named = arguments.names ? static_cast<size_t>(PyTuple_GET_SIZE(arguments.names)) : 0;
  if (!registers || arguments.positional < 1 || arguments.positional + named != 2) return false;
  PyObject *tensor = arguments.values[0], *hook = arguments.values[1];
  if (!isTensor(tensor)) return false;
  if (answersFunctions(tensor)) return stop(Why::AsksClassOfGradients);
  if (speculative()) return stop(Why::AttemptRegistersHook);
  bool constant = !recorder_.madeHere(hook) && !provenance().isFresh(hook) && (isNamed(hook) || isAtom(hook));
  if (constant) pin(hook);
  if (!constant) handOn(hook);
  Hooking hooking{{}, Ref::borrow(tensor), c10::make_intrusive<HostCall>(), {}, /*registers=*/true};
  if (!constant) hooking.put = Ref::borrow(hook);
  hooking.tensors.push_back(tensorOf(tensor));
  hooking.call->callable = Ref::steal(helper("register"));
  hooking.call->wraps = hooking.call->hooks = true;
  hooking.call->arguments.push_back({Kind::Tensor, {}, 0, {}});
  hooking.call->arguments.push_back({Kind::Constant, Ref::borrow(function), 0, {}});
  hooking.call->arguments.push_back(
      {Kind::Constant, constant ? Ref::borrow(hook) : Ref::steal(helper("awaited")), 0, {}});
  expectEnd();
  hooking_ = std::move(hooking);
  hide(function);
  return true;
}

// A handle from outside changes a dict, as any other Python code does.
bool Hooks::removesHook(PyObject* function, const watch::Arguments& arguments) {
  if (handles_.empty() || arguments.positional != 1) return false;
  std::optional<uint32_t> handle = handleOf(arguments.values[0]);
  if (!handle || !isPartOf(function, "remove", "torch/utils/hooks.py")) return false;
  Hooking hooking{{}, {}, c10::make_intrusive<HostCall>(), {}};
  hooking.call->callable = Ref::borrow(function);
  hooking.call->wraps = hooking.call->hooks = true;
  hooking.call->arguments.push_back({Kind::Handle, {}, *handle, {}});
  expectEnd();
  hooking_ = std::move(hooking);
  hide(function);
  return true;
}

// A hook that the call makes, or that another call may find to be another object, is put where it belongs after the
// operators: until then, a stand-in has its place among the hooks of the tensor.
void Hooks::registered(PyObject* handle) {
  Hooking done = std::move(*hooking_);
  hooking_.reset();
  auto number = static_cast<uint32_t>(handles_.size());
  handles_.emplace(handle, number);
  keep(Ref::borrow(handle));
  done.call->handle = number;
  callHost(done.call, done.tensors);
  bool outside = placeOf(done.given.get()) != kInside;
  hooksOutside_ |= outside;
  if (!done.put) return;
  Effect put;
  put.callable = Ref::steal(helper("put"));
  put.arguments = {Ref::borrow(handle), done.put};
  put.hook = true;
  put.inner = !outside;
  effects().list().push_back(std::move(put));
}

namespace {

// Are there hooks on the gradient of a tensor? Where Python has removed all of its own, their dict stays.
PyObject* hasHooks(PyObject*, PyObject* tensor) {
  // A tensor that autograd does not know yet has none, and cannot be asked: the call lets it require grad.
  if (!isTensor(tensor) || !torch::autograd::impl::get_autograd_meta(tensorOf(tensor))) Py_RETURN_FALSE;
  size_t count = torch::autograd::impl::hooks(tensorOf(tensor)).size();
  Ref own = Ref::steal(PyObject_GetAttrString(tensor, "_backward_hooks"));
  if (!own) return nullptr;
  if (PyDict_Check(own.get()) && PyDict_GET_SIZE(own.get()) == 0 && count > 0) --count;
  return PyBool_FromLong(count > 0);
}

}  // namespace

std::optional<Stop> Hooks::guardHooks() {
  if (!takesGradients_) return std::nullopt;
  if (hooksOutside_) return Why::GradientsWithHooks;
  static PyMethodDef method{"has_hooks", hasHooks, METH_O, nullptr};
  static PyObject* const function = PyCFunction_New(&method, nullptr);
  for (const auto& [impl, place] : provenance().tensors()) {
    PyObject* tensor = provenance().at(place);
    if (!isTensor(tensor) || !impl->requires_grad()) continue;
    Ref answer = Ref::steal(hasHooks(nullptr, tensor));
    PyErr_Clear();
    if (answer.get() != Py_False) return Why::GradientsWithHooks;
    subjects().flags.add({Ref::borrow(function), Ref::steal(PyTuple_Pack(1, tensor)), answer, {place}});
  }
  return std::nullopt;
}

bool Hooks::setsHooks(PyObject* function, const watch::Arguments& arguments) {
  bool enters = isPartOf(function, "setup_input_hook", "torch/utils/hooks.py");
  if (!enters && !isPartOf(function, "setup_output_hook", "torch/utils/hooks.py")) return false;
  if (arguments.positional != 2) return false;
  if (speculative()) return stop(Why::AttemptSetsHooks);
  PyObject* hook = arguments.values[0];
  Hooking hooking{Ref::borrow(hook), Ref::borrow(arguments.values[1]), c10::make_intrusive<HostCall>(), {}};
  HostCall& call = *hooking.call;
  call.callable = Ref::steal(helper(enters ? "enter" : "leave"));
  call.wraps = call.hooks = true;
  if (enters) {
    PyObject* dict = instanceDict(hook);
    for (const char* name : {"module", "user_hooks", "user_pre_hooks"}) {
      PyObject* value = dict ? PyDict_GetItemString(dict, name) : nullptr;
      if (!value) return false;
      bool list = PyList_Check(value);
      HostPart all{Kind::List, {}, 0, {}};
      for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(value); ++i) {
        std::optional<HostPart> part = pinned(PyList_GET_ITEM(value, i));
        if (!part) return false;
        all.parts.push_back(std::move(*part));
      }
      std::optional<HostPart> part = list ? std::move(all) : pinned(value);
      if (!part) return false;
      call.arguments.push_back(std::move(*part));
    }
  } else {
    auto token = hookTokens_.find(hook);
    if (token == hookTokens_.end()) return false;
    hooking.tensors.push_back(token->second);
    call.arguments.push_back({Kind::Tensor, {}, 0, {}});
  }
  call.arguments.push_back(tensorsOf(arguments.values[1], hooking.tensors));
  expectEnd();
  hooking_ = std::move(hooking);
  hide(function);
  return true;
}

void Hooks::setHooks(PyObject* result) {
  if (stopped()) return hooking_.reset();
  if (hooking_->registers) return registered(result);
  Hooking done = std::move(*hooking_);
  hooking_.reset();
  if (!done.hook) {
    callHost(done.call, done.tensors);
    return;
  }
  std::vector<at::Tensor>& given = done.call->given;
  bool enters = !hookTokens_.contains(done.hook.get());
  if (enters) {
    tracing::TapeScope untaped(nullptr);
    given.push_back(at::empty({0}));
    hookTokens_.emplace(done.hook.get(), given.back());
  }
  auto add = [&](PyObject* before, PyObject* after) {
    if (before != after) given.push_back(tensorOf(after));
  };
  if (PyTuple_Check(result)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i) {
      add(PyTuple_GET_ITEM(done.given.get(), i), PyTuple_GET_ITEM(result, i));
    }
  } else {
    add(done.given.get(), result);
  }
  for (const at::Tensor& tensor : given) done.call->shapes.emplace_back(tensor);
  keep(std::move(done.hook));
  callHost(done.call, done.tensors);
}

namespace {

// Are these tensors of a transform of torch.func that differentiates?
bool areWrapped(PyObject* tensors) {
  if (!PyTuple_Check(tensors) || PyTuple_GET_SIZE(tensors) == 0) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); ++i) {
    PyObject* each = PyTuple_GET_ITEM(tensors, i);
    if (!isTensor(each) || !tensorOf(each).key_set().has(c10::DispatchKey::FuncTorchGradWrapper)) return false;
  }
  return true;
}

}  // namespace

// In an attempt autograd goes through stand-ins.
bool Hooks::mayFollow(const Values& args, PyObject* names) {
  size_t first = !args.empty() && PyTuple_Check(args[0]) ? 0 : 1;  // behind the engine itself
  if (first >= args.size() || !PyTuple_Check(args[first])) return stop(Why::GradientsIntoGrad);
  PyObject* results = args[first];
  // A trace does not know what a backward reads as the result that its operator gave: derivatives would miss it, but
  // for what transforms of torch.func have wrapped, where autograd keeps the wrapper.
  bool again = argumentOf(args, names, first + 3, "create_graph") != Py_False;
  if (again && !areWrapped(results)) return stop({Why::AttemptCalls, "torch.autograd.grad with create_graph=True"});
  std::vector<torch::autograd::Edge> roots;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(results); ++i) {
    PyObject* each = PyTuple_GET_ITEM(results, i);
    if (isTensor(each)) roots.push_back(torch::autograd::impl::gradient_edge(tensorOf(each)));
  }
  return !tracing::reachesUserCode(roots) || stop(Why::GradientsWithHooks);
}

PyObject* Hooks::insteadOf(PyObject* callable) {
  static constinit watch::Once<PyObject*> standIn;
  if (!PyFunction_Check(callable) || !isPartOf(callable, "_make_grads", "torch/autograd/__init__.py")) return nullptr;
  return Py_XNewRef(standIn.get([] { return watch::importedAttribute("saker._given_gradients", "make"); }));
}

// run_backward(outputs, gradients, keep_graph, create_graph, inputs, allow_unreachable, accumulate_grad)
bool Hooks::takesGradients(const Values& args, PyObject* names) {
  bool into = argumentOf(args, names, args.size(), "accumulate_grad") != Py_False;
  if (into) return stop(Why::GradientsIntoGrad);
  for (PyObject* arg : args) {
    for (Py_ssize_t i = 0; PyTuple_Check(arg) && i < PyTuple_GET_SIZE(arg); ++i) {
      PyObject* each = PyTuple_GET_ITEM(arg, i);
      if (isTensor(each) && answersFunctions(each)) return stop(Why::AsksClassOfGradients);
    }
  }
  if (speculative() && !mayFollow(args, names)) return false;
  if (!speculative()) tape().allowGradients();
  takesGradients_ = true;
  return true;
}

Answer Hooks::behaves(Behaviour behaviour, PyObject*, const Values& args, PyObject* names) {
  if (behaviour != Behaviour::Gradients) return std::nullopt;
  return takesGradients(args, names);
}

Answer Hooks::callsFunction(PyObject* function, const watch::Arguments& arguments) {
  bool mine = setsHooks(function, arguments) || registersHook(function, arguments) || removesHook(function, arguments);
  if (stopped()) return false;
  return mine ? Answer(true) : std::nullopt;
}

bool Hooks::called(PyObject*, PyObject* result, bool spread) {
  if (!hooking_ || spread) return false;
  setHooks(result);
  return true;
}

void Hooks::goesOn() {
  if (std::exchange(hooking_, std::nullopt)) tape().spoil(Why::HookFailed);
}

std::optional<Stop> Hooks::seal() { return hooking_ ? std::optional<Stop>(Why::HookFailed) : guardHooks(); }

}  // namespace saker::frontend
