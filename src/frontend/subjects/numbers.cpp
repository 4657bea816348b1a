// Floats that change from call to call, or are read from data: what Python computes of them is an expression of the
// graph, and operators take them as arguments.
#include <cmath>
#include <string_view>
#include <unordered_map>

#include "frontend/float_inputs.h"
#include "frontend/kinds.h"
#include "frontend/math_functions.h"
#include "frontend/subjects/subjects.h"
#include "host/objects.h"
#include "watch/loop.h"

namespace saker::frontend {

namespace {

using sym::FloatOp;

std::optional<FloatOp> operatorOf(watch::Binary op) {
  switch (op) {
    case watch::Binary::Add:
      return FloatOp::Add;
    case watch::Binary::Subtract:
      return FloatOp::Sub;
    case watch::Binary::Multiply:
      return FloatOp::Mul;
    case watch::Binary::TrueDivide:
      return FloatOp::Div;
    case watch::Binary::Power:
      return FloatOp::Pow;
    default:
      return std::nullopt;  // Python's own function is called again
  }
}

std::optional<FloatOp> functionOf(PyObject* callable) {
  static const std::unordered_map<std::string, FloatOp> operators = {
      {"add", FloatOp::Add}, {"sub", FloatOp::Sub}, {"mul", FloatOp::Mul}, {"truediv", FloatOp::Div},
      {"pow", FloatOp::Pow}, {"neg", FloatOp::Neg}, {"abs", FloatOp::Abs}};
  static const std::unordered_map<std::string, FloatOp> builtin = {{"abs", FloatOp::Abs}, {"pow", FloatOp::Pow}};
  if (!PyCFunction_Check(callable)) return std::nullopt;
  std::string module = moduleOf(callable);
  if (module == "math") return mathFunctionNamed(nameOf(callable));
  const auto& known = module == "_operator" ? operators : builtin;
  if (&known == &builtin && module != "builtins") return std::nullopt;
  auto found = known.find(nameOf(callable));
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

// Those of torch.optim check what their numbers may be before the first step.
bool inOptimizer() {
  watch::Place place = watch::place();
  if (!place.code) return false;
  std::string_view file = PyUnicode_AsUTF8(place.code->co_filename);
  return file.find("torch/optim/") != std::string_view::npos;
}

bool isConst(const sym::Node* node) { return node->kind == sym::Kind::FloatConst; }

}  // namespace

bool Arrays::isNumber(PyObject* object) const {
  const Array* data = arrayOf(object);
  return data ? data->isFloat : PyFloat_CheckExact(object) || PyLong_CheckExact(object);
}

const sym::Node* Arrays::numberOf(PyObject* object) {
  auto found = arrays_.find(object);
  if (found == arrays_.end()) {
    double value = PyFloat_AsDouble(object);
    if (PyErr_Occurred()) {  // an integer that is too large
      PyErr_Clear();
      return nullptr;
    }
    return tape().context()->symbols().floatConst(value);
  }
  if (!found->second.number) found->second.number = tape().numberIn(found->second.tensor);
  return found->second.number;
}

at::Tensor Arrays::tensorFor(PyObject* object) const {
  Array& array = arrays_.at(object);
  if (!array.tensor.defined()) array.tensor = tape().tensorOf(array.number, PyFloat_AS_DOUBLE(object));
  return array.tensor;
}

Answer Arrays::computes(FloatOp op, const Values& operands) {
  if (tape().spoiled() || operands.size() != sym::arityOf(op)) return std::nullopt;
  for (PyObject* each : operands) {
    if (!isNumber(each)) return std::nullopt;
  }
  std::vector<const sym::Node*> numbers;
  for (PyObject* each : operands) {
    numbers.push_back(numberOf(each));
    if (!numbers.back()) return std::nullopt;
  }
  using Fails = Computed::Fails;
  Fails fails = Fails::Raises;
  if (op == FloatOp::Add || op == FloatOp::Sub || op == FloatOp::Mul || op == FloatOp::Neg || op == FloatOp::Abs ||
      op == FloatOp::Atan || op == FloatOp::Tanh || op == FloatOp::Min || op == FloatOp::Max) {
    fails = Fails::Never;
  } else if (op == FloatOp::Div && isConst(numbers[1])) {
    fails = Fails::Never;           // else it has raised
  } else if (op == FloatOp::Pow) {  // a root of a negative number is complex
    bool positive = isConst(numbers[0]) && numbers[0]->number >= 0;
    bool whole = isConst(numbers[1]) && numbers[1]->number == std::floor(numbers[1]->number);
    if (!positive && !whole) fails = Fails::GivesOther;
  }
  try {
    computed_ = Computed{fails, tape().context()->symbols().floatOp(op, numbers)};
  } catch (const std::exception&) {
    return std::nullopt;  // too large an expression
  }
  return true;
}

Answer Arrays::computesBinary(watch::Binary op, PyObject* left, PyObject* right) {
  std::optional<FloatOp> known = operatorOf(op);
  return known ? computes(*known, {left, right}) : std::nullopt;
}

Answer Arrays::computesBy(PyObject* callable, const Values& args) {
  std::optional<FloatOp> known = functionOf(callable);
  return known ? computes(*known, args) : std::nullopt;
}

void Arrays::computed(PyObject* result) {
  Computed done = *std::exchange(computed_, std::nullopt);
  if (!PyFloat_CheckExact(result)) {
    tape().spoil({Why::ArrayGives, Py_TYPE(result)->tp_name});
    return check();
  }
  keep(Ref::borrow(result));
  arrays_.emplace(result, Array{{}, true, false, true, done.number});
  if (done.fails == Computed::Fails::Never || isConst(done.number)) return;
  bool other = done.fails == Computed::Fails::GivesOther && !inOptimizer();
  if (other && tape().risk().firstDone) tape().spoil({Why::MayFail, "a power of a number that changes"});
  tape().mayRaise(done.number);
  check();
}

// Containers, views and iterators of C: what they visit is what they hold.
static bool visitsItems(PyObject* object) {
  PyTypeObject* type = nativeBase(Py_TYPE(object));
  if (PyTuple_Check(object) || PyList_Check(object) || PyDict_Check(object) || PyAnySet_Check(object)) return true;
  if (type == &PyDictValues_Type || type == &PyDictItems_Type || type == &PyDictProxy_Type ||
      type == &PyODictValues_Type || type == &PyODictItems_Type) {
    return true;
  }
  return isDeque(object) || (type->tp_iternext && type != &PyGen_Type && type != &PyCoro_Type);
}

bool Arrays::holdsBehind(PyObject* object, int depth) const {
  constexpr int kDeepest = 4;
  if (arrays_.contains(object)) return true;
  traverseproc traverse = depth < kDeepest && visitsItems(object) ? nativeBase(Py_TYPE(object))->tp_traverse : nullptr;
  if (!traverse) return false;
  struct Search {
    const Arrays& arrays;
    int depth;
  } search{*this, depth + 1};
  auto visit = [](PyObject* part, void* given) {
    auto& in = *static_cast<Search*>(given);
    return in.arrays.holdsBehind(part, in.depth) ? 1 : 0;
  };
  return traverse(object, visit, &search) != 0;
}

// These give the objects themselves on, and ask them nothing.
static bool givesObjectsOn(PyObject* callable) {
  if (!PyType_Check(callable) && !PyCFunction_Check(callable)) return true;  // entered, or a method
  std::string name = PyType_Check(callable) ? reinterpret_cast<PyTypeObject*>(callable)->tp_name : nameOf(callable);
  for (const char* each : {"list", "tuple", "dict", "zip", "enumerate", "iter", "next", "reversed", "collections.deque",
                           "collections.OrderedDict", "itertools.chain", "itertools.islice", "itertools.cycle",
                           "itertools.repeat", "itertools.zip_longest", "itertools.product", "reduce", "len"}) {
    if (name == each) return true;
  }
  return false;
}

bool Arrays::givesElementsOn(PyObject* callable) {
  for (PyTypeObject* each : {&PyZip_Type, &PyEnum_Type, &PyReversed_Type, &PyList_Type, &PyTuple_Type}) {
    if (reinterpret_cast<PyObject*>(each) == callable) return true;
  }
  return false;
}

// Floats among what a generator goes through: any() and all() would ask for their truth, and tell nothing of it.
static bool goesThroughFloats(PyObject* object, int depth = 0) {
  constexpr int kDeepest = 3;  // its iterator, the container of that, an element
  if (PyFloat_CheckExact(object)) return true;
  bool visits = depth < kDeepest && (PyGen_CheckExact(object) || visitsItems(object));
  traverseproc traverse = visits ? nativeBase(Py_TYPE(object))->tp_traverse : nullptr;
  if (!traverse) return false;
  int next = depth + 1;
  auto visit = [](PyObject* part, void* given) { return goesThroughFloats(part, *static_cast<int*>(given)) ? 1 : 0; };
  return traverse(object, visit, &next) != 0;
}

bool Arrays::takesUnseen(PyObject* callable, const Values& args) {
  if (!FloatInputs::current() || givesObjectsOn(callable)) return false;
  for (PyObject* arg : args) {
    if (!arrays_.empty() && visitsItems(arg) && holdsBehind(arg)) return true;
    // What it will give is not known yet.
    bool later = PyGen_CheckExact(arg) || Py_IS_TYPE(arg, &PyMap_Type) || Py_IS_TYPE(arg, &PyFilter_Type);
    bool truth = later && PyCFunction_Check(callable) && (nameOf(callable) == "any" || nameOf(callable) == "all");
    if (truth && goesThroughFloats(arg)) return true;
    if (later && (consuming_.empty() || consuming_.back() != callable)) consuming_.push_back(callable);
  }
  return false;
}

// A float, or floats, that a function of C has made of what a generator gave it.
void Arrays::consumed(PyObject* callable, PyObject* result) {
  if (consuming_.empty() || consuming_.back() != callable) return;
  consuming_.pop_back();
  bool floats = result && PyFloat_Check(result);
  for (Py_ssize_t i = 0; result && PyList_CheckExact(result) && i < PyList_GET_SIZE(result); ++i) {
    floats |= PyFloat_Check(PyList_GET_ITEM(result, i));
  }
  if (floats) tape().spoil({Why::ArrayGives, Py_TYPE(result)->tp_name});
}

bool Arrays::onlyFloats(const Values& args) const {
  for (PyObject* arg : args) {
    if (const Array* data = arrayOf(arg)) {
      if (!data->isFloat) return false;
    } else if (holdsArrays(arg)) {
      if (!PyList_CheckExact(arg) && !PyTuple_CheckExact(arg)) return false;
      for (Py_ssize_t i = 0; i < Py_SIZE(arg); ++i) {
        if (!isNumber(PySequence_Fast_ITEMS(arg)[i])) return false;
      }
    }
  }
  return true;
}

bool Arrays::expectsNumbers(std::string function, const Values& args) {
  std::vector<tracing::Tape::GivenNumber> given;
  for (PyObject* arg : args) {
    if (const Array* data = arrayOf(arg)) {
      given.push_back({{PyFloat_AS_DOUBLE(arg)}, {data->number}, data->number ? at::Tensor() : data->tensor});
    } else if (holdsArrays(arg)) {
      tracing::Tape::GivenNumber list;
      list.list = true;
      for (Py_ssize_t i = 0; i < Py_SIZE(arg); ++i) {
        PyObject* item = PySequence_Fast_ITEMS(arg)[i];
        list.values.push_back(PyFloat_AsDouble(item));
        list.numbers.push_back(arrayOf(item) ? numberOf(item) : nullptr);
      }
      PyErr_Clear();
      given.push_back(std::move(list));
    }
  }
  tape().expectNumbers(std::move(function), std::move(given));
  return expectsNumbers_ = true;
}

bool Arrays::asksItem(PyObject* callable, const Values& args) {
  if (speculative() || tape().spoiled()) return false;
  bool bound = PyCFunction_Check(callable);
  if (!bound && !Py_IS_TYPE(callable, &PyMethodDescr_Type)) return false;
  PyObject* self = bound ? PyCFunction_GET_SELF(callable) : args.empty() ? nullptr : args[0];
  if (args.size() != (bound ? 0u : 1u) || !self || Py_TYPE(self) != tensorClass() || nameOf(callable) != "item") {
    return false;
  }
  tape().permitItem();
  return true;
}

}  // namespace saker::frontend
