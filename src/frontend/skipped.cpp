#include "frontend/skipped.h"

#include <string_view>

namespace saker::frontend {

namespace {

std::string_view viewOf(PyObject* unicode) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(unicode, &size);
  if (!text) PyErr_Clear();
  return text ? std::string_view(text, static_cast<size_t>(size)) : std::string_view();
}

// Python's import system, the arithmetic of sizes that are symbols, whose nodes note what they are asked, and hints to
// torch.compile and its books about modules.
bool isAside(std::string_view file, std::string_view name) {
  if (file.starts_with("<frozen importlib") || file.ends_with("saker/_tape_mode.py")) return true;
  if (file.ends_with("torch/__init__.py")) return name.starts_with("Sym") || name.starts_with("sym_");
  if (file.ends_with("torch/utils/checkpoint.py")) return name.ends_with(".pack_hook");
  if (file.ends_with("torch/_dynamo/mutation_guard.py")) return name == "GenerationTracker.tag";
  if (file.ends_with("torch/_dynamo/utils.py")) return name.starts_with("ExactWeakKeyDictionary.");
  return file.ends_with("torch/_dynamo/decorators.py") || file.ends_with("torch/_dynamo/comptime.py") ||
         file.ends_with("fx/experimental/sym_node.py");
}

}  // namespace

bool Skipped::imports(PyCodeObject* code) { return viewOf(code->co_filename).starts_with("<frozen importlib"); }

Skipped::Place Skipped::placeOf(PyCodeObject* code) {
  auto [found, isNew] = places_.try_emplace(code, Place::Program);
  if (!isNew) return found->second;
  kept_.push_back(Ref::borrow(reinterpret_cast<PyObject*>(code)));
  std::string_view file = viewOf(code->co_filename), name = viewOf(code->co_qualname);
  if (isAside(file, name)) {
    found->second = Place::Aside;
  } else if (file.find("torch/_library/") != std::string_view::npos) {
    bool calls = file.ends_with("custom_ops.py") && name.ends_with("wrapped_fn");
    found->second = calls ? Place::Kernel : Place::Library;
  } else if (file.find("/torch/") != std::string_view::npos) {
    found->second = Place::Torch;
  }
  return found->second;
}

// A kernel of the user's is watched for what it changes. Other functions that torch.library calls (those that save for
// the backward, or tell sizes) are not: what they write to is torch.library's.
watch::Skip Skipped::of(PyCodeObject* code, PyCodeObject* passed) {
  Place place = placeOf(code);
  if (place == Place::Aside) return watch::Skip::All;
  if (place == Place::Library || place == Place::Kernel) return watch::Skip::Frame;
  if (!passed || placeOf(passed) == Place::Kernel) return watch::Skip::No;
  return place == Place::Torch ? watch::Skip::Frame : watch::Skip::All;
}

}  // namespace saker::frontend
