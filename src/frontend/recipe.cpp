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
    outputs.push_back(array->tensor);
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
  if (name == "SymFloat" || name == "SymBool") {
    return refuse(Why::LeavesSymbol);
  }
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
    Ref items = Ref::steal(PySequence_List(object));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
      if (!part(*number, PyList_GET_ITEM(items.get(), i))) return std::nullopt;
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

namespace {

// Frames that ran nothing, at the lines of those that did.
PyObject* makeTraceback(PyObject* entries) {
  Ref next = Ref::borrow(Py_None);
  for (Py_ssize_t i = PyList_GET_SIZE(entries); i-- > 0;) {
    PyObject* entry = PyList_GET_ITEM(entries, i);
    auto* code = reinterpret_cast<PyCodeObject*>(PyTuple_GET_ITEM(entry, 0));
    Ref frame = Ref::steal(
        reinterpret_cast<PyObject*>(PyFrame_New(PyThreadState_Get(), code, PyTuple_GET_ITEM(entry, 1), nullptr)));
    if (!frame) return nullptr;
    next =
        Ref::steal(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyTraceBack_Type), next.get(), frame.get(),
                                                PyTuple_GET_ITEM(entry, 2), PyTuple_GET_ITEM(entry, 3), nullptr));
    if (!next) return nullptr;
  }
  return next.release();
}

void fillException(PyBaseExceptionObject* made, const std::vector<PyObject*>& parts) {
  auto held = [](PyObject* object) { return object == Py_None ? nullptr : Py_NewRef(object); };
  Py_SETREF(made->args, Py_NewRef(parts[0]));
  Py_XSETREF(made->cause, held(parts[1]));
  Py_XSETREF(made->context, held(parts[2]));
  Py_XSETREF(made->traceback, held(parts[3]));
  made->suppress_context = parts[4] == Py_True;
}

}  // namespace

PyObject* Kitchen::make(uint32_t number) {
  if (made_[number]) return made_[number].get();
  const Recipe& recipe = recipes_[number];
  PyObject* made = nullptr;
  auto keep = [&] {
    made_[number] = Ref::steal(made);
    return made;
  };
  using Kind = Recipe::Kind;
  auto* type = reinterpret_cast<PyTypeObject*>(recipe.object.get());
  static PyObject* const nothing = PyTuple_New(0);
  switch (recipe.kind) {
    case Kind::Constant:
      made = Py_NewRef(recipe.object.get());
      return keep();
    case Kind::Place:
      made = Py_NewRef(places_[recipe.index]);
      return keep();
    case Kind::Generator:
      made = Py_NewRef(places_[recipe.index]);
      break;
    case Kind::Handle:
      made = Py_XNewRef(HookHandles::at(recipe.index));
      return keep();
    case Kind::Output:
      made = wrapTensor(outputs_[recipe.index]);
      if (made && recipe.object) {
        Ref plain = Ref::steal(made);
        made = PyObject_CallMethod(plain.get(), "as_subclass", "O", recipe.object.get());
      }
      return keep();
    case Kind::Int:
      made = PyLong_FromLongLong(outputs_[recipe.index].item<int64_t>());
      return keep();
    case Kind::Float:
      made = PyFloat_FromDouble(outputs_[recipe.index].item<double>());
      return keep();
    case Kind::Array:
    case Kind::Scalar: {
      Ref array = numpy::fromTensor(outputs_[recipe.index], recipe.kind == Kind::Scalar);
      if (array && recipe.object) {
        Ref locked = Ref::steal(PyObject_CallMethod(array.get(), "setflags", "O", Py_False));
        if (!locked) return nullptr;
      }
      made = array.release();
      return keep();
    }
    case Kind::Tuple: {
      Ref items = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(recipe.parts.size())));
      for (size_t i = 0; i < recipe.parts.size(); ++i) {
        PyObject* item = make(recipe.parts[i]);
        if (!item) return nullptr;
        PyTuple_SET_ITEM(items.get(), static_cast<Py_ssize_t>(i), Py_NewRef(item));
      }
      if (recipe.index) {
        type = reinterpret_cast<PyTypeObject*>(make(recipe.index - 1));
        if (!type) return nullptr;
      }
      if (type == &PyTuple_Type) {
        made = items.release();
      } else if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        Ref args = Ref::steal(PyTuple_Pack(1, items.get()));
        made = PyTuple_Type.tp_new(type, args.get(), nullptr);
      } else {  // torch.Size and its like
        made = PyObject_CallOneArg(recipe.object.get(), items.get());
      }
      return keep();
    }
    case Kind::FrozenSet: {
      Ref items = Ref::steal(PyList_New(0));
      for (uint32_t part : recipe.parts) {
        PyObject* item = make(part);
        if (!item || PyList_Append(items.get(), item) < 0) return nullptr;
      }
      made = PyFrozenSet_New(items.get());
      return keep();
    }
    case Kind::Method: {
      PyObject* function = make(recipe.parts[0]);
      PyObject* self = function ? make(recipe.parts[1]) : nullptr;
      if (!self) return nullptr;
      made = PyMethod_New(function, self);
      return keep();
    }
    case Kind::Slice: {
      PyObject* parts[3];
      for (int i = 0; i < 3; ++i) {
        parts[i] = make(recipe.parts[static_cast<size_t>(i)]);
        if (!parts[i]) return nullptr;
      }
      made = PySlice_New(parts[0], parts[1], parts[2]);
      return keep();
    }
    case Kind::Reduced: {
      PyObject* parts[3];
      for (size_t i = 0; i < 3; ++i) {
        parts[i] = make(recipe.parts[i]);
        if (!parts[i]) return nullptr;
      }
      made = PyObject_CallObject(parts[0], parts[1]);
      if (made && parts[2] != Py_None) {
        Ref done = Ref::steal(PyObject_CallMethod(made, "__setstate__", "O", parts[2]));
        if (!done) Py_CLEAR(made);
      }
      return keep();
    }
    case Kind::Traceback:
      made = makeTraceback(recipe.object.get());
      return keep();
    case Kind::Exception:
      made = nativeBase(type)->tp_new(type, nothing, nullptr);
      break;
    case Kind::Called: {
      PyObject* parts[3];
      for (size_t i = 0; i < 3; ++i) {
        parts[i] = make(recipe.parts[i]);
        if (!parts[i]) return nullptr;
      }
      made = PyObject_Call(parts[0], parts[1], parts[2]);
      return keep();
    }
    case Kind::List:
      made = type == &PyList_Type ? PyList_New(0) : PyList_Type.tp_new(type, nothing, nullptr);
      break;
    case Kind::Set:
      made = type == &PySet_Type ? PySet_New(nullptr) : PySet_Type.tp_new(type, nothing, nullptr);
      break;
    case Kind::Deque:
    case Kind::Dict:
      made = type == &PyDict_Type ? PyDict_New() : nativeBase(type)->tp_new(type, nothing, nullptr);
      if (made && recipe.kind == Kind::Dict && nativeBase(type) != &PyDict_Type && nativeBase(type)->tp_init) {
        PyObject* factory = recipe.index ? make(recipe.index - 1) : nullptr;
        Ref args = factory ? Ref::steal(PyTuple_Pack(1, factory)) : Ref::borrow(nothing);
        if (nativeBase(type)->tp_init(made, args.get(), nullptr) < 0) Py_CLEAR(made);
      }
      if (made && recipe.kind == Kind::Deque) {
        PyObject* limit = make(recipe.index - 1);
        Ref args = Ref::steal(limit ? PyTuple_Pack(2, nothing, limit) : nullptr);
        if (!args || nativeBase(type)->tp_init(made, args.get(), nullptr) < 0) Py_CLEAR(made);
      }
      break;
    case Kind::Instance:
      made = PyBaseObject_Type.tp_new(type, nothing, nullptr);
      break;
    case Kind::Cell:
      made = PyCell_New(nullptr);
      break;
    case Kind::Function: {
      PyObject* globals = make(recipe.parts[0]);
      PyObject* qualname = globals ? make(recipe.parts[1]) : nullptr;
      if (!qualname) return nullptr;
      made = PyFunction_NewWithQualName(recipe.object.get(), globals, qualname);
      break;
    }
  }
  if (!made) return nullptr;
  keep();
  return fill(recipe, made) ? made : nullptr;
}

