// The one guard between C++ exceptions and CPython's frames: an observer that throws is told so, and is not asked
// again. Frames of C lie between the loop and its caller, which no exception may cross.
#pragma once

#include <exception>
#include <utility>

#include "watch/observer.h"

namespace saker::watch {

// Forwards every event. After an exception it refuses all that can be refused.
class Guarded final : public Observer {
 public:
  explicit Guarded(Observer& observer) : observer_(observer) {}

// The name of an event, its parameters, and these as they are handed on.
#define SAKER_REFUSABLE(X)                                                                            \
  X(enters, (PyObject * function, PyCodeObject * code), (function, code))                             \
  X(resumes, (PyCodeObject * code), (code))                                                           \
  X(readsGlobal, (PyObject * globals, PyObject * builtins, PyObject * name, PyObject * value),        \
    (globals, builtins, name, value))                                                                 \
  X(writesGlobal, (PyObject * globals, PyObject * name, PyObject * value), (globals, name, value))    \
  X(readsCell, (PyObject * cell, PyObject * value), (cell, value))                                    \
  X(writesCell, (PyObject * cell, PyObject * value), (cell, value))                                   \
  X(readsName, (PyObject * locals, PyObject * globals, PyObject * builtins, PyObject * name),         \
    (locals, globals, builtins, name))                                                                \
  X(readsAttribute, (PyObject * owner, PyObject * name), (owner, name))                               \
  X(writesAttribute, (PyObject * owner, PyObject * name, PyObject * value), (owner, name, value))     \
  X(readsSpecial, (PyObject * owner, PyObject * name), (owner, name))                                 \
  X(calls, (PyObject * callable, const Arguments& arguments), (callable, arguments))                  \
  X(callsSpread, (PyObject * callable, PyObject * args, PyObject * kwargs), (callable, args, kwargs)) \
  X(unary, (Unary op, PyObject * operand), (op, operand))                                             \
  X(binary, (Binary op, bool inplace, PyObject* left, PyObject* right), (op, inplace, left, right))   \
  X(compares, (int op, PyObject* left, PyObject* right), (op, left, right))                           \
  X(contains, (PyObject * container, PyObject * item), (container, item))                             \
  X(identifies, (PyObject * left, PyObject * right), (left, right))                                   \
  X(formats, (PyObject * value, int conversion, PyObject* spec), (value, conversion, spec))           \
  X(readsItem, (PyObject * container, PyObject * key), (container, key))                              \
  X(writesItem, (PyObject * container, PyObject * key, PyObject * value), (container, key, value))    \
  X(iterates, (PyObject * iterable), (iterable))                                                      \
  X(advances, (PyObject * iterator), (iterator))                                                      \
  X(spreads, (PyObject * iterable, PyObject * into), (iterable, into))                                \
  X(keys, (PyObject * key), (key))                                                                    \
  X(matches, (PyObject * subject, PyObject * cls, PyObject * names), (subject, cls, names))           \
  X(imports, (PyObject * name, PyObject * fromlist, PyObject * level), (name, fromlist, level))       \
  X(importsFrom, (PyObject * module, PyObject * name), (module, name))                                \
  X(raises, (PyObject * exception, PyObject * cause), (exception, cause))                             \
  X(catches, (PyObject * exception, PyObject * classes), (exception, classes))

#define SAKER_TOLD(X)                                                                                           \
  X(left, (PyCodeObject * code, PyObject * value), (code, value))                                               \
  X(suspended, (PyCodeObject * code, PyObject * value), (code, value))                                          \
  X(madeFunction, (PyObject * function), (function))                                                            \
  X(readAttribute, (PyObject * owner, PyObject * name, PyObject * value), (owner, name, value))                 \
  X(called, (PyObject * callable, const Arguments& arguments, PyObject* result), (callable, arguments, result)) \
  X(calledSpread, (PyObject * callable, PyObject * args, PyObject * kwargs, PyObject * result),                 \
    (callable, args, kwargs, result))                                                                           \
  X(hides, (bool on), (on))                                                                                     \
  X(unaryDone, (Unary op, PyObject * operand, PyObject * result), (op, operand, result))                        \
  X(binaryDone, (Binary op, bool inplace, PyObject* left, PyObject* right, PyObject* result),                   \
    (op, inplace, left, right, result))                                                                         \
  X(compared, (PyObject * left, PyObject * right, PyObject * result), (left, right, result))                    \
  X(readItem, (PyObject * container, PyObject * key, PyObject * value), (container, key, value))                \
  X(iterated, (PyObject * iterable, PyObject * iterator), (iterable, iterator))                                 \
  X(advanced, (PyObject * iterator, PyObject * value), (iterator, value))                                       \
  X(imported, (PyObject * name, PyObject * module), (name, module))                                             \
  X(importedFrom, (PyObject * module, PyObject * name, PyObject * value), (module, name, value))                \
  X(constant, (PyObject * object), (object))                                                                    \
  X(unseen, (Unseen why), (why))                                                                                \
  X(refused, (), ())                                                                                            \
  X(failed, (const char* what), (what))

#define X(name, parameters, arguments)                           \
  bool name parameters override {                                \
    return ask(false, [&] { return observer_.name arguments; }); \
  }
  SAKER_REFUSABLE(X)
#undef X
#define X(name, parameters, arguments)                         \
  void name parameters override {                              \
    ask(true, [&] { return observer_.name arguments, true; }); \
  }
  SAKER_TOLD(X)
#undef X
#undef SAKER_REFUSABLE
#undef SAKER_TOLD

  Skip skips(PyCodeObject* code, PyCodeObject* passed) override {
    return ask(Skip::No, [&] { return observer_.skips(code, passed); });
  }
  PyObject* instead(PyObject* callable) override {
    return ask(callable, [&] { return observer_.instead(callable); });
  }
  bool hidden(PyObject* callable) override {
    return ask(false, [&] { return observer_.hidden(callable); });
  }
  bool abandons() override {
    return ask(false, [&] { return observer_.abandons(); });
  }

 private:
  template <typename Answer, typename Ask>
  Answer ask(Answer otherwise, const Ask& event) {
    if (broken_) return otherwise;
    try {
      return event();
    } catch (const std::exception& error) {
      tellBroken(error.what());
    } catch (...) {
      tellBroken("an exception of an unknown class");
    }
    return otherwise;
  }

  void tellBroken(const char* what) {
    broken_ = true;
    try {
      observer_.failed(what);
    } catch (...) {  // it has been told
    }
  }

  Observer& observer_;
  bool broken_ = false;
};

}  // namespace saker::watch
