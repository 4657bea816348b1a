#include "frontend/aside.h"

#include <utility>

#include "frontend/kinds.h"
#include "frontend/operations.h"

#include "host/objects.h"
namespace saker::frontend {

namespace {
thread_local Aside* active = nullptr;
}

// Hears of all changes, and lets everything happen.
class Aside::Watcher final : public watch::Observer {
 public:
  explicit Watcher(Aside& aside) : aside_(aside) {}

  bool enters(PyObject*, PyCodeObject*) override { return true; }
  void left(PyCodeObject*, PyObject*) override {}
  void madeFunction(PyObject*) override {}
  bool readsGlobal(PyObject*, PyObject*, PyObject*, PyObject*) override { return true; }
  bool writesGlobal(PyObject* globals, PyObject*, PyObject*) override { return note(globals); }
  bool readsCell(PyObject*, PyObject*) override { return true; }
  bool writesCell(PyObject* cell, PyObject*) override { return note(cell); }
  bool readsName(PyObject*, PyObject*, PyObject*, PyObject*) override { return true; }
  bool readsAttribute(PyObject*, PyObject*) override { return true; }
  void readAttribute(PyObject*, PyObject*, PyObject*) override {}
  bool writesAttribute(PyObject* owner, PyObject*, PyObject*) override {
    if (PyType_IsSubtype(Py_TYPE(owner), functionClass()) || isTensor(owner)) return true;
    PyObject* dict = PyModule_Check(owner) ? PyModule_GetDict(owner) : nullptr;
    return note(owner) && (!dict || note(dict));
  }
  bool readsSpecial(PyObject*, PyObject*) override { return true; }
  bool calls(PyObject* callable, const watch::Arguments& arguments) override {
    PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
    bool bound = self && !PyModule_Check(self) && !PyType_Check(self);
    if (!bound) self = arguments.positional > 0 ? arguments.values[0] : nullptr;
    if (!self || PyFunction_Check(callable)) return true;
    if (PyObject_TypeCheck(self, generatorType())) aside_.drew_ = true;
    Behaviour behaviour = Operations::table().ofCall(callable);
    bool changes = behaviour == Behaviour::Mutates || behaviour == Behaviour::WritesAttribute ||
                   behaviour == Behaviour::DeletesAttribute || behaviour == Behaviour::Advances;
    return !changes || isTensor(self) || note(self);
  }
  void called(PyObject*, const watch::Arguments&, PyObject*) override {}
  bool callsSpread(PyObject* callable, PyObject* args, PyObject*) override {
    watch::Arguments given;
    if (PyTuple_Check(args)) {
      given.values = PySequence_Fast_ITEMS(args);
      given.positional = static_cast<size_t>(PyTuple_GET_SIZE(args));
    }
    return calls(callable, given);
  }
  void calledSpread(PyObject*, PyObject*, PyObject*, PyObject*) override {}
  bool unary(watch::Unary, PyObject*) override { return true; }
  bool binary(watch::Binary, bool inplace, PyObject* left, PyObject*) override {
    return !inplace || isTensor(left) || isAtom(left) || note(left);
  }
  void binaryDone(watch::Binary, bool, PyObject*, PyObject*, PyObject*) override {}
  bool compares(int, PyObject*, PyObject*) override { return true; }
  bool contains(PyObject*, PyObject*) override { return true; }
  bool formats(PyObject*, int, PyObject*) override { return true; }
  bool readsItem(PyObject*, PyObject*) override { return true; }
  void readItem(PyObject*, PyObject*, PyObject*) override {}
  bool writesItem(PyObject* container, PyObject*, PyObject*) override { return isTensor(container) || note(container); }
  bool iterates(PyObject*) override { return true; }
  void iterated(PyObject*, PyObject*) override {}
  bool advances(PyObject* iterator) override { return note(iterator); }
  void advanced(PyObject*, PyObject*) override {}
  bool spreads(PyObject*, PyObject*) override { return true; }
  bool matches(PyObject*, PyObject*, PyObject*) override { return true; }
  bool imports(PyObject*, PyObject*, PyObject*) override { return true; }
  void imported(PyObject*, PyObject*) override {}
  bool importsFrom(PyObject*, PyObject*) override { return true; }
  void importedFrom(PyObject*, PyObject*, PyObject*) override {}
  bool raises(PyObject*, PyObject*) override { return true; }
  bool catches(PyObject*, PyObject*) override { return true; }
  void unseen(watch::Unseen) override {}

 private:
  bool note(PyObject* object) {
    aside_.note(object);
    return true;
  }

  Aside& aside_;
};

Aside::Aside() : watcher_(std::make_unique<Watcher>(*this)), before_(std::exchange(active, this)) {}

Aside::~Aside() { active = before_; }

Aside* Aside::current() { return active; }

void Aside::begin() { nested_ = std::make_unique<watch::Nested>(*watcher_); }

void Aside::end() { nested_.reset(); }

void Aside::note(PyObject* object) {
  if (changed_.insert(object).second) kept_.push_back(Ref::borrow(object));
}

}  // namespace saker::frontend