bool Kitchen::fill(const Recipe& recipe, PyObject* object) {
  using Kind = Recipe::Kind;
  std::vector<PyObject*> parts;
  for (uint32_t part : recipe.parts) {
    parts.push_back(make(part));
    if (!parts.back()) return false;
  }
  static PyObject* const append = PyUnicode_InternFromString("append");
  for (size_t i = 0; i + 1 < recipe.attributes.size(); i += 2) {
    PyObject* name = make(recipe.attributes[i]);
    PyObject* value = name ? make(recipe.attributes[i + 1]) : nullptr;
    if (!value || PyObject_GenericSetAttr(object, name, value) < 0) return false;
  }
  switch (recipe.kind) {
    case Kind::List:
      for (PyObject* item : parts) {
        if (PyList_Append(object, item) < 0) return false;
      }
      return true;
    case Kind::Set:
      for (PyObject* item : parts) {
        if (PySet_Add(object, item) < 0) return false;
      }
      return true;
    case Kind::Deque:
      for (PyObject* item : parts) {
        Ref done = Ref::steal(PyObject_CallMethodOneArg(object, append, item));
        if (!done) return false;
      }
      return true;
    case Kind::Dict: {
      objobjargproc set = nativeBase(Py_TYPE(object))->tp_as_mapping->mp_ass_subscript;
      for (size_t i = 0; i + 1 < parts.size(); i += 2) {
        if (set(object, parts[i], parts[i + 1]) < 0) return false;
      }
      return true;
    }
    case Kind::Instance:
      for (size_t i = 0; i + 1 < parts.size(); i += 2) {
        if (PyObject_GenericSetAttr(object, parts[i], parts[i + 1]) < 0) return false;
      }
      return true;
    case Kind::Exception:
      fillException(reinterpret_cast<PyBaseExceptionObject*>(object), parts);
      return true;
    case Kind::Cell:
      return parts.empty() || PyCell_Set(object, parts[0]) == 0;
    case Kind::Function:
      if (parts[2] != Py_None && PyFunction_SetDefaults(object, parts[2]) < 0) return false;
      if (parts[3] != Py_None && PyFunction_SetKwDefaults(object, parts[3]) < 0) return false;
      if (parts[4] != Py_None && PyFunction_SetClosure(object, parts[4]) < 0) return false;
      return PyObject_SetAttrString(object, "__name__", parts[5]) == 0 &&
             PyObject_SetAttrString(object, "__module__", parts[6]) == 0 &&
             PyObject_SetAttrString(object, "__doc__", parts[7]) == 0;
    default:
      return true;
  }
}

}  // namespace saker::frontend
