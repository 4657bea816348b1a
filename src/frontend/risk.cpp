#include "frontend/risk.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>

#include "frontend/replay.h"
#include "host/gil.h"
#include "host/kept_error.h"
#include "ops/effects.h"
#include "passes/memory.h"
#include "runtime/failure.h"
#include "watch/handled.h"
#include "watch/ref.h"

namespace saker::frontend {

namespace {

bool startsWith(PyObject* unicode, const char* prefix) {
  const char* text = unicode && PyUnicode_Check(unicode) ? PyUnicode_AsUTF8(unicode) : nullptr;
  if (!text) PyErr_Clear();
  return text && std::string_view(text).starts_with(prefix);
}

// A context manager of PyTorch's puts back modes and flags, which a replay that fails does too.
bool putsBackOnly(PyObject* exit) {
  KeptError kept;
  PyObject* self = PyMethod_Check(exit) ? PyMethod_GET_SELF(exit) : nullptr;
  if (PyCFunction_Check(exit)) self = PyCFunction_GET_SELF(exit);
  if (!self) return false;
  Ref module = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(self)), "__module__"));
  PyErr_Clear();
  if (startsWith(module.get(), "torch")) return true;
  if (!startsWith(module.get(), "contextlib")) return false;
  if (std::string_view(Py_TYPE(self)->tp_name) == "nullcontext") return true;
  Ref generator = Ref::steal(PyObject_GetAttrString(self, "gen"));
  PyErr_Clear();
  if (!generator || !PyGen_CheckExact(generator.get())) return false;
  Ref frame = Ref::steal(PyObject_GetAttrString(generator.get(), "gi_frame"));
  Ref globals = frame ? Ref::steal(PyObject_GetAttrString(frame.get(), "f_globals")) : Ref();
  PyErr_Clear();
  PyObject* name = globals && PyDict_Check(globals.get()) ? PyDict_GetItemString(globals.get(), "__name__") : nullptr;
  return startsWith(name, "torch");
}

// Calls of modules that have hooks catch every exception, for the hooks that are called even then, and raise it again.
// Steps of optimizers put the grad mode back, which a replay that fails does too.
bool raisesAgain(PyObject* globals) {
  if (!PyDict_Check(globals)) return false;
  PyObject* name = PyDict_GetItemString(globals, "__name__");
  if (!name || !PyUnicode_Check(name)) return false;
  if (PyUnicode_CompareWithASCIIString(name, "torch.optim.optimizer") == 0) return true;
  if (PyUnicode_CompareWithASCIIString(name, "torch.nn.modules.module") != 0) return false;
  PyObject* always = PyDict_GetItemString(globals, "_global_forward_hooks_always_called");
  return always && PyDict_Check(always) && PyDict_GET_SIZE(always) == 0;
}

// Operators raise these when data is not what they take.
bool catchesDataErrors(PyObject* cls) {
  PyObject* const raised[] = {PyExc_RuntimeError, PyExc_IndexError, PyExc_ValueError, PyExc_TypeError};
  if (cls == PyExc_NotImplementedError || cls == PyExc_RecursionError) return false;
  for (PyObject* each : raised) {
    auto *one = reinterpret_cast<PyTypeObject*>(each), *other = reinterpret_cast<PyTypeObject*>(cls);
    if (PyType_IsSubtype(one, other) || PyType_IsSubtype(other, one)) return true;
  }
  return false;
}

at::Generator& generatorOfTorch() {
  static at::Generator generator = at::detail::getDefaultCPUGenerator();
  return generator;
}

}  // namespace

bool noticesErrors(bool any) {
  HoldInterpreter held;  // operators run without it
  return watch::handled({&putsBackOnly, any ? [](PyObject*) { return true; } : &catchesDataErrors, &raisesAgain});
}

