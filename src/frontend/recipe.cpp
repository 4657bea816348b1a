#include "frontend/recipe.h"

#include <ATen/ops/full.h>
#include <Python.h>
#include <frameobject.h>
#include <structmember.h>

#include "frontend/hook_handles.h"
#include "frontend/kinds.h"
#include "frontend/numpy.h"
#include "frontend/subjects/subjects.h"
#include "frontend/wrapped.h"
#include "host/objects.h"
#include "host/symbol_watch.h"
#include "watch/once.h"

namespace saker::frontend {

namespace {

bool isSymbol(PyTypeObject* type) {
  std::string_view name = type->tp_name;
  return name == "SymInt" || name == "SymFloat" || name == "SymBool";
}

// The members that __slots__ of a class and its bases define.
template <typename Visit>
void eachSlot(PyTypeObject* type, Visit visit) {
  PyObject* order = type->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(order); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(order, i));
    if (!(base->tp_flags & Py_TPFLAGS_HEAPTYPE)) continue;
    Py_ssize_t position = 0;
    PyObject *name = nullptr, *value = nullptr;
    while (PyDict_Next(base->tp_dict, &position, &name, &value)) {
      if (Py_IS_TYPE(value, &PyMemberDescr_Type))
        visit(name, reinterpret_cast<PyMemberDescrObject*>(value)->d_member->offset);
    }
  }
}

}  // namespace

std::optional<uint32_t> Cookbook::refuse(Stop why) {
  if (!refusal_) refusal_ = std::move(why);
  return std::nullopt;
}

std::optional<uint32_t> Cookbook::add(PyObject* object, Recipe recipe) {
  auto number = static_cast<uint32_t>(recipes.size());
  recipes.push_back(std::move(recipe));
  if (object) {
    known_.emplace(object, number);
    kept_.push_back(Ref::borrow(object));
  }
  return number;
}

bool Cookbook::part(uint32_t recipe, PyObject* object) {
  std::optional<uint32_t> number = write(object);
  if (number) recipes[recipe].parts.push_back(*number);
  return number.has_value();
}

