#include "python/result_tree.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/python_symnode.h>

#include "host/errors.h"
#include "host/objects.h"
#include "host/owned.h"
#include "watch/once.h"

namespace saker::python {

namespace {

bool isNumber(PyObject* object) {
  py::handle handle(object);
  return torch::is_symint(handle) || torch::is_symfloat(handle) || torch::is_symbool(handle);
}

bool isSize(PyObject* object) { return PyType_IsSubtype(Py_TYPE(object), sizeClass()); }

// May it be the same object in every call, and holds no tensor?
bool isConstant(PyObject* object) {
  if (object == Py_None || object == Py_Ellipsis || PyFunction_Check(object) || PyCFunction_Check(object) ||
      PyType_Check(object))
    return true;
  if (PyLong_Check(object) || PyFloat_Check(object) || PyComplex_Check(object) || PyUnicode_Check(object) ||
      PyBytes_Check(object) || PyRange_Check(object))
    return true;
  if (isTorchConstant(Py_TYPE(object)) || isSize(object)) return true;
  static constinit watch::Once<PyObject*> found;
  PyObject* enumeration = found.get([] { return watch::importedAttribute("enum", "Enum"); });
  int is = PyObject_IsInstance(object, enumeration);
  if (is < 0) throwPythonError();
  return is != 0;
}

Ref wrapNumber(const c10::IValue& number) {
  if (number.isInt()) return owned(PyLong_FromLongLong(number.toInt()));
  if (number.isBool()) return Ref::borrow(number.toBool() ? Py_True : Py_False);
  return owned(PyFloat_FromDouble(number.toDouble()));
}

}  // namespace

ResultTree::ResultTree(PyObject* result) {
  tree_.add(result, found_);
  kept_ = found_;
}

void ResultTree::leaveOut(size_t place) { kept_[place] = Ref(); }

void ResultTree::finish() {
  for (size_t i = 0; i < kept_.size(); ++i) {
    PyObject* leaf = kept_[i].get();
    if (!leaf) continue;
    if (THPVariable_Check(leaf)) {
      tensorPlaces_.push_back(i);
      tensors_.push_back(std::move(kept_[i]));
    } else if (isNumber(leaf)) {
      numberPlaces_.push_back(i);
      numbers_.push_back(std::move(kept_[i]));
    } else if (!opaque_ && !isConstant(leaf)) {
      opaque_ = kept_[i];
    }
  }
  // The numbers of sizes stand behind the others.
  for (size_t i = 0; i < kept_.size(); ++i) {
    if (!kept_[i] || !isSize(kept_[i].get())) continue;
    Size size{i, {}};
    bool changes = false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kept_[i].get()); ++k) {
      PyObject* part = PyTuple_GET_ITEM(kept_[i].get(), k);
      bool number = isNumber(part);
      if (number) numbers_.push_back(Ref::borrow(part));
      size.parts.push_back(number ? Ref() : Ref::borrow(part));
      changes |= number;
    }
    if (!changes) continue;
    kept_[i] = Ref();
    sizes_.push_back(std::move(size));
  }
  found_.clear();
}

void ResultTree::forget() {
  tensors_.clear();
  numbers_.clear();
}

Ref ResultTree::build(std::span<const at::Tensor> tensors, std::span<const c10::IValue> numbers,
                      const std::vector<std::pair<size_t, at::Tensor>>& others) const {
  auto wrapped = [](const at::Tensor& tensor) {
    return tensor.defined() ? owned(wrapTensor(tensor)) : Ref::borrow(Py_None);
  };
  if (isTensor()) return wrapped(tensors[0]);
  std::vector<Ref> leaves = kept_;
  for (size_t i = 0; i < tensorPlaces_.size(); ++i) leaves[tensorPlaces_[i]] = wrapped(tensors[i]);
  size_t next = 0;
  for (size_t place : numberPlaces_) leaves[place] = wrapNumber(numbers[next++]);
  for (const Size& size : sizes_) {
    Ref parts = owned(PyTuple_New(static_cast<Py_ssize_t>(size.parts.size())));
    for (size_t i = 0; i < size.parts.size(); ++i) {
      Ref part = size.parts[i] ? size.parts[i] : wrapNumber(numbers[next++]);
      PyTuple_SET_ITEM(parts.get(), static_cast<Py_ssize_t>(i), part.release());
    }
    leaves[size.place] = owned(PyObject_CallOneArg(reinterpret_cast<PyObject*>(sizeClass()), parts.get()));
  }
  for (const auto& [place, tensor] : others) leaves[place] = wrapped(tensor);
  return tree_.build(leaves);
}

int ResultTree::traverse(const Visitor& visit) const {
  if (int stop = tree_.traverse(visit)) return stop;
  if (int stop = visit(kept_)) return stop;
  for (const Size& size : sizes_) {
    if (int stop = visit(size.parts)) return stop;
  }
  return visit(opaque_);
}

void bindResultTree(py::module_& module) {
  py::class_<ResultTree, std::shared_ptr<ResultTree>>(module, "ResultTree")
      .def(py::init([](const py::object& result) {
        auto tree = std::make_shared<ResultTree>(result.ptr());
        tree->finish();
        return tree;
      }))
      // Tensors, then numbers that may change.
      .def("values",
           [](const ResultTree& self) {
             py::list out;
             for (const Ref& tensor : self.tensors()) out.append(py::handle(tensor.get()));
             for (const Ref& number : self.numbers()) out.append(py::handle(number.get()));
             return out;
           })
      .def_property_readonly(
          "opaque",
          [](const ResultTree& self) {
            PyObject* object = self.opaque().get();
            return object ? py::object(py::type::of(py::handle(object))) : py::object(py::none());
          },
          "The class of a leaf that each call makes anew and that may hold tensors, if there is one.")
      .def("forget", &ResultTree::forget);
}

}  // namespace saker::python
