#include "frontend/iterators.h"

#include <cstring>
#include <unordered_map>

#include "watch/once.h"

namespace saker::frontend::iterators {

namespace {

constexpr size_t kHead = sizeof(PyObject), kWord = sizeof(void*);
constexpr size_t at(size_t word) { return kHead + word * kWord; }

using Layouts = std::unordered_map<const PyTypeObject*, Layout>;

// CPython declares these types in its source files alone. A type of another size is left out.
Layouts makeLayouts() {
  Layouts all;
  auto add = [&](const PyTypeObject& type, std::initializer_list<size_t> words, Layout layout) {
    for (size_t count : words) {
      if (static_cast<size_t>(type.tp_basicsize) == at(count)) all.emplace(&type, layout);
    }
  };
  add(PyListIter_Type, {2}, {{at(0)}, {at(1)}});
  add(PyTupleIter_Type, {2}, {{at(0)}, {at(1)}});
  add(PyEnum_Type, {4, 5}, {{at(0)}, {at(1), at(3)}});
  add(PyZip_Type, {4}, {{at(0), at(3)}, {at(1)}});
  add(PyMap_Type, {2}, {{}, {at(0), at(1)}});
  for (const PyTypeObject* type : {&PyDictIterKey_Type, &PyDictIterValue_Type, &PyDictIterItem_Type}) {
    add(*type, {5}, {{at(1), at(2), at(4)}, {at(0)}});
  }
  add(PyRangeIter_Type, {3}, {{at(0), at(1), at(2)}, {}});
  add(PyRangeIter_Type, {4}, {{at(0), at(1), at(2), at(3)}, {}});
  return all;
}

char* wordAt(PyObject* iterator, size_t offset) { return reinterpret_cast<char*>(iterator) + offset; }

PyObject* leave(PyObject*, PyObject* const* args, Py_ssize_t) {
  PyObject *iterator = args[0], *how = args[1];
  if (PyGen_CheckExact(iterator)) {
    static PyObject* const close = PyUnicode_InternFromString("close");
    return how == Py_True ? PyObject_CallMethodNoArgs(iterator, close) : Py_NewRef(Py_None);
  }
  const Layout& layout = *layoutOf(Py_TYPE(iterator));
  const char* position = PyBytes_AS_STRING(how);
  for (size_t i = 0; i < layout.numbers.size(); ++i) {
    std::memcpy(wordAt(iterator, layout.numbers[i]), position + i * kWord, kWord);
  }
  auto cleared = static_cast<unsigned long>(PyLong_AsUnsignedLong(args[2]));
  for (size_t i = 0; i < layout.objects.size(); ++i) {
    if (cleared >> i & 1) Py_CLEAR(heldAt(iterator, layout.objects[i]));
  }
  return Py_NewRef(Py_None);
}

}  // namespace

const Layout* layoutOf(PyTypeObject* type) {
  static const Layouts& all = *new Layouts(makeLayouts());
  auto found = all.find(type);
  return found == all.end() ? nullptr : &found->second;
}

Ref positionOf(PyObject* iterator) {
  const Layout& layout = *layoutOf(Py_TYPE(iterator));
  Ref bytes = Ref::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(layout.numbers.size() * kWord)));
  for (size_t i = 0; bytes && i < layout.numbers.size(); ++i) {
    std::memcpy(PyBytes_AS_STRING(bytes.get()) + i * kWord, wordAt(iterator, layout.numbers[i]), kWord);
  }
  return bytes;
}

bool standsAt(PyObject* iterator, PyObject* position) {
  const Layout& layout = *layoutOf(Py_TYPE(iterator));
  for (size_t i = 0; i < layout.numbers.size(); ++i) {
    const char* expected = PyBytes_AS_STRING(position) + i * kWord;
    if (std::memcmp(wordAt(iterator, layout.numbers[i]), expected, kWord) != 0) return false;
  }
  return true;
}

PyObject* leaveFunction() {
  static PyMethodDef method = {"leave", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&leave)),
                               METH_FASTCALL, nullptr};
  static PyObject* const function = PyCFunction_New(&method, nullptr);
  return function;
}

}  // namespace saker::frontend::iterators