bool Segment::takeRisk(const tracing::Tape::Risk& risk, bool repeatable) {
  hazards.risky = risk.any;
  hazards.drawsTorch = risk.drew;
  hazards.chooses = risk.chooses;
  hazards.firstDone = risk.firstDone;
  hazards.firstWrite = risk.firstWrite;
  hazards.before = risk.before;
  bool goesOn = risk.goesOn, sizes = risk.sizesGoOn;
  if (!repeatable) {  // calls of the user's code among the operators
    hazards.firstDone = hazards.firstWrite = 0;
    hazards.before = risk.beforeAnywhere;
    goesOn = risk.goesOnAnywhere;
    sizes = risk.sizes || risk.expects;
  }
  size_t count = 0;
  for (const auto& each : hazards.before) count = std::max(count, each.effects);
  hazards.mustUndo = goesOn || sizes || needGraph(count);
  hazards.unknown = risk.unknown;
  hazards.inOrder = risk.sizes || (hazards.unknown && !hazards.before.empty() && (writes || count > 0));
  return !hazards.mustUndo || (repeatable && !sizes && !risk.unknown);
}

bool Segment::takeRiskOf(const runtime::Program& given) {
  hazards.risky = true;
  passes::Memory memory(*given.graph, {false, passes::Memory::Assumptions::Unknown::Nothing});
  for (const ir::Node* node = given.graph->top()->first(); node && !node->isReturn(); node = node->next()) {
    const ops::Operator* op = ops::of(node);
    hazards.drawsTorch |= !op || op->isRandom();
    bool writesOutside = false;
    ops::eachWritten(*node, [&](const ir::Value* written) { writesOutside |= memory.isFromOutside(written); });
    if (hazards.firstDone && (!op || op->has(ops::kDynamicShape))) return false;
    hazards.mustUndo |= hazards.firstDone && op->has(ops::kFailsOnData);
    if (!hazards.firstDone && (!op || writesOutside)) hazards.firstDone = node->id();
  }
  hazards.firstWrite = hazards.firstDone;
  return true;
}

// Do the first effects need results of the graph?
bool Segment::needGraph(size_t count) const {
  std::vector<uint32_t> open;
  std::vector<bool> seen(recipes.size());
  for (size_t i = 0; i < std::min(count, effects.size()); ++i) {
    if (!effects[i].early && !effects[i].inner)
      open.insert(open.end(), effects[i].arguments.begin(), effects[i].arguments.end());
  }
  while (!open.empty()) {
    uint32_t number = open.back();
    open.pop_back();
    if (seen[number]) continue;
    seen[number] = true;
    const Recipe& recipe = recipes[number];
    switch (recipe.kind) {
      case Recipe::Kind::Output:
      case Recipe::Kind::Array:
      case Recipe::Kind::Scalar:
      case Recipe::Kind::Float:
      case Recipe::Kind::Int:
        return true;
      default:
        break;
    }
    open.insert(open.end(), recipe.parts.begin(), recipe.parts.end());
    open.insert(open.end(), recipe.attributes.begin(), recipe.attributes.end());
  }
  return false;
}

at::Tensor Replay::generatorBefore() const {
  if (!segment_.hazards.risky || !segment_.hazards.drawsTorch) return {};
  std::lock_guard<std::mutex> held(generatorOfTorch().mutex());
  return generatorOfTorch().get_state();
}

bool Replay::takeBack(const at::Tensor& generator) {
  const Hazards& hazards = segment_.hazards;
  std::optional<uint32_t> node = runtime::lastFailure().node;
  // An operator of the user's that gave another size than before has done its work, and is called again.
  const std::optional<uint32_t>& first = runtime::lastFailure().sizes ? hazards.firstWrite : hazards.firstDone;
  // Ahead of time, writes come behind the graph.
  if (first && (node ? *node >= *first : hazards.foreign || hazards.unknown)) return false;
  if (hazards.drawsTorch && !generator.defined()) return false;
  putBackStates();
  putBackHistories();
  if (generator.defined()) {
    std::lock_guard<std::mutex> held(generatorOfTorch().mutex());
    generatorOfTorch().set_state(generator);
  }
  return true;
}

void Replay::doEffectsBefore() {
  const std::vector<DoneAgain>& effects = segment_.effects;
  std::optional<uint32_t> failed = runtime::lastFailure().node;
  size_t count = 0;
  for (const auto& each : segment_.hazards.before) {
    if (failed && each.node <= *failed) count = each.effects;
  }
  KeptError kept;
  const std::vector<at::Tensor> none;
  Kitchen kitchen(segment_.recipes, found_.places, none);
  for (size_t i = 0; i < std::min(count, effects.size()); ++i) {
    if (!effects[i].early && !effects[i].inner && !redo(effects[i], kitchen)) PyErr_Clear();
  }
}

}  // namespace saker::frontend