std::optional<uint32_t> Cookbook::write(PyObject* object) {
  auto found = known_.find(object);
  if (found != known_.end()) return found->second;
  using Kind = Recipe::Kind;
  if (std::optional<uint32_t> handle = recorder_.subjects().hooks.handleOf(object)) {
    return add(object, {Kind::Handle, {}, *handle, {}, {}});
  }
  const Array* array = recorder_.subjects().arrays.arrayOf(object);
  if (uint32_t place = recorder_.placeOf(object); array && place != kInside) {
    return add(object, {Kind::Place, {}, place, {}, {}});
  }
  if (array) {
    auto number = static_cast<uint32_t>(outputs.size());
    // A float that Python has computed is a tensor from here on.
    outputs.push_back(recorder_.subjects().arrays.tensorFor(object));
    Ref locked = array->readOnly ? Ref::borrow(Py_True) : Ref();
    Kind kind = array->isFloat ? Kind::Float : array->scalar ? Kind::Scalar : Kind::Array;
    return add(object, {kind, locked, number, {}, {}});
  }
  if (uint32_t number = recorder_.placeOfNumber(object); number != kInside) {
    return add(object, {Kind::Place, {}, number, {}, {}});
  }
  if (uint32_t generator = recorder_.subjects().random.placeOfGenerator(object); generator != kInside) {
    std::optional<uint32_t> number = add(object, {Kind::Generator, {}, generator, {}, {}});
    return attributesOf(*number, object) ? number : std::nullopt;
  }
  if (isAtom(object)) return add(object, {Kind::Constant, Ref::borrow(object), 0, {}, {}});
  uint32_t place = recorder_.placeOf(object);
  if (place != kInside) return add(object, {Kind::Place, {}, place, {}, {}});
  if (PyFunction_Check(object) && recorder_.madeHere(object)) return function(object);
  if (PyType_Check(object) && recorder_.subjects().made.madeClass(object)) {
    const NamedClass* named = recorder_.subjects().made.namedClass(object);
    if (named) return calledWith(object, named->function.get(), named->arguments, named->keywords);
    return refuse(Why::LeavesClass);
  }
  if (PyCFunction_Check(object) && PyCFunction_GET_SELF(object)) {
    PyObject* self = PyCFunction_GET_SELF(object);
    if (!PyModule_Check(self) && !PyType_Check(self) && recorder_.placeOf(self) == kInside && !isAtom(self)) {
      static PyObject* const getAttribute = PyDict_GetItemString(PyEval_GetBuiltins(), "getattr");
      Ref name = Ref::steal(PyObject_GetAttrString(object, "__name__"));
      Ref given = name ? Ref::steal(PyTuple_Pack(2, self, name.get())) : Ref();
      return given ? calledWith(object, getAttribute, given, Ref::steal(PyDict_New())) : refuse(Why::LeavesMethod);
    }
  }
  if (isNamed(object)) return add(object, {Kind::Constant, Ref::borrow(object), 0, {}, {}});
  if (isTensor(object)) {
    static constinit watch::Once<PyObject*> found;
    PyObject* parameter = found.get([] { return watch::importedAttribute("torch.nn", "Parameter"); });
    bool plain = Py_TYPE(object) == tensorClass();
    bool made = recorder_.subjects().made.madeParameter(object);
    if (!plain && !made && PyObject_IsSubclass(reinterpret_cast<PyObject*>(Py_TYPE(object)), parameter) != 0) {
      return refuse(Why::LeavesParameter);
    }
    bool wrapper = isWrapperClass(Py_TYPE(object));  // what it is made of makes its class
    PyObject* dict = wrapper ? nullptr : instanceDict(object);
    if (dict && PyDict_GET_SIZE(dict) > 0) return refuse(Why::LeavesMarkedTensor);
    const at::Tensor& tensor = tensorOf(object);
    if (!made_(tensor)) return refuse(Why::LeavesUnknownTensor);
    auto number = static_cast<uint32_t>(outputs.size());
    outputs.push_back(tensor);
    Ref cls = plain || wrapper || made ? Ref() : Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object)));
    return add(object, {Kind::Output, cls, number, {}, {}});
  }
  PyTypeObject* type = Py_TYPE(object);
  std::string_view name = type->tp_name;
  if (name == "SymInt") {  // a tensor of no dimensions brings it here
    auto number = static_cast<uint32_t>(outputs.size());
    outputs.push_back(at::full({}, symIntOf(object), at::kLong));
    return add(object, {Kind::Int, {}, number, {}, {}});
  }
  if (name == "SymFloat") {  // the same
    auto number = static_cast<uint32_t>(outputs.size());
    outputs.push_back(at::full({}, at::Scalar(symFloatOf(object)), at::TensorOptions(at::kCPU).dtype(at::kDouble)));
    return add(object, {Kind::Float, {}, number, {}, {}});
  }
  if (name == "SymBool") return refuse(Why::LeavesSymbol);
  PyTypeObject* base = nativeBase(type);
  Ref cls = Ref::borrow(reinterpret_cast<PyObject*>(type));
  std::optional<uint32_t> named;
  if (PyTuple_Check(object) && recorder_.subjects().made.namedClass(cls.get())) {
    named = write(cls.get());
    if (!named) return std::nullopt;
  } else if (recorder_.subjects().made.madeClass(cls.get())) {
    return refuse(Why::LeavesInstance);
  }
  if (isDerivedValue(object)) return add(object, {Kind::Constant, Ref::borrow(object), 0, {}, {}});
  if (PyTuple_Check(object)) {
    PyObject* dict = base == type ? nullptr : instanceDict(object);
    if (dict && PyDict_GET_SIZE(dict) > 0) return refuse({Why::LeavesWithAttributes, type->tp_name});
    std::vector<uint32_t> parts;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      std::optional<uint32_t> item = write(PyTuple_GET_ITEM(object, i));
      if (!item) return std::nullopt;
      parts.push_back(*item);
    }
    return add(object, {Kind::Tuple, cls, named ? *named + 1 : 0, std::move(parts), {}});
  }
  auto sequence = [&](Kind kind) -> std::optional<uint32_t> {
    std::optional<uint32_t> number = add(object, {kind, cls, 0, {}, {}});
    Ref items = itemsOf(object);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
      if (!part(*number, PyTuple_GET_ITEM(items.get(), i))) return std::nullopt;
    }
    return attributesOf(*number, object) ? number : std::nullopt;
  };
  if (PyList_Check(object)) return sequence(Kind::List);
  if (PyFrozenSet_CheckExact(object)) return sequence(Kind::FrozenSet);
  if (PySet_Check(object)) return sequence(Kind::Set);
  if (isDeque(object)) {
    Ref limit = Ref::steal(PyObject_GetAttrString(object, "maxlen"));
    std::optional<uint32_t> made = write(limit.get());
    std::optional<uint32_t> number = made ? sequence(Kind::Deque) : std::nullopt;
    if (number) recipes[*number].index = *made + 1;
    return number;
  }
  if (PyDict_Check(object)) {
    std::optional<uint32_t> number = add(object, {Kind::Dict, cls, 0, {}, {}});
    if (std::string_view(base->tp_name) == "collections.defaultdict") {
      Ref factory = Ref::steal(PyObject_GetAttrString(object, "default_factory"));
      std::optional<uint32_t> made = write(factory.get());
      if (!made) return std::nullopt;
      recipes[*number].index = *made + 1;
    }
    Ref keys = keysInOrder(object);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys.get()); ++i) {
      PyObject* key = PyTuple_GET_ITEM(keys.get(), i);
      PyObject* value = PyDict_GetItemWithError(object, key);
      if (!value || !part(*number, key) || !part(*number, value)) return std::nullopt;
    }
    return attributesOf(*number, object) ? number : std::nullopt;
  }
  if (PyCell_Check(object)) {
    std::optional<uint32_t> number = add(object, {Kind::Cell, {}, 0, {}, {}});
    if (PyObject* held = PyCell_GET(object)) {
      if (!part(*number, held)) return std::nullopt;
    }
    return number;
  }
  if (Py_IS_TYPE(object, &PyMethod_Type)) {
    std::optional<uint32_t> code = write(PyMethod_GET_FUNCTION(object));
    std::optional<uint32_t> self = code ? write(PyMethod_GET_SELF(object)) : std::nullopt;
    if (!self) return std::nullopt;
    return add(object, {Kind::Method, {}, 0, {*code, *self}, {}});
  }
  if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    std::vector<uint32_t> parts;
    for (PyObject* each : {slice->start, slice->stop, slice->step}) {
      std::optional<uint32_t> number = write(each);
      if (!number) return std::nullopt;
      parts.push_back(*number);
    }
    return add(object, {Kind::Slice, {}, 0, std::move(parts), {}});
  }
  if (isSymbol(type)) return refuse(Why::LeavesSymbol);
  if (std::string_view(type->tp_name) == "functools.partial") return partial(object);
  if (std::string_view(type->tp_name) == "types.SimpleNamespace") {
    PyObject* dict = instanceDict(object);
    return calledWith(object, cls.get(), Ref::steal(PyTuple_New(0)), Ref::steal(PyDict_Copy(dict)));
  }
  if (PyWeakref_CheckRefExact(object) && !reinterpret_cast<PyWeakReference*>(object)->wr_callback) {
    PyObject* referent = PyWeakref_GET_OBJECT(object);
    if (referent == Py_None) return refuse({Why::LeavesNew, type->tp_name});
    auto* make = reinterpret_cast<PyObject*>(type);
    return calledWith(object, make, Ref::steal(PyTuple_Pack(1, referent)), Ref::steal(PyDict_New()));
  }
  if (PyExceptionInstance_Check(object)) return exception(object);
  if (base == &PyBaseObject_Type && isPythonClass(type)) return instance(object);
  if (Operations::table().isIterator(type)) return iterator(object);
  return refuse({Why::LeavesNew, type->tp_name});
}

