#include "frontend/guards.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <structmember.h>

#include <cmath>
#include <cstring>

#include "frontend/ambient.h"
#include "frontend/function_dict.h"
#include "frontend/iterators.h"
#include "frontend/kinds.h"
#include "frontend/numpy.h"
#include "frontend/saved.h"
#include "watch/frame.h"
#include "watch/once.h"

namespace saker::frontend {

TensorShape::TensorShape(const at::Tensor& tensor)
    : keys(tensor.key_set()),
      dtype(tensor.scalar_type()),
      device(tensor.device()),
      requiresGrad(tensor.requires_grad()),
      leaf(tensor.is_leaf()),
      inference(tensor.is_inference()),
      offset(tensor.layout() == c10::kStrided ? tensor.storage_offset() : 0),
      sizes(tensor.sizes().begin(), tensor.sizes().end()) {
  if (tensor.layout() == c10::kStrided) strides = c10::DimVector(tensor.strides().begin(), tensor.strides().end());
}

namespace {

struct Differentiable {
  bool requiresGrad, leaf;
};

// As the tensor says itself, without asking views for a history that they may have to make first.
Differentiable differentiable(const at::Tensor& tensor) {
  const torch::autograd::AutogradMeta* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (!meta) return {false, true};
  if (meta->is_view_) return {tensor.requires_grad(), tensor.is_leaf()};
  return {meta->requires_grad_ || meta->grad_fn_, !meta->grad_fn_};
}

}  // namespace

bool TensorShape::fits(const at::Tensor& tensor) const {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (impl.key_set() != keys || impl.dtype() != c10::scalarTypeToTypeMeta(dtype)) return false;
  if (impl.has_symbolic_sizes_strides()) return false;
  Differentiable now = differentiable(tensor);
  if (now.requiresGrad != requiresGrad || now.leaf != leaf) return false;
  if (!dynamic.empty()) return fitsDynamic(impl);
  if (impl.sizes() != c10::IntArrayRef(sizes)) return false;
  if (tensor.layout() != c10::kStrided) return tensor.device() == device;
  return impl.strides() == c10::IntArrayRef(strides) && (anyOffset || impl.storage_offset() == offset) &&
         impl.device() == device;
}

bool TensorShape::fitsDynamic(const c10::TensorImpl& impl) const {
  if (impl.sizes().size() != sizes.size() || impl.device() != device) return false;
  if (!anyOffset && impl.storage_offset() != offset) return false;
  size_t next = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    bool any = next < dynamic.size() && dynamic[next] == i;
    next += any;
    if (any ? impl.sizes()[i] < 2 : impl.sizes()[i] != sizes[i]) return false;
  }
  return true;
}

namespace {

// An OrderedDict keeps an order of its own, which move_to_end changes and no version tells.
bool hasOrder(PyObject* dict, PyObject* keys) {
  Ref iterator = Ref::steal(PyODict_Type.tp_iter(dict));
  for (Py_ssize_t i = 0; iterator && i < PyTuple_GET_SIZE(keys); ++i) {
    Ref key = Ref::steal(Py_TYPE(iterator.get())->tp_iternext(iterator.get()));
    PyObject* expected = PyTuple_GET_ITEM(keys, i);
    if (!key || (key.get() != expected && !sameValue(key.get(), expected))) {
      PyErr_Clear();
      return false;
    }
  }
  return true;
}

bool hasKeys(PyObject* dict, PyObject* keys) {
  if (PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) return false;
  if (PyODict_Check(dict)) return hasOrder(dict, keys);
  Py_ssize_t position = 0, at = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &position, &key, &value)) {
    PyObject* expected = PyTuple_GET_ITEM(keys, at++);
    if (key != expected && !sameValue(key, expected)) return false;
  }
  return true;
}

bool hasElements(PyObject* set, PyObject* elements) {
  if (PySet_GET_SIZE(set) != PyTuple_GET_SIZE(elements)) return false;
  Py_ssize_t position = 0, at = 0;
  PyObject* element = nullptr;
  Py_hash_t hash = 0;
  while (_PySet_NextEntry(set, &position, &element, &hash)) {
    PyObject* expected = PyTuple_GET_ITEM(elements, at++);
    if (element != expected && !sameValue(element, expected)) return false;
  }
  return true;
}

