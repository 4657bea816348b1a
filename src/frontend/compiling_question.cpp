#include "frontend/compiling_question.h"

#include <string_view>

#include "watch/loop.h"
#include "watch/once.h"

namespace saker::frontend {

namespace {

thread_local CompilingQuestion* question = nullptr;

PyObject* function() {
  static constinit watch::Once<PyObject*> found;
  return found.get([] { return watch::importedAttribute("torch.compiler", "is_compiling"); });
}

PyObject* yes() {
  static constinit watch::Once<PyObject*> found;
  return found.get([] { return watch::importedAttribute("saker._compiling", "yes"); });
}

// Optimizers compute other numbers where it is true, and calls of modules leave out hooks.
bool asksForNumbers() {
  watch::Place place = watch::place();
  const char* text = place.code ? PyUnicode_AsUTF8(place.code->co_filename) : nullptr;
  if (!text) PyErr_Clear();
  std::string_view file = text ? text : "";
  return file.find("/torch/optim/") != file.npos || file.ends_with("/torch/nn/modules/module.py");
}

}  // namespace

CompilingQuestion::CompilingQuestion(bool answer) : answer_(answer), outer_(question) { question = this; }
CompilingQuestion::~CompilingQuestion() { question = outer_; }
CompilingQuestion* CompilingQuestion::current() { return question; }

PyObject* CompilingQuestion::insteadOf(PyObject* callable) {
  if (!PyFunction_Check(callable) || callable != function() || asksForNumbers()) return nullptr;
  asked_ = true;
  return answer_ ? yes() : nullptr;
}

}  // namespace saker::frontend
