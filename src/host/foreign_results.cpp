#include "host/foreign_results.h"

#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/autograd/python_variable.h>

#include <string>

#include "aten/enums.h"
#include "ir/text.h"
#include "ops/operator.h"

namespace saker {

namespace py = pybind11;

namespace {

// A recording holds the sizes of the call that was recorded, also where data decides.
bool dataDecidesSizes(const ir::Graph& graph) {
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    if (node->isReturn()) continue;
    const ops::Operator* op = ops::of(node);
    constexpr uint32_t decides = ops::kDataDependent | ops::kDynamicShape;
    if (!op || (op->traits & decides) || node->op()->qualified.starts_with("saker::")) return true;
  }
  return false;
}

// Sizes of other kinds of tensors (subclasses, nested and sparse ones) are theirs to tell.
bool isPlain(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return tensor.layout() == c10::kStrided && !impl.has_symbolic_sizes_strides() && !tensor.is_nested() &&
         !impl.key_set().has(c10::DispatchKey::Python);
}

std::string describe(const at::Tensor& tensor) {
  std::string sizes;
  for (int64_t size : tensor.sizes()) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  return std::string("a tensor of ") + c10::toString(tensor.scalar_type()) + " with sizes [" + sizes + "] on " +
         tensor.device().str();
}

std::string className(const py::handle& object) { return Py_TYPE(object.ptr())->tp_name; }

}  // namespace

ForeignResults::ForeignResults(const ir::Graph& graph, std::string maker)
    : ForeignResults(graph, std::move(maker), 0, graph.top()->terminator()->args().size()) {}

ForeignResults::ForeignResults(const ir::Graph& graph, std::string maker, size_t first, size_t last, size_t more)
    : maker_(std::move(maker)), sizesKnown_(!dataDecidesSizes(graph)) {
  for (size_t i = first; i < last; ++i) {
    const ir::Arg& arg = graph.top()->terminator()->arg(i);
    Expected& each = expected_.emplace_back();
    each.none = arg.isNone();
    const ir::TensorType* type = arg.isValue() ? arg.toValue()->tensor() : nullptr;
    if (!type) continue;
    each.tensor = true;
    each.dtype = aten::fromDType(type->dtype);
    each.device = aten::fromDevice(type->device);
    for (sym::Int size : type->sizes()) each.sizes.push_back(size.isConst() ? size.constant() : -1);
    each.text = ir::toString(type);
  }
  for (size_t i = 0; i < more; ++i) {
    Expected& each = expected_.emplace_back();
    each.tensor = each.any = true;
    each.text = "one that is saved for the backward";
  }
}

std::vector<at::Tensor> ForeignResults::take(const py::object& returned) const {
  py::object list = returned;
  if (THPVariable_Check(returned.ptr())) {
    list = py::make_tuple(returned);
  } else if (!PyList_Check(returned.ptr()) && !PyTuple_Check(returned.ptr())) {
    bool iterable = Py_TYPE(returned.ptr())->tp_iter && !PyUnicode_Check(returned.ptr()) &&
                    !PyDict_Check(returned.ptr()) && !PyBytes_Check(returned.ptr());
    if (!iterable) {
      refuse("gave a " + className(returned) + " in place of a tensor, or a list or tuple of " +
             std::to_string(expected_.size()) + " results");
    }
    list = py::reinterpret_steal<py::object>(PySequence_List(returned.ptr()));
    if (!list) throw py::error_already_set();
  }
  auto count = static_cast<size_t>(PySequence_Fast_GET_SIZE(list.ptr()));
  if (count != expected_.size()) {
    refuse("gave " + std::to_string(count) + (count == 1 ? " result" : " results") + " for a graph that has " +
           std::to_string(expected_.size()) + "; it must give one for each result of the graph, in the graph's order");
  }
  std::vector<at::Tensor> tensors;
  tensors.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    tensors.push_back(one(i, PySequence_Fast_GET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i))));
  }
  return tensors;
}

at::Tensor ForeignResults::one(size_t index, const py::handle& item) const {
  const Expected& expected = expected_[index];
  if (THPVariable_Check(item.ptr())) {
    at::Tensor tensor = THPVariable_Unpack(item.ptr());
    if (expected.none) return {};
    if (expected.tensor) check(index, tensor);
    return tensor;
  }
  if (!expected.tensor) return {};  // None, or a number that is known from the arguments
  if (numbers_ && !expected.any && expected.sizes.empty() && !item.is_none()) {
    if (PyLong_Check(item.ptr())) {
      long long number = PyLong_AsLongLong(item.ptr());
      if (!PyErr_Occurred()) return at::scalar_tensor(static_cast<int64_t>(number), expected.dtype);
    } else if (PyFloat_Check(item.ptr())) {
      return at::scalar_tensor(PyFloat_AsDouble(item.ptr()), expected.dtype);
    } else if (PyComplex_Check(item.ptr())) {
      Py_complex number = PyComplex_AsCComplex(item.ptr());
      return at::scalar_tensor(c10::complex<double>(number.real, number.imag), expected.dtype);
    }
    PyErr_Clear();
  }
  refuse("gave " + (item.is_none() ? std::string("None") : "a " + className(item)) + " as result " +
         std::to_string(index) + ", which is a tensor in the graph: " + expected.text);
}

void ForeignResults::check(size_t index, const at::Tensor& tensor) const {
  const Expected& expected = expected_[index];
  if (expected.any || !isPlain(tensor)) return;
  bool same = tensor.scalar_type() == expected.dtype && tensor.device().type() == expected.device.type();
  if (sizesKnown_ && same) {
    same = static_cast<size_t>(tensor.dim()) == expected.sizes.size();
    for (size_t i = 0; same && i < expected.sizes.size(); ++i) {
      same = expected.sizes[i] < 0 || expected.sizes[i] == tensor.sizes()[i];
    }
  }
  if (same) return;
  refuse("gave " + describe(tensor) + " as result " + std::to_string(index) +
         ", which is another one in the graph: " + expected.text);
}

namespace {

py::object errorType() { return py::module_::import("saker.errors").attr("BackendError"); }

}  // namespace

bool raisedBackendError() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  bool is = type && PyErr_GivenExceptionMatches(type, errorType().ptr());
  PyErr_Restore(type, value, trace);
  return is;
}

void ForeignResults::refuse(const std::string& what) const {
  py::object type = errorType();
  py::object error = type("the callable that the " + maker_ + " made " + what);
  PyErr_SetObject(type.ptr(), error.ptr());
  throw py::error_already_set();
}

}  // namespace saker