PyObject* inDict(PyObject* dict, PyObject* key) {
  PyObject* found = PyDict_GetItemWithError(dict, key);
  if (!found) PyErr_Clear();
  return found;
}

// A getset or member descriptor of C, and what it must give.
bool gives(PyObject* owner, PyObject* pair) {
  PyObject* descriptor = PyTuple_GET_ITEM(pair, 0);
  Ref value = descriptorValue(descriptor, owner);
  if (PyTuple_GET_SIZE(pair) == 1) return !value;
  PyObject* expected = PyTuple_GET_ITEM(pair, 1);
  return value && (value.get() == expected || sameValue(value.get(), expected));
}

bool isUnbegun(PyObject* object, PyObject* expected) {
  SakerUnbegun found;
  return saker_generator_unbegun(object, &found) &&
         reinterpret_cast<PyObject*>(found.code) == PyTuple_GET_ITEM(expected, 0) &&
         found.globals == PyTuple_GET_ITEM(expected, 1) && found.builtins == PyTuple_GET_ITEM(expected, 2);
}

bool isFunctionLike(PyObject* object, PyObject* expected) {
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  return function->func_code == PyTuple_GET_ITEM(expected, 0) &&
         function->func_globals == PyTuple_GET_ITEM(expected, 1) &&
         function->func_builtins == PyTuple_GET_ITEM(expected, 2);
}

// Of builtin numbers: no code of the program runs.
bool comparesSo(PyObject* number, PyObject* other, int64_t how) {
  return PyObject_RichCompareBool(number, other, static_cast<int>(how & 7)) == (how & 8 ? 1 : 0);
}

PyObject* itemOf(PyObject* sequence, int64_t index) {
  if (PyList_Check(sequence) || PyTuple_Check(sequence)) {
    PyObject* const* items = PySequence_Fast_ITEMS(sequence);
    return index < Py_SIZE(sequence) ? items[index] : nullptr;
  }
  PyObject* item = nativeBase(Py_TYPE(sequence))->tp_as_sequence->sq_item(sequence, index);  // a deque holds it as well
  if (!item) PyErr_Clear();
  Py_XDECREF(item);
  return item;
}

}  // namespace

PyObject* instanceDict(PyObject* object) {
  PyObject** slot = _PyObject_GetDictPtr(object);
  if (slot) return *slot;
  return isThreadLocal(object) ? dictOfThread(object) : nullptr;
}

Ref descriptorValue(PyObject* descriptor, PyObject* owner) {
  PyObject* value = nullptr;
  if (Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) {
    const PyGetSetDef* part = reinterpret_cast<PyGetSetDescrObject*>(descriptor)->d_getset;
    value = part->get ? part->get(owner, part->closure) : nullptr;
  } else if (Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) {
    value =
        PyMember_GetOne(reinterpret_cast<char*>(owner), reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member);
  }
  if (!value) PyErr_Clear();
  return Ref::steal(value);
}

Ref registeredClasses() {
  static constinit watch::Once<PyObject*> found;
  PyObject* ask = found.get([] { return watch::importedAttribute("_abc", "get_cache_token"); });
  Ref token = ask ? Ref::steal(PyObject_CallNoArgs(ask)) : Ref();
  if (!token) PyErr_Clear();
  return token;
}

bool asksForFloat(const GuardInstruction& check) {
  if (check.op == GuardOp::Equals) return PyFloat_CheckExact(check.object.get());
  return check.op == GuardOp::IsType && check.object.get() == reinterpret_cast<PyObject*>(&PyFloat_Type);
}

bool isSize(PyObject* object) {
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  int64_t number = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0 && number > 1 && number < int64_t{1} << 48;
}

