#include "frontend/host_call.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include <algorithm>

#include "aten/trace_key.h"
#include "capture/tape.h"
#include "capture/trace.h"
#include "frontend/allowed.h"
#include "frontend/higher_order.h"
#include "frontend/hook_handles.h"
#include "frontend/kinds.h"
#include "frontend/numpy.h"
#include "frontend/open_functions.h"
#include "frontend/operations.h"

#include "host/errors.h"
#include "host/gil.h"
#include "host/objects.h"
#include "runtime/failure.h"
namespace saker::frontend {

namespace {

Ref made(const HostPart& part, const std::vector<at::Tensor>& tensors) {
  using Kind = HostPart::Kind;
  auto size = static_cast<Py_ssize_t>(part.parts.size());
  switch (part.kind) {
    case Kind::Constant:
      return part.object;
    case Kind::Tensor:
      return Ref::steal(wrapTensor(tensors[part.index]));
    case Kind::Float: {
      aten::RunForReal real;
      return Ref::steal(PyFloat_FromDouble(tensors[part.index].item<double>()));
    }
    case Kind::Array:
      return numpy::fromTensor(tensors[part.index], false);
    case Kind::Scalar: {
      aten::RunForReal real;
      return numpy::fromTensor(part.dtype ? tensors[part.index].to(*part.dtype) : tensors[part.index], true);
    }
    case Kind::Handle:
      return Ref::borrow(HookHandles::at(part.index));
    case Kind::Slice: {
      Ref ends[3];
      for (size_t i = 0; i < 3; ++i) ends[i] = made(part.parts[i], tensors);
      return Ref::steal(PySlice_New(ends[0].get(), ends[1].get(), ends[2].get()));
    }
    case Kind::Tuple:
    case Kind::List: {
      Ref list = Ref::steal(PyList_New(size));
      for (Py_ssize_t i = 0; i < size; ++i) {
        PyList_SET_ITEM(list.get(), i, made(part.parts[static_cast<size_t>(i)], tensors).release());
      }
      return part.kind == Kind::List ? list : Ref::steal(PyList_AsTuple(list.get()));
    }
  }
  return {};
}

thread_local bool numbersOfPython = false;

// PyTorch makes Python numbers of these types only.
at::Tensor asPythonNumber(const at::Tensor& number) {
  at::ScalarType type = number.scalar_type();
  at::ScalarType known = type == at::kBool           ? type
                         : c10::isComplexType(type)  ? at::kComplexDouble
                         : c10::isFloatingType(type) ? at::kDouble
                                                     : at::kLong;
  if (type == known) return number;
  aten::RunForReal real;
  at::Tensor made = number.to(known);
  made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

std::vector<at::Tensor> runHost(c10::intrusive_ptr<HostCall> call, std::vector<at::Tensor> tensors) {
  std::vector<at::Tensor> out = call->run(tensors);
  for (at::Tensor& each : out) {
    if (numbersOfPython && each.unsafeGetTensorImpl()->is_wrapped_number()) each = asPythonNumber(each);
  }
  return out;
}

// A tape writes it down; a trace sees what the call asks of stand-ins.
void runWrap(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  keys = keys.remove(c10::DispatchKey::Python);
  if (tracing::Tape* tape = tracing::currentTape()) {
    tape->call(tracing::Call(op, keys, stack));
    return;
  }
  op.redispatchBoxed(keys & aten::kBelowTrace, stack);
}

}  // namespace

NumbersOfPython::NumbersOfPython() : before_(std::exchange(numbersOfPython, true)) {}

NumbersOfPython::~NumbersOfPython() { numbersOfPython = before_; }

bool eachLeaf(PyObject* result, const std::function<bool(PyObject*)>& visit) {
  if (result == Py_None) return true;
  if (isTensor(result) || numpy::isArray(result) || numpy::isScalar(result) || PyFloat_CheckExact(result)) {
    return visit(result);
  }
  if (!PyTuple_Check(result) && !PyList_Check(result)) return false;
  for (Py_ssize_t i = 0; i < Py_SIZE(result); ++i) {
    if (!eachLeaf(PySequence_Fast_ITEMS(result)[i], visit)) return false;
  }
  return true;
}

std::optional<at::Tensor> leafTensor(PyObject* leaf) {
  if (isTensor(leaf)) return tensorOf(leaf);
  if (PyFloat_CheckExact(leaf)) return numberTensor(PyFloat_AS_DOUBLE(leaf));
  std::optional<at::Tensor> tensor = numpy::toTensor(leaf);
  if (tensor && numpy::isScalar(leaf)) tensor->unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

at::Tensor numberTensor(double number) {
  aten::RunForReal real;
  c10::impl::ExcludeDispatchKeyGuard unseenByModes(c10::DispatchKey::Python);
  at::Tensor tensor = at::scalar_tensor(number, at::kDouble);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

bool HostCall::isPlainFunction() const {
  auto isPlain = [](const auto& self, const HostPart& part) -> bool {
    using Kind = HostPart::Kind;
    bool known =
        part.kind == Kind::Constant || part.kind == Kind::Tensor || part.kind == Kind::Tuple || part.kind == Kind::List;
    return known &&
           std::all_of(part.parts.begin(), part.parts.end(), [&](const auto& each) { return self(self, each); });
  };
  bool plain =
      std::all_of(arguments.begin(), arguments.end(), [&](const auto& each) { return isPlain(isPlain, each); });
  return plain && wraps && !names && !sets && !hooks && higher_order::appliesFunction(callable.get());
}

HostCall::~HostCall() {
  HoldInterpreter gil;
  study = {};
  callable = {};
  names = {};
  arguments.clear();
}

std::vector<at::Tensor> HostCall::run(const std::vector<at::Tensor>& tensors) {
  if (std::exchange(isFirst, false)) return std::exchange(given, {});
  HoldInterpreter gil;
  std::vector<Ref> held;
  std::vector<PyObject*> values;
  for (const HostPart& part : arguments) {
    held.push_back(made(part, tensors));
    if (!held.back()) throwPythonError();
    values.push_back(held.back().get());
  }
  size_t named = names ? static_cast<size_t>(PyTuple_GET_SIZE(names.get())) : 0;
  Ref apply = functionToCall(*this);
  std::optional<UnderCasts> under;
  if (casts) under.emplace(*casts);
  Ref result = Ref::steal(PyObject_Vectorcall(apply.get(), values.data(), values.size() - named, names.get()));
  if (!result) throwPythonError();
  if (handle) HookHandles::set(*handle, result.get());
  if (sets || handle) return {};
  std::vector<at::Tensor> out;
  bool known = eachLeaf(result.get(), [&](PyObject* leaf) {
    std::optional<at::Tensor> tensor = leafTensor(leaf);
    bool fits = tensor && out.size() < shapes.size() &&
                ((wraps && tracing::current()) || shapes[out.size()].fits(*tensor));  // stand-ins have another key
    if (fits) out.push_back(*tensor);
    return fits;
  });
  bool fits = known && out.size() == shapes.size();
  if (!fits && isAllowed(callable.get())) runtime::failForSizes(Operations::name(callable.get()));
  TORCH_CHECK(fits, Operations::name(callable.get()),
              " gives an array of another size or type than when the function was recorded");
  return out;
}

TORCH_LIBRARY_FRAGMENT(saker, library) {
  library.class_<HostCall>("HostCall");
  library.def("host(__torch__.torch.classes.saker.HostCall call, Tensor[] tensors) -> Tensor[]");
  library.def("wrap(__torch__.torch.classes.saker.HostCall call, Tensor[] tensors) -> Tensor[]");
  library.def("hook(__torch__.torch.classes.saker.HostCall call, Tensor[] tensors) -> Tensor[]");
}

TORCH_LIBRARY_IMPL(saker, CompositeExplicitAutograd, library) {
  library.impl("host", &runHost);
  library.impl("wrap", &runHost);
  library.impl("hook", &runHost);
}

// Whatever it is given, a class that is to answer or a stand-in, it is the call that is made.
TORCH_LIBRARY_IMPL(saker, Autograd, library) {
  library.impl("wrap", torch::CppFunction::makeFallthrough());
  library.impl("hook", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(saker, Python, library) {
  library.impl("wrap", &runHost);
  library.impl("hook", &runHost);
}
SAKER_TRACE_KERNEL(saker, "wrap", runWrap)
SAKER_TRACE_KERNEL(saker, "hook", runWrap)

std::vector<at::Tensor> callHost(const c10::intrusive_ptr<HostCall>& call, const std::vector<at::Tensor>& tensors) {
  static const c10::OperatorHandle host = c10::Dispatcher::singleton().findSchemaOrThrow("saker::host", "");
  static const c10::OperatorHandle wrap = c10::Dispatcher::singleton().findSchemaOrThrow("saker::wrap", "");
  static const c10::OperatorHandle hook = c10::Dispatcher::singleton().findSchemaOrThrow("saker::hook", "");
  call->casts = CastsAround::now();
  torch::jit::Stack stack{c10::IValue(call), c10::IValue(tensors)};
  static const c10::DispatchKeySet modes({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot});
  c10::impl::ExcludeDispatchKeyGuard unseen(call->wraps ? modes : c10::DispatchKeySet());
  (call->hooks ? hook : call->wraps ? wrap : host).callBoxed(&stack);
  return stack[0].toTensorVector();
}

c10::intrusive_ptr<HostCall> hostCallIn(const c10::IValue& object) {
  static const c10::TypePtr type = c10::getCustomClassType<c10::intrusive_ptr<HostCall>>();
  if (!object.isObject() || !object.isCustomClass() || object.type() != type) return {};
  return object.toCustomClass<HostCall>();
}

bool callsAllowed(const std::vector<c10::IValue>& objects) {
  return std::any_of(objects.begin(), objects.end(), [](const c10::IValue& object) {
    c10::intrusive_ptr<HostCall> call = hostCallIn(object);
    return call && isAllowed(call->callable.get());
  });
}

HostCalls hostCallsOf(const std::vector<c10::IValue>& objects) {
  HostCalls out;
  for (const c10::IValue& object : objects) {
    c10::intrusive_ptr<HostCall> call = hostCallIn(object);
    if (!call) continue;
    (call->wraps ? out.wraps : out.any) = true;
    out.any |= isAllowed(call->callable.get());
    out.sets |= call->sets;
    out.repeatable &= call->repeatable;
    out.onlyFunctions &= call->isPlainFunction();
  }
  return out;
}

}  // namespace saker::frontend
