// Floats that change, and numbers that are computed of them, where they decide what the program does: a guard asks the
// same question before each replay.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "frontend/float_inputs.h"
#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"
#include "host/objects.h"

namespace saker::frontend {

bool Arrays::isLoaded(uint32_t place) const {
  if (place == kInside) return false;
  const std::vector<GuardInstruction>& all = guards().instructions;
  return std::any_of(all.begin(), all.end(),
                     [&](const GuardInstruction& at) { return at.place == place && at.op <= GuardOp::ContextValue; });
}

bool Arrays::decides(int op, PyObject* left, PyObject* right) {
  return decidesFound(op, left, right) || decidesComputed(op, left, right);
}

bool Arrays::decidesFound(int op, PyObject* left, PyObject* right) {
  const Array* data = arrayOf(left);
  PyObject *number = data ? left : right, *other = data ? right : left;
  if (!data) data = arrayOf(right);
  bool constant = !arrayOf(other) && (PyFloat_CheckExact(other) || PyLong_CheckExact(other));
  if (!data->isFloat || !constant) return false;
  uint32_t place = data->tensor.defined() ? provenance().placeOfTensor(data->tensor) : kInside;
  if (!isLoaded(place)) return false;  // drawn, or computed
  int asked = number == left ? op : swappedComparison(op);
  int answer = PyObject_RichCompareBool(number, other, asked);
  checkIs(GuardOp::Compares, place, other, asked | (answer == 1 ? 8 : 0));
  return answer >= 0;
}

namespace {

// The next choice gives a float of its own: the graph has another number for it than for what it is chosen from.
thread_local bool givesOwn = false;

template <bool least>
PyObject* choose(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  bool own = std::exchange(givesOwn, false);
  Ref chosen = Ref::steal(PyObject_Vectorcall(self, args, static_cast<size_t>(count), names));
  bool copies = own && chosen && PyFloat_CheckExact(chosen.get());
  return copies ? PyFloat_FromDouble(PyFloat_AS_DOUBLE(chosen.get())) : chosen.release();
}

struct Choice {
  const char* name;
  PyMethodDef method;
  PyObject* original = nullptr;
  PyObject* function = nullptr;
};

std::array<Choice, 2>& choices() {
  auto plain = [](PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*)) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
  };
  static std::array<Choice, 2> all = {
      {{"min", {"min", plain(&choose<true>), METH_FASTCALL | METH_KEYWORDS, nullptr}},
       {"max", {"max", plain(&choose<false>), METH_FASTCALL | METH_KEYWORDS, nullptr}}}};
  for (Choice& each : all) {
    if (each.function) continue;
    each.original = Py_NewRef(PyDict_GetItemString(PyEval_GetBuiltins(), each.name));
    each.function = PyCFunction_New(&each.method, each.original);
  }
  return all;
}

}  // namespace

PyObject* Arrays::insteadOf(PyObject* callable) const {
  if (arrays_.empty() || !PyCFunction_Check(callable)) return nullptr;
  for (const Choice& each : choices()) {
    if (each.original == callable) return each.function;
  }
  return nullptr;
}

PyObject* Arrays::standsFor(PyObject* callable) {
  if (!PyCFunction_Check(callable)) return nullptr;
  for (const Choice& each : choices()) {
    if (each.function == callable) return each.original;
  }
  return nullptr;
}

bool Arrays::chooses(int op, PyObject* first, PyObject* second) {
  givesOwn = false;
  if (decidesFound(op, second, first)) return true;
  auto isFloat = [&](PyObject* each) { return arrayOf(each) ? arrayOf(each)->isFloat : PyFloat_CheckExact(each); };
  if (!speculative() && isFloat(first) && isFloat(second)) {
    Answer computed = computes(op == Py_LT ? sym::FloatOp::Min : sym::FloatOp::Max, {first, second});
    givesOwn = computed.value_or(false);
    if (givesOwn) return true;
  }
  return decidesComputed(op, second, first);
}

bool Arrays::addLeaves(NumberGuard& guard, const sym::Node* expression) {
  if (expression->isSymbol()) {
    std::optional<tracing::Tape::ItemSource> source = tape().sourceOfItem(expression);
    uint32_t place = source ? provenance().placeOfTensor(source->tensor) : kInside;
    if (!isLoaded(place)) return false;  // drawn, or computed
    guard.addLeaf(place, expression, std::move(source->added));
    return true;
  }
  std::span<const sym::Node* const> parts = expression->args();
  return std::all_of(parts.begin(), parts.end(), [&](const sym::Node* part) { return addLeaves(guard, part); });
}

void Arrays::addGuard(NumberGuard guard) {
  guards().numbers.push_back(std::move(guard));
  const NumberGuard& added = guards().numbers.back();
  checkIs(GuardOp::Computes, added.leaves()[0].place, nullptr, static_cast<int64_t>(guards().numbers.size() - 1));
}

bool Arrays::decidesComputed(int op, PyObject* left, PyObject* right) {
  if (speculative() || tape().spoiled()) return false;
  constexpr double kExact = 9007199254740992.0;  // integers up to here are numbers of 64 bits, too
  for (PyObject* each : {left, right}) {
    const Array* data = arrayOf(each);
    if (data ? !data->isFloat : !PyFloat_CheckExact(each) && !PyLong_CheckExact(each)) return false;
    if (data || PyFloat_CheckExact(each)) continue;
    double whole = PyLong_AsDouble(each);
    if (PyErr_Occurred()) PyErr_Clear(), whole = kExact;
    if (std::fabs(whole) >= kExact) return false;
  }
  const sym::Node *a = numberOf(left), *b = numberOf(right);
  if (!a || !b) return false;
  if (decided_.contains({a, op, b})) return true;
  NumberGuard guard(tape().context());
  if (!addLeaves(guard, a) || !addLeaves(guard, b) || guard.leaves().empty()) return false;
  int answer = PyObject_RichCompareBool(left, right, op);
  if (answer < 0) return false;
  uint32_t first = guard.add(a), second = guard.add(b);
  guard.compares(first, op, second, answer == 1);
  addGuard(std::move(guard));
  decided_.insert({a, op, b});
  return true;
}

// PyTorch's functions read a tensor that is given where they take a number, before they call the operator.
void Arrays::mayReadNumbers(PyObject* callable, const Values& args) {
  if (speculative() || tape().spoiled()) return;
  std::vector<at::Tensor> maybe;
  for (size_t i = 1; i < args.size(); ++i) {
    if (!isTensor(args[i])) continue;
    const at::Tensor& tensor = tensorOf(args[i]);
    if (tensor.dim() == 0 && tensor.is_floating_point() && !tensor.requires_grad()) maybe.push_back(tensor);
  }
  if (maybe.empty()) return;
  tape().expectReads(nameOf(callable), maybe);
  expectEnd();
  expectsNumbers_ = true;
}

}  // namespace saker::frontend