bool Cookbook::attributesOf(uint32_t recipe, PyObject* object) {
  bool may = (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) || PyExceptionInstance_Check(object);
  PyObject* dict = may ? instanceDict(object) : nullptr;
  if (!dict) return true;
  Ref items = Ref::steal(PyDict_Items(dict));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(items.get(), i);
    for (Py_ssize_t k = 0; k < 2; ++k) {
      std::optional<uint32_t> number = write(PyTuple_GET_ITEM(item, k));
      if (!number) return false;
      recipes[recipe].attributes.push_back(*number);
    }
  }
  return true;
}

// Iterators of C tell what they would be pickled as.
std::optional<uint32_t> Cookbook::iterator(PyObject* object) {
  Ref reduced = Ref::steal(PyObject_CallMethod(object, "__reduce__", nullptr));
  if (!reduced || !PyTuple_Check(reduced.get()) || PyTuple_GET_SIZE(reduced.get()) < 2) {
    PyErr_Clear();
    return refuse({Why::LeavesNew, Py_TYPE(object)->tp_name});
  }
  kept_.push_back(reduced);
  std::vector<uint32_t> parts;
  for (Py_ssize_t i = 0; i < 3; ++i) {
    PyObject* part = i < PyTuple_GET_SIZE(reduced.get()) ? PyTuple_GET_ITEM(reduced.get(), i) : Py_None;
    std::optional<uint32_t> number = write(part);
    if (!number) return std::nullopt;
    parts.push_back(*number);
  }
  return add(object, {Recipe::Kind::Reduced, {}, 0, std::move(parts), {}});
}