bool sameValue(PyObject* left, PyObject* right) {
  if (left == right) return true;
  if (Py_TYPE(left) != Py_TYPE(right)) return false;
  if (numpy::isScalar(left)) return numpy::sameScalar(left, right);
  bool derived = isDerivedValue(left);
  if (PyUnicode_CheckExact(left) || (derived && PyUnicode_Check(left))) return PyUnicode_Compare(left, right) == 0;
  if (PyFloat_CheckExact(left) ||
      (derived && PyFloat_Check(left))) {  // -0.0 and 0.0 differ, NaNs of the same bits do not
    double a = PyFloat_AS_DOUBLE(left), b = PyFloat_AS_DOUBLE(right);
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
  if (derived && !PyComplex_Check(left)) {
    PyTypeObject* base = PyLong_Check(left) ? &PyLong_Type : &PyBytes_Type;
    Ref equal = Ref::steal(base->tp_richcompare(left, right, Py_EQ));
    if (!equal) PyErr_Clear();
    return equal.get() == Py_True;
  }
  if (PySlice_Check(left)) {
    auto *a = reinterpret_cast<PySliceObject*>(left), *b = reinterpret_cast<PySliceObject*>(right);
    return sameValue(a->start, b->start) && sameValue(a->stop, b->stop) && sameValue(a->step, b->step);
  }
  if (PyRange_Check(left)) {  // equal ranges may have other ends
    for (const char* part : {"start", "stop", "step"}) {
      Ref a = Ref::steal(PyObject_GetAttrString(left, part)), b = Ref::steal(PyObject_GetAttrString(right, part));
      if (!a || !b || !sameValue(a.get(), b.get())) return false;
    }
    return true;
  }
  if (PyComplex_Check(left)) {
    Py_complex a = PyComplex_AsCComplex(left), b = PyComplex_AsCComplex(right);
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
  if (PyTuple_CheckExact(left)) {
    if (PyTuple_GET_SIZE(left) != PyTuple_GET_SIZE(right)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(left); ++i) {
      if (!sameValue(PyTuple_GET_ITEM(left, i), PyTuple_GET_ITEM(right, i))) return false;
    }
    return true;
  }
  if (!PyLong_CheckExact(left) && !PyBytes_CheckExact(left) && !(Py_TYPE(left)->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
      Py_TYPE(left)->tp_richcompare == nullptr) {
    return false;
  }
  if (Py_TYPE(left)->tp_flags & Py_TPFLAGS_HEAPTYPE) return false;
  Ref equal = Ref::steal(PyObject_RichCompare(left, right, Py_EQ));
  if (!equal) PyErr_Clear();
  return equal.get() == Py_True;
}

// Of a live frame; nullptr where nothing is bound, or the frame has no such slot.
static PyObject* slotOf(std::span<PyObject* const> slots, int64_t number) {
  return static_cast<size_t>(number) < slots.size() ? slots[static_cast<size_t>(number)] : nullptr;
}

bool Guards::checkTypes(Found& found) const {
  if (registrations) {
    Ref now = registeredClasses();
    if (!now || !sameValue(now.get(), registrations.get())) {
      found.why = "a class was registered with an abstract one";
      return false;
    }
  }
  for (const TypeLookups& lookups : types) {
    auto* type = reinterpret_cast<PyTypeObject*>(lookups.type.get());
    if ((type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) && type->tp_version_tag == lookups.version) continue;
    for (const auto& [name, value] : lookups.names) {
      if (_PyType_Lookup(type, name.get()) == value) continue;
      found.why = std::string(type->tp_name) + "." + PyUnicode_AsUTF8(name.get()) + " is another object now";
      return false;
    }
    if (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) lookups.version = type->tp_version_tag;
  }
  return true;
}

bool Guards::step(const GuardInstruction& at, const CallArguments& call, Found& found) const {
  auto load = [&](PyObject* object) {
    found[at.place] = object;
    return object != nullptr;
  };
  PyObject* object =
      at.op <= GuardOp::ContextValue ? (at.op > GuardOp::Fixed ? found[at.parent] : nullptr) : found[at.place];
  switch (at.op) {
    case GuardOp::Positional:
      return load(call.values[at.number]);
    case GuardOp::FrameLocal:
      return load(slotOf(call.locals, at.number));
    case GuardOp::FrameUnbound:
      return static_cast<size_t>(at.number) < call.locals.size() && !slotOf(call.locals, at.number);
    case GuardOp::FrameStack:
      return load(slotOf(call.stack, at.number));
    case GuardOp::Keyword:
      return load(call.values[call.positional + static_cast<size_t>(at.number)]);
    case GuardOp::FunctionMode:
      return load(functionModeAt(at.number));
    case GuardOp::Fixed:
      return load(at.object.get());
    case GuardOp::Attribute: {
      PyObject* dict = instanceDict(object);
      return dict && load(inDict(dict, at.object.get()));
    }
    case GuardOp::Slot:
      return load(*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + at.number));
    case GuardOp::Item:
      return load(itemOf(object, at.number));
    case GuardOp::Key:
      return load(inDict(object, at.object.get()));
    case GuardOp::Cell:
      return load(PyCell_GET(object));
    case GuardOp::Gradient: {
      const at::Tensor& gradient = THPVariable_Unpack(object).grad();
      if (!gradient.defined()) return false;
      PyObject* wrapped = THPVariable_Wrap(gradient);  // the tensor holds it as well
      Py_XDECREF(wrapped);
      return load(wrapped);
    }
    case GuardOp::MethodSelf:
      return load(PyMethod_GET_SELF(object));
    case GuardOp::MethodFunction:
      return load(PyMethod_GET_FUNCTION(object));
    case GuardOp::DictOf:
      return load(madeDict(object));
    case GuardOp::Referent:
      return load(PyWeakref_GET_OBJECT(object));
    case GuardOp::Computed: {
      auto* descriptor = reinterpret_cast<PyGetSetDescrObject*>(at.object.get());
      PyObject* value = descriptor->d_getset->get(object, descriptor->d_getset->closure);
      if (!value) PyErr_Clear();
      Py_XDECREF(value);
      return load(value);
    }
    case GuardOp::Local: {
      SakerUnbegun generator;
      return saker_generator_unbegun(object, &generator) && load(generator.slots[at.number]);
    }
    case GuardOp::Saved:
      found.made.push_back(savedTensor(object, static_cast<size_t>(at.number), at.object.get()));
      return load(found.made.back().get());
    case GuardOp::ContextValue: {
      PyObject* value = nullptr;
      if (PyContextVar_Get(object, nullptr, &value) < 0) PyErr_Clear();
      Py_XDECREF(value);
      return load(value);
    }
    case GuardOp::IsType:
      return reinterpret_cast<PyObject*>(Py_TYPE(object)) == at.object.get();
    case GuardOp::Is:
      return object == at.object.get();
    case GuardOp::Equals:
      return sameValue(object, at.object.get());
    case GuardOp::Same:
      return object == found[static_cast<size_t>(at.number)];
    case GuardOp::Different:
      return object != found[static_cast<size_t>(at.number)];
    case GuardOp::Number:
      return isSize(object);
    case GuardOp::Length:
      return lengthOf(object) == at.number;
    case GuardOp::Empty:
      return (lengthOf(object) == 0) == (at.number != 0);
    case GuardOp::Keys:
      return hasKeys(object, at.object.get());
    case GuardOp::Elements:
      return hasElements(object, at.object.get());
    case GuardOp::NoAttribute: {
      PyObject* dict = instanceDict(object);
      return !dict || !inDict(dict, at.object.get());
    }
    case GuardOp::NoKey:
      return !inDict(object, at.object.get());
    case GuardOp::NoCell:
      return PyCell_GET(object) == nullptr;
    case GuardOp::NoGradient:
      return !THPVariable_Unpack(object).grad().defined();
    case GuardOp::Tensor:
      return tensors[static_cast<size_t>(at.number)].fits(THPVariable_Unpack(object));
    case GuardOp::Array: {
      std::optional<at::Tensor> tensor = numpy::toTensor(object);
      return tensor && tensors[static_cast<size_t>(at.number)].fits(*tensor);
    }
    case GuardOp::Function: {
      auto* function = reinterpret_cast<PyFunctionObject*>(object);
      const FunctionParts& parts = functions[static_cast<size_t>(at.number)];
      return function->func_code == at.object.get() && function->func_defaults == parts.defaults.get() &&
             function->func_kwdefaults == parts.keywordDefaults.get();
    }
    case GuardOp::FunctionLike:
      return isFunctionLike(object, at.object.get());
    case GuardOp::NoSlot:
      return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + at.number) == nullptr;
    case GuardOp::Gives:
      return gives(object, at.object.get());
    case GuardOp::Unbegun:
      return isUnbegun(object, at.object.get());
    case GuardOp::Position:
      return iterators::standsAt(object, at.object.get());
    case GuardOp::Compares:
      return PyFloat_CheckExact(object) && comparesSo(object, at.object.get(), at.number);
    case GuardOp::Computes:
      return numbers[static_cast<size_t>(at.number)].holds(found);
  }
  return false;
}

bool Guards::check(const CallArguments& call, Found& found) const {
  found.made.clear();
  found.failed = nullptr;
  found.why.clear();
  bool all = holds(call, found);
  if (!all) found.made.clear();
  return all;
}

bool Guards::holds(const CallArguments& call, Found& found) const {
  size_t named = call.names ? static_cast<size_t>(PyTuple_GET_SIZE(call.names)) : 0;
  if (call.positional != positional || named != keywords.size()) return false;
  for (size_t i = 0; i < named; ++i) {
    if (!sameValue(PyTuple_GET_ITEM(call.names, static_cast<Py_ssize_t>(i)), keywords[i].get())) return false;
  }
  if (memo_.armed()) {
    Memo::Answer answer = memo_.check(*this, call, found);
    if (answer != Memo::Answer::Unknown) return answer == Memo::Answer::Holds && checkTypes(found);
  }
  found.places.assign(places, nullptr);
  for (const GuardInstruction& instruction : instructions) {
    if (step(instruction, call, found)) continue;
    found.failed = &instruction;
    return false;
  }
  if (!checkTypes(found)) return false;
  // Where things keep changing, it does not pay to remember them.
  constexpr uint32_t kOften = 16, kSeldom = 64;
  if (++whole_ < kOften || whole_ % kSeldom == 0) memo_.arm(*this, found.places);
  return true;
}

template <typename Visit>
void Guards::eachArgumentCheck(Visit visit) const {
  std::vector<size_t> indexOf(places, SIZE_MAX);
  std::vector<Path> pathOf(places);
  for (const GuardInstruction& at : instructions) {
    if (at.op == GuardOp::Positional) indexOf[at.place] = static_cast<size_t>(at.number);
    if (at.op == GuardOp::Keyword) indexOf[at.place] = positional + static_cast<size_t>(at.number);
    if ((at.op == GuardOp::Item || at.op == GuardOp::Key || at.op == GuardOp::Attribute) &&
        indexOf[at.parent] != SIZE_MAX) {
      indexOf[at.place] = indexOf[at.parent];
      pathOf[at.place] = pathOf[at.parent];
      pathOf[at.place].push_back({at.op, at.number, at.object});
    }
    if (at.op > GuardOp::ContextValue && indexOf[at.place] != SIZE_MAX) visit(indexOf[at.place], pathOf[at.place], at);
  }
}

std::vector<Guards::Argument> Guards::tensorArguments() const {
  std::vector<Argument> out;
  std::vector<const TensorShape*> shapes(places);
  eachArgumentCheck([&](size_t index, const Path& path, const GuardInstruction& at) {
    if (at.op == GuardOp::Tensor) shapes[at.place] = &tensors[static_cast<size_t>(at.number)];
    if (at.op == GuardOp::Same) shapes[at.place] = shapes[static_cast<size_t>(at.number)];
    if ((at.op == GuardOp::Tensor || at.op == GuardOp::Same) && shapes[at.place])
      out.push_back({index, path, shapes[at.place]});
  });
  return out;
}

std::vector<Guards::Number> Guards::numberArguments() const {
  std::vector<Number> out;
  eachArgumentCheck([&](size_t index, const Path& path, const GuardInstruction& at) {
    if (at.op == GuardOp::Number) out.push_back({index, path, nullptr});
    if (at.op == GuardOp::Equals && isSize(at.object.get())) out.push_back({index, path, at.object.get()});
  });
  return out;
}

std::vector<Guards::FloatArgument> Guards::floatArguments() const {
  std::vector<FloatArgument> out;
  eachArgumentCheck([&](size_t index, const Path& path, const GuardInstruction& at) {
    if (asksForFloat(at)) out.push_back({index, path, at.place});
  });
  return out;
}

}  // namespace saker::frontend
