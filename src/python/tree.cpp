#include "python/tree.h"

#include <algorithm>

#include "host/errors.h"
#include "host/objects.h"
#include "host/owned.h"
#include "watch/once.h"

namespace saker::python {

namespace {

PyObject* imported(const char* module, const char* name) {
  Ref found = owned(PyImport_ImportModule(module));
  return owned(PyObject_GetAttrString(found.get(), name)).release();
}

struct Pytree {
  PyObject* flatten = imported("saker._trees", "flatten");
  PyObject* unflatten = imported("saker._trees", "unflatten");
  PyObject* registered = imported("torch.utils._pytree", "SUPPORTED_NODES");
};

const Pytree& pytree() {
  static constinit watch::Once<Pytree> found;
  return found.get([] { return Pytree(); });
}

// Containers may be nested as deep as Python's calls, as in PyTorch's own search: from 3.12 on what CPython allows C is
// ten times that, which a list that holds itself would need a larger stack for.
class Deeper {
 public:
  Deeper() {
    if (depth_ < Py_GetRecursionLimit()) {
      ++depth_;
      return;
    }
    PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded while looking for tensors in containers");
    throwPythonError();
  }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  static inline thread_local int depth_ = 0;
};

}  // namespace

int Visitor::operator()(const std::vector<Ref>& objects) const {
  for (const Ref& object : objects) {
    if (int stop = (*this)(object)) return stop;
  }
  return 0;
}

bool sameConstant(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!a || !b || Py_TYPE(a) != Py_TYPE(b)) return false;
  int same = PyObject_RichCompareBool(a, b, Py_EQ);
  if (same < 0) throwPythonError();
  return same != 0;
}

Tree::Kind Tree::kindOf(PyObject* object) {
  if (PyTuple_CheckExact(object)) return Kind::Tuple;
  if (PyList_CheckExact(object)) return Kind::List;
  if (PyDict_CheckExact(object)) return Kind::Dict;
  PyTypeObject* type = Py_TYPE(object);
  bool common = type == tensorClass() || object == Py_None || PyLong_CheckExact(object) || PyBool_Check(object) ||
                PyFloat_CheckExact(object) || PyUnicode_CheckExact(object);
  if (common || PyType_IsSubtype(type, sizeClass())) return Kind::Leaf;
  if (PyTuple_Check(object)) return Kind::Foreign;  // named ones are no leaves
  int known = PyDict_Contains(pytree().registered, reinterpret_cast<PyObject*>(type));
  if (known < 0) throwPythonError();
  return known ? Kind::Foreign : Kind::Leaf;
}

void Tree::addNode(Kind kind, Py_ssize_t count) {
  nodes_.push_back({kind, static_cast<uint32_t>(count)});
  mix(static_cast<uint64_t>(kind) << 32 | static_cast<uint64_t>(count));
}

void Tree::add(PyObject* object, std::vector<Ref>& leaves) {
  switch (kindOf(object)) {
    case Kind::Leaf:
      addNode(Kind::Leaf, 0);
      leaves.push_back(Ref::borrow(object));
      break;
    case Kind::Tuple: {
      Deeper deeper;
      addNode(Kind::Tuple, PyTuple_GET_SIZE(object));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) add(PyTuple_GET_ITEM(object, i), leaves);
      break;
    }
    case Kind::List: {
      Deeper deeper;
      Ref kept = owned(PyList_AsTuple(object));  // code that runs below may change the list
      addNode(Kind::List, PyTuple_GET_SIZE(kept.get()));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kept.get()); ++i) add(PyTuple_GET_ITEM(kept.get(), i), leaves);
      break;
    }
    case Kind::Dict: {
      Deeper deeper;
      addNode(Kind::Dict, PyDict_GET_SIZE(object));
      std::vector<Ref> values;
      Py_ssize_t at = 0;
      PyObject *key = nullptr, *value = nullptr;
      while (PyDict_Next(object, &at, &key, &value)) {
        keys_.push_back(Ref::borrow(key));
        values.push_back(Ref::borrow(value));
        if (PyUnicode_CheckExact(key)) mix(static_cast<uint64_t>(PyObject_Hash(key)));
      }
      for (const Ref& each : values) add(each.get(), leaves);
      break;
    }
    case Kind::Foreign: {
      Deeper deeper;
      addForeign(object, leaves);
      break;
    }
  }
}

void Tree::addForeign(PyObject* object, std::vector<Ref>& leaves) {
  Ref pair = owned(PyObject_CallOneArg(pytree().flatten, object));
  PyObject *found = nullptr, *spec = nullptr;
  if (!PyArg_ParseTuple(pair.get(), "O!O", &PyList_Type, &found, &spec)) throwPythonError();
  addNode(Kind::Foreign, PyList_GET_SIZE(found));
  specs_.push_back(Ref::borrow(spec));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(found); ++i) leaves.push_back(Ref::borrow(PyList_GET_ITEM(found, i)));
}

struct Tree::Reader {
  const std::vector<Ref>& leaves;
  size_t node = 0, leaf = 0, key = 0, spec = 0;
};

Ref Tree::build(const std::vector<Ref>& leaves) const {
  Reader reader{leaves};
  return build(reader);
}

Ref Tree::build(Reader& at) const {
  const Node& node = nodes_[at.node++];
  auto count = static_cast<Py_ssize_t>(node.count);
  switch (node.kind) {
    case Kind::Leaf:
      return at.leaves[at.leaf++];
    case Kind::Tuple: {
      Ref made = owned(PyTuple_New(count));
      for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(made.get(), i, build(at).release());
      return made;
    }
    case Kind::List: {
      Ref made = owned(PyList_New(count));
      for (Py_ssize_t i = 0; i < count; ++i) PyList_SET_ITEM(made.get(), i, build(at).release());
      return made;
    }
    case Kind::Dict: {
      Ref made = owned(PyDict_New());
      size_t keys = at.key;
      at.key += node.count;
      for (Py_ssize_t i = 0; i < count; ++i) {
        const Ref& key = keys_[keys + static_cast<size_t>(i)];
        if (PyDict_SetItem(made.get(), key.get(), build(at).get()) < 0) throwPythonError();
      }
      return made;
    }
    case Kind::Foreign:
      break;
  }
  Ref list = owned(PyList_New(count));
  for (Py_ssize_t i = 0; i < count; ++i) PyList_SET_ITEM(list.get(), i, Ref(at.leaves[at.leaf++]).release());
  return owned(PyObject_CallFunctionObjArgs(pytree().unflatten, list.get(), specs_[at.spec++].get(), nullptr));
}

bool Tree::operator==(const Tree& other) const {
  if (hash_ != other.hash_ || nodes_ != other.nodes_) return false;
  auto equal = [](const std::vector<Ref>& left, const std::vector<Ref>& right) {
    return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                      [](const Ref& a, const Ref& b) { return sameConstant(a.get(), b.get()); });
  };
  return equal(keys_, other.keys_) && equal(specs_, other.specs_);
}

int Tree::traverse(const Visitor& visit) const {
  if (int stop = visit(keys_)) return stop;
  return visit(specs_);
}

}  // namespace saker::python
