// Hooks on the backward of modules. What sets them is code of PyTorch's that a module runs before and after its
// forward; each of both is an operator of the graph that makes that call again, so that the hooks are code of the user
// that runs whenever it would. A tensor without elements leads from the first to the second.
#include <ATen/ops/empty.h>
#include <opcode.h>
#include <torch/csrc/autograd/python_variable.h>

#include "frontend/kinds.h"
#include "frontend/recorder.h"
#include "watch/once.h"

namespace saker::frontend {

namespace {

using Kind = HostPart::Kind;

PyObject* helper(const char* name) { return watch::importedAttribute("saker._hooks", name); }

// Does a function, or one that it makes, write to variables around it?
bool writesOutside(PyObject* object) {
  auto* code = reinterpret_cast<PyCodeObject*>(object);
  Ref bytes = Ref::steal(PyCode_GetCode(code));
  std::string_view text(PyBytes_AS_STRING(bytes.get()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.get())));
  for (size_t i = 0; i < text.size(); i += sizeof(_Py_CODEUNIT)) {
    auto opcode = static_cast<unsigned char>(text[i]);
    if (opcode == STORE_DEREF || opcode == DELETE_DEREF) return true;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); ++i) {
    PyObject* constant = PyTuple_GET_ITEM(code->co_consts, i);
    if (PyCode_Check(constant) && writesOutside(constant)) return true;
  }
  return false;
}

}  // namespace

std::optional<HostPart> Recorder::pinned(PyObject* object) {
  if (madeHere(object) || (placeOf(object) == kInside && !isNamed(object) && !isAtom(object))) {
    stop("sets a hook that it makes of its own values");
    return std::nullopt;
  }
  pin(object);
  return HostPart{Kind::Constant, Ref::borrow(object), 0, {}};
}

// Of all that a module is given, hooks see the tensors.
HostPart Recorder::tensorsOf(PyObject* values, std::vector<at::Tensor>& tensors) {
  auto part = [&](PyObject* value) {
    if (!isTensor(value)) return HostPart{Kind::Constant, Ref::borrow(Py_None), 0, {}};
    tensors.push_back(THPVariable_Unpack(value));
    return HostPart{Kind::Tensor, {}, static_cast<uint32_t>(tensors.size() - 1), {}};
  };
  if (!PyTuple_Check(values)) return part(values);
  HostPart all{Kind::Tuple, {}, 0, {}};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); ++i) all.parts.push_back(part(PyTuple_GET_ITEM(values, i)));
  return all;
}

// A function that the call makes is as good as one made later if it holds nothing but constants and outside objects.
bool Recorder::lasts(PyObject* hook) {
  if (!PyFunction_Check(hook) || !madeHere(hook)) return false;
  auto holdsConstant = [&](PyObject* value) {
    if (!value || isAtom(value) || isNamed(value)) return true;
    pin(value);
    return placeOf(value) != kInside && !isTensor(value);
  };
  auto* parts = reinterpret_cast<PyFunctionObject*>(hook);
  if (parts->func_closure && writesOutside(parts->func_code)) return false;
  if (parts->func_kwdefaults || (parts->func_dict && PyDict_GET_SIZE(parts->func_dict) > 0)) return false;
  for (PyObject* held : {parts->func_defaults, parts->func_closure}) {
    for (Py_ssize_t i = 0; held && i < PyTuple_GET_SIZE(held); ++i) {
      PyObject* value = PyTuple_GET_ITEM(held, i);
      if (PyCell_Check(value) && placeOf(value) == kInside && !holdsConstant(PyCell_GET(value))) return false;
      if (!PyCell_Check(value) && !holdsConstant(value)) return false;
    }
  }
  return true;
}

bool Recorder::registersHook(PyObject* function, const watch::Arguments& arguments) {
  constexpr const char* kFile = "torch/_tensor.py";
  bool registers =
      isPartOf(function, "register_hook", kFile) || isPartOf(function, "register_post_accumulate_grad_hook", kFile);
  if (!registers || arguments.positional != 2 || !isTensor(arguments.values[0])) return false;
  if (speculative_) return stop("registers a hook on a tensor");
  PyObject* hook = arguments.values[1];
  bool lasting = lasts(hook);
  if (lasting) lasting_.push_back(Ref::borrow(hook));
  std::optional<HostPart> part = lasting ? HostPart{Kind::Constant, Ref::borrow(hook), 0, {}} : pinned(hook);
  if (!part) return false;
  Hooking hooking{{}, Ref::borrow(arguments.values[0]), c10::make_intrusive<HostCall>(), {}};
  hooking.tensors.push_back(THPVariable_Unpack(arguments.values[0]));
  hooking.call->callable = Ref::steal(helper("register"));
  hooking.call->wraps = true;
  hooking.call->arguments.push_back({Kind::Tensor, {}, 0, {}});
  hooking.call->arguments.push_back({Kind::Constant, Ref::borrow(function), 0, {}});
  hooking.call->arguments.push_back(std::move(*part));
  hooking_ = std::move(hooking);
  hiding_ = function;
  return true;
}

bool Recorder::setsHooks(PyObject* function, const watch::Arguments& arguments) {
  bool enters = isPartOf(function, "setup_input_hook", "torch/utils/hooks.py");
  if (!enters && !isPartOf(function, "setup_output_hook", "torch/utils/hooks.py")) return false;
  if (arguments.positional != 2) return false;
  if (speculative_) return stop("sets hooks on the backward of a module");
  PyObject* hook = arguments.values[0];
  Hooking hooking{Ref::borrow(hook), Ref::borrow(arguments.values[1]), c10::make_intrusive<HostCall>(), {}};
  HostCall& call = *hooking.call;
  call.callable = Ref::steal(helper(enters ? "enter" : "leave"));
  call.wraps = true;
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
  hooking_ = std::move(hooking);
  hiding_ = function;
  return true;
}

void Recorder::setHooks(PyObject* result) {
  Hooking done = std::move(*hooking_);
  hooking_.reset();
  if (stopped_) return;
  if (!done.hook) {
    handles_.insert(result);
    kept_.push_back(Ref::borrow(result));
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
    if (before != after) given.push_back(THPVariable_Unpack(after));
  };
  if (PyTuple_Check(result)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i) {
      add(PyTuple_GET_ITEM(done.given.get(), i), PyTuple_GET_ITEM(result, i));
    }
  } else {
    add(done.given.get(), result);
  }
  for (const at::Tensor& tensor : given) done.call->shapes.emplace_back(tensor);
  kept_.push_back(std::move(done.hook));
  callHost(done.call, done.tensors);
}

}  // namespace saker::frontend