// functools.partial: called with its function and arguments, then given its keywords.
std::optional<uint32_t> Cookbook::partial(PyObject* object) {
  Ref given = Ref::steal(PyObject_GetAttrString(object, "args"));
  Ref function = Ref::steal(PyObject_GetAttrString(object, "func"));
  Ref keywords = Ref::steal(PyObject_GetAttrString(object, "keywords"));
  PyObject* dict = instanceDict(object);
  if (!given || !function || !keywords || (dict && PyDict_GET_SIZE(dict) > 0)) {
    PyErr_Clear();
    return refuse(Why::LeavesPartial);
  }
  Ref all = Ref::steal(PyTuple_New(PyTuple_GET_SIZE(given.get()) + 1));
  PyTuple_SET_ITEM(all.get(), 0, Py_NewRef(function.get()));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given.get()); ++i) {
    PyTuple_SET_ITEM(all.get(), i + 1, Py_NewRef(PyTuple_GET_ITEM(given.get(), i)));
  }
  return calledWith(object, reinterpret_cast<PyObject*>(Py_TYPE(object)), all, keywords);
}

std::optional<uint32_t> Cookbook::calledWith(PyObject* object, PyObject* callable, const Ref& args,
                                             const Ref& keywords) {
  kept_.push_back(args);
  kept_.push_back(keywords);
  std::vector<uint32_t> parts;
  for (PyObject* each : {callable, args.get(), keywords.get()}) {
    std::optional<uint32_t> number = write(each);
    if (!number) return std::nullopt;
    parts.push_back(*number);
  }
  return add(object, {Recipe::Kind::Called, {}, 0, std::move(parts), {}});
}

