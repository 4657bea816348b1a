// Lazy modules: the call that finds out their sizes initialises them, once. A recording is of what comes after, so what
// it has read of such a module before is forgotten, and read again.
#include <unordered_set>

#include "frontend/kinds.h"
#include "frontend/recorder.h"

namespace saker::frontend {

bool Recorder::initialises(PyObject* function, const watch::Arguments& arguments) {
  if (arguments.positional < 2 || !isPartOf(function, "_infer_parameters", "torch/nn/modules/lazy.py")) return false;
  hiding_ = function;
  initialising_ = arguments.values[1];
  return true;
}

void Recorder::initialised(PyObject* module) {
  uint32_t root = placeOf(module);
  if (root == kInside) return;
  std::unordered_set<uint32_t> dropped;
  std::vector<Instruction> kept;
  for (Instruction& at : guards_.instructions) {
    bool loads = at.op <= Op::ContextValue;
    bool from = loads && at.op > Op::Fixed && (at.parent == root || dropped.contains(at.parent));
    bool pair = at.op == Op::Same || at.op == Op::Different;
    if (from) dropped.insert(at.place);
    bool about = !loads && (at.place == root || dropped.contains(at.place));
    if (pair) about |= dropped.contains(static_cast<uint32_t>(at.number));
    if (!from && !about) kept.push_back(std::move(at));
  }
  guards_.instructions = std::move(kept);
  std::erase_if(places_, [&](const auto& entry) { return dropped.contains(entry.second); });
  std::erase_if(tensors_, [&](const auto& entry) { return dropped.contains(entry.second); });
  std::erase_if(reads_, [&](const auto& entry) { return dropped.contains(entry.second); });
  std::erase_if(absent_, [&](const auto& entry) { return entry.first == root; });
  std::erase_if(realized_, [&](PyObject* object) { return placeOf(object) == kInside; });
  checkIs(Op::IsType, root, reinterpret_cast<PyObject*>(Py_TYPE(module)));
  // The hooks that its call has looked at before.
  for (const char* name : {"_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"}) {
    kept_.push_back(Ref::steal(PyUnicode_InternFromString(name)));
    Ref hooks = Ref::steal(PyObject_GetAttr(module, kept_.back().get()));
    if (!hooks || !attribute(module, kept_.back().get()) || !realize(hooks.get(), false)) return PyErr_Clear();
  }
}

}  // namespace saker::frontend
