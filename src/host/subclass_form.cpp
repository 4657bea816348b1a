#include "host/subclass_form.h"

#include "host/errors.h"
#include "host/gil.h"
#include "host/objects.h"
#include "host/owned.h"

namespace saker {

namespace {

PyObject* const kFlatten = PyUnicode_InternFromString("__tensor_flatten__");
PyObject* const kUnflatten = PyUnicode_InternFromString("__tensor_unflatten__");

bool equal(PyObject* a, PyObject* b) {
  int same = PyObject_RichCompareBool(a, b, Py_EQ);
  if (same < 0) throwPythonError();
  return same != 0;
}

FormPtr shared(std::unique_ptr<Form> form) {
  return FormPtr(form.release(), [](const Form* old) {
    if (!Py_IsInitialized()) return;  // the objects are gone
    HoldInterpreter gil;
    delete old;
  });
}

Ref tupleOf(const std::vector<c10::SymInt>& numbers) {
  Ref tuple = owned(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
  for (size_t i = 0; i < numbers.size(); ++i) {
    std::optional<int64_t> plain = numbers[i].maybe_as_int();
    Ref number = plain ? owned(PyLong_FromLongLong(*plain)) : wrapSymInt(numbers[i]);
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), number.release());
  }
  return tuple;
}

at::Tensor buildFrom(const Form& form, std::span<const at::Tensor>& inner) {
  Ref parts = owned(PyDict_New());
  auto set = [&](const Ref& name, PyObject* value) {
    if (PyDict_SetItem(parts.get(), name.get(), value) < 0) throwPythonError();
  };
  for (const Form::Part& part : form.parts) {
    at::Tensor tensor;
    if (part.form) {
      tensor = buildFrom(*part.form, inner);
    } else {
      tensor = inner.front();
      inner = inner.subspan(1);
    }
    set(part.name, owned(wrapTensor(tensor)).get());
  }
  for (const auto& [name, object] : form.objects) set(name, object.get());
  if (!form.sizeObject) {
    Ref size = tupleOf(form.size);
    form.sizeObject = owned(PyObject_CallOneArg(reinterpret_cast<PyObject*>(sizeClass()), size.get()));
    form.strideObject = tupleOf(form.stride);
  }
  Ref made = owned(PyObject_CallMethodObjArgs(form.kind.get(), kUnflatten, parts.get(), form.context.get(),
                                              form.sizeObject.get(), form.strideObject.get(), nullptr));
  if (!isTensor(made.get())) {
    PyErr_Format(PyExc_TypeError, "__tensor_unflatten__ gave a %s, which is no tensor", Py_TYPE(made.get())->tp_name);
    throwPythonError();
  }
  return tensorOf(made.get());
}

bool sameForms(const Form* a, const Form* b, bool sizes) {
  if (a == b || !a || !b) return a == b;
  if (a->kind.get() != b->kind.get() || a->parts.size() != b->parts.size() || a->objects.size() != b->objects.size() ||
      (sizes && (a->size != b->size || a->stride != b->stride)))
    return false;
  for (size_t i = 0; i < a->parts.size(); ++i) {
    if (!equal(a->parts[i].name.get(), b->parts[i].name.get())) return false;
    if (!sameForms(a->parts[i].form.get(), b->parts[i].form.get(), sizes)) return false;
  }
  for (size_t i = 0; i < a->objects.size(); ++i) {
    if (!equal(a->objects[i].first.get(), b->objects[i].first.get())) return false;
    if (!equal(a->objects[i].second.get(), b->objects[i].second.get())) return false;
  }
  return equal(a->context.get(), b->context.get());
}

}  // namespace

bool isWrapperClass(PyTypeObject* type) {
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && PyType_IsSubtype(type, tensorClass()) &&
         _PyType_Lookup(type, kFlatten) && _PyType_Lookup(type, kUnflatten);
}

bool isWrapper(const at::Tensor& tensor) {
  if (!tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python)) return false;
  HoldInterpreter gil;
  Ref object = Ref::steal(wrapTensor(tensor));
  return object && isWrapperClass(Py_TYPE(object.get()));
}

FormPtr formOf(PyObject* tensor, std::vector<at::Tensor>* inner) {
  if (!isWrapperClass(Py_TYPE(tensor))) return nullptr;
  Ref flattened = owned(PyObject_CallMethodNoArgs(tensor, kFlatten));
  Ref names, context;
  {
    PyObject *first = nullptr, *second = nullptr;
    Ref pair = owned(PySequence_Tuple(flattened.get()));
    if (!PyArg_ParseTuple(pair.get(), "OO:__tensor_flatten__", &first, &second)) throwPythonError();
    names = owned(PySequence_Tuple(first));
    context = Ref::borrow(second);
  }
  auto form = std::make_unique<Form>();
  form->kind = Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(tensor)));
  form->context = std::move(context);
  const at::Tensor& outer = tensorOf(tensor);
  form->size = outer.sym_sizes().vec();
  form->stride = outer.sym_strides().vec();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
    Ref name = Ref::borrow(PyTuple_GET_ITEM(names.get(), i));
    Ref part = owned(PyObject_GetAttr(tensor, name.get()));
    if (!isTensor(part.get())) {
      form->objects.emplace_back(std::move(name), std::move(part));
      continue;
    }
    FormPtr of = formOf(part.get(), inner);
    form->plain += of ? of->plain : 1;
    if (!of && inner) inner->push_back(tensorOf(part.get()));
    form->parts.push_back({std::move(name), std::move(of)});
  }
  return shared(std::move(form));
}

FormPtr formOf(const at::Tensor& tensor, std::vector<at::Tensor>* inner) {
  if (!tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python)) return nullptr;
  return formOf(owned(wrapTensor(tensor)).get(), inner);
}

at::Tensor build(const Form& form, std::span<const at::Tensor> inner) { return buildFrom(form, inner); }

bool same(const Form* a, const Form* b) { return sameForms(a, b, /*sizes=*/true); }
bool sameButSizes(const Form* a, const Form* b) { return sameForms(a, b, /*sizes=*/false); }

uint64_t hashOf(const Form& form) {
  uint64_t hash = reinterpret_cast<uintptr_t>(form.kind.get());
  auto mix = [&](uint64_t next) { hash = (hash ^ next) * 0x9e3779b97f4a7c15ull + (hash >> 29); };
  for (const std::vector<c10::SymInt>* numbers : {&form.size, &form.stride}) {
    mix(numbers->size());
    for (const c10::SymInt& number : *numbers) mix(static_cast<uint64_t>(number.maybe_as_int().value_or(-1)));
  }
  for (const Form::Part& part : form.parts) mix(part.form ? hashOf(*part.form) : 1);
  return hash;
}

std::string describe(const Form* form) {
  if (!form) return "a plain tensor";
  Ref name = owned(PyType_GetName(reinterpret_cast<PyTypeObject*>(form->kind.get())));
  const char* text = PyUnicode_AsUTF8(name.get());
  if (!text) throwPythonError();
  std::string inside;
  for (const Form::Part& part : form->parts) {
    if (part.form) inside += (inside.empty() ? "" : ", ") + describe(part.form.get());
  }
  return std::string("a ") + text + (inside.empty() ? "" : " of " + inside);
}

}  // namespace saker