std::optional<uint32_t> Cookbook::exception(PyObject* object) {
  auto* made = reinterpret_cast<PyBaseExceptionObject*>(object);
  bool plain = nativeBase(Py_TYPE(object))->tp_basicsize == static_cast<Py_ssize_t>(sizeof(PyBaseExceptionObject));
  if (!plain) return refuse({Why::LeavesPlainNew, Py_TYPE(object)->tp_name});
  if (recorder_.handled()) return refuse(Why::LeavesHandledException);
  std::optional<uint32_t> number =
      add(object, {Recipe::Kind::Exception, Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object))), 0, {}, {}});
  bool fine = part(*number, made->args) && part(*number, made->cause ? made->cause : Py_None) &&
              part(*number, made->context ? made->context : Py_None);
  std::optional<uint32_t> frames = fine ? traceback(made->traceback) : std::nullopt;
  if (!frames) return std::nullopt;
  recipes[*number].parts.push_back(*frames);
  fine = part(*number, made->suppress_context ? Py_True : Py_False) && attributesOf(*number, object);
  return fine ? number : std::nullopt;
}

// One that was raised shows the frames that it passed.
std::optional<uint32_t> Cookbook::traceback(PyObject* object) {
  if (!object) return write(Py_None);
  Ref entries = Ref::steal(PyList_New(0));
  for (PyObject* each = object; each;
       each = reinterpret_cast<PyObject*>(reinterpret_cast<PyTracebackObject*>(each)->tb_next)) {
    auto* frame = reinterpret_cast<PyTracebackObject*>(each)->tb_frame;
    Ref code = Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    Ref globals = Ref::steal(PyFrame_GetGlobals(frame));
    Ref line = Ref::steal(PyObject_GetAttrString(each, "tb_lineno"));
    Ref entry = Ref::steal(Py_BuildValue("(OOiO)", code.get(), globals.get(),
                                         reinterpret_cast<PyTracebackObject*>(each)->tb_lasti, line.get()));
    if (!entry || PyList_Append(entries.get(), entry.get()) < 0) {
      PyErr_Clear();
      return refuse(Why::LeavesException);
    }
  }
  return add(object, {Recipe::Kind::Traceback, entries, 0, {}, {}});
}

std::optional<uint32_t> Cookbook::instance(PyObject* object) {
  std::optional<uint32_t> number =
      add(object, {Recipe::Kind::Instance, Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object))), 0, {}, {}});
  if (PyObject* dict = instanceDict(object)) {
    Ref items = Ref::steal(PyDict_Items(dict));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
      PyObject* item = PyList_GET_ITEM(items.get(), i);
      if (!part(*number, PyTuple_GET_ITEM(item, 0)) || !part(*number, PyTuple_GET_ITEM(item, 1))) return std::nullopt;
    }
  }
  bool fine = true;
  eachSlot(Py_TYPE(object), [&](PyObject* name, Py_ssize_t offset) {
    PyObject* held = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
    if (held && fine) fine = part(*number, name) && part(*number, held);
  });
  return fine ? number : std::nullopt;
}

std::optional<uint32_t> Cookbook::function(PyObject* object) {
  auto* made = reinterpret_cast<PyFunctionObject*>(object);
  std::optional<uint32_t> number = add(object, {Recipe::Kind::Function, Ref::borrow(made->func_code), 0, {}, {}});
  std::optional<uint32_t> globals = add(nullptr, {Recipe::Kind::Constant, Ref::borrow(made->func_globals), 0, {}, {}});
  recipes[*number].parts.push_back(*globals);
  for (PyObject* each : {made->func_qualname, made->func_defaults, made->func_kwdefaults, made->func_closure,
                         made->func_name, made->func_module, made->func_doc}) {
    if (!part(*number, each ? each : Py_None)) return std::nullopt;
  }
  PyObject* dict = made->func_dict;
  if (!dict) return number;
  Ref items = Ref::steal(PyDict_Items(dict));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(items.get(), i);
    for (Py_ssize_t k = 0; k < 2; ++k) {
      std::optional<uint32_t> written = write(PyTuple_GET_ITEM(item, k));
      if (!written) return std::nullopt;
      recipes[*number].attributes.push_back(*written);
    }
  }
  return number;
}

}  // namespace saker::frontend
