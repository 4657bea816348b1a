#include <algorithm>

#include "aten/trace_key.h"
#include "frontend/host_call.h"
#include "frontend/kinds.h"
#include "frontend/numpy.h"
#include "frontend/subjects/subjects.h"
#include "host/objects.h"
#include "watch/once.h"

namespace saker::frontend {

namespace {

PyObject* operatorNamed(const char* name) { return watch::importedAttribute("operator", name); }

// By watch::Binary; those in place after the plain ones.
PyObject* operatorOf(watch::Binary op, bool inplace) {
  static const char* const names[] = {"add", "and_", "floordiv", "lshift", "matmul",  "mul", "mod",
                                      "or_", "pow",  "rshift",   "sub",    "truediv", "xor"};
  static const char* const inplaceNames[] = {"iadd", "iand", "ifloordiv", "ilshift", "imatmul",  "imul", "imod",
                                             "ior",  "ipow", "irshift",   "isub",    "itruediv", "ixor"};
  return operatorNamed((inplace ? inplaceNames : names)[static_cast<size_t>(op)]);
}

bool isOneOf(PyObject* name, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const char* each) { return PyUnicode_CompareWithASCIIString(name, each) == 0; });
}

// Builtin functions that ask their arguments to compute.
bool isArithmetic(PyObject* callable) {
  if (!PyCFunction_Check(callable)) return false;
  std::string name = nameOf(callable);
  std::string module = moduleOf(callable);
  return name == "abs" || name == "pow" || name == "divmod" || module == "math" ||
         (module == "_operator" && name != "contains" && name != "truth" && name != "not_" && name != "index");
}

// What min() and max() ask of their second argument and the first one, to give one of the two.
std::optional<int> choiceOf(PyObject* callable) {
  if (!PyCFunction_Check(callable) || moduleOf(callable) != "builtins") return std::nullopt;
  std::string name = nameOf(callable);
  return name == "min" ? std::optional(Py_LT) : name == "max" ? std::optional(Py_GT) : std::nullopt;
}

// Functions of PyTorch's that turn arrays into tensors or tensors into arrays.
bool converts(PyObject* callable, const Values& args, bool holds) {
  if (!PyCFunction_Check(callable) && !Py_IS_TYPE(callable, &PyMethodDescr_Type)) return false;
  std::string name = nameOf(callable);
  if (name == "numpy") return !args.empty() && isTensor(args[0]);
  return holds && (name == "from_numpy" || name == "as_tensor" || name == "asarray" || name == "tensor");
}

}  // namespace

bool Arrays::holdsArrays(PyObject* object, int depth) const {
  if (arrays_.contains(object)) return true;
  if (depth > 3) return false;
  if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    return arrays_.contains(slice->start) || arrays_.contains(slice->stop) || arrays_.contains(slice->step);
  }
  if (PyAnySet_Check(object)) {
    Py_ssize_t position = 0;
    PyObject* element = nullptr;
    Py_hash_t hash = 0;
    while (_PySet_NextEntry(object, &position, &element, &hash)) {
      if (arrays_.contains(element)) return true;
    }
    return false;
  }
  if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object)) return false;
  for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i) {
    if (holdsArrays(PySequence_Fast_ITEMS(object)[i], depth + 1)) return true;
  }
  return false;
}

bool Arrays::findsByData(PyObject* key) {
  if (arrays_.empty() || !holdsArrays(key)) return false;
  stop(Why::FindsByData);
  return true;
}

void Arrays::foundArray(uint32_t place, PyObject* object) {
  std::optional<at::Tensor> tensor = leafTensor(object);
  if (!tensor) return;
  guards().tensors.emplace_back(*tensor);
  checkIs(GuardOp::Array, place, nullptr, static_cast<int64_t>(guards().tensors.size() - 1));
  provenance().settle(*tensor, place);
  bool scalar = numpy::isScalar(object);
  if (scalar) tape().meet(*tensor);
  arrays_.emplace(object, Array{*tensor, scalar, !scalar && !numpy::isWriteable(object)});
}

std::optional<HostPart> Arrays::hostPart(PyObject* object, std::vector<at::Tensor>& tensors, bool asIs) {
  using Kind = HostPart::Kind;
  auto number = static_cast<uint32_t>(tensors.size());
  if (auto found = arrays_.find(object); found != arrays_.end()) {
    tensors.push_back(tensorFor(object));
    const Array& array = found->second;
    Kind kind = array.isFloat ? Kind::Float : array.scalar ? Kind::Scalar : Kind::Array;
    HostPart part{kind, {}, number, {}};
    if (kind == Kind::Scalar) part.dtype = array.tensor.scalar_type();
    return part;
  }
  if (isTensor(object)) {
    tensors.push_back(tensorOf(object));
    return HostPart{Kind::Tensor, {}, number, {}};
  }
  if (isAtom(object) || named(object)) return HostPart{Kind::Constant, Ref::borrow(object), 0, {}};
  if (Py_IS_TYPE(object, sizeClass()) && realize(object, true)) {
    return HostPart{Kind::Constant, Ref::borrow(object), 0, {}};
  }
  HostPart made{Kind::Tuple, {}, 0, {}};
  if (PySlice_Check(object)) {
    made.kind = Kind::Slice;
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    for (PyObject* end : {slice->start, slice->stop, slice->step}) {
      std::optional<HostPart> part = hostPart(end, tensors, asIs);
      if (!part) return std::nullopt;
      made.parts.push_back(std::move(*part));
    }
    return made;
  }
  if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object)) {
    if (asIs && placeOf(object) != kInside) {
      pin(object);
      return HostPart{Kind::Constant, Ref::borrow(object), 0, {}};
    }
    stop({Why::GivesAsIs, Py_TYPE(object)->tp_name});
    return std::nullopt;
  }
  uint32_t place = placeOf(object);
  if (place != kInside) realizeOnce(object, place);
  if (place != kInside && isKept(object)) return keptList(object);
  if (isKept(object)) given_.emplace_back(Ref::borrow(object), Ref::steal(PyList_AsTuple(object)));
  made.kind = PyList_CheckExact(object) ? Kind::List : Kind::Tuple;
  for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i) {
    std::optional<HostPart> part = hostPart(PySequence_Fast_ITEMS(object)[i], tensors, asIs);
    if (!part) return std::nullopt;
    made.parts.push_back(std::move(*part));
  }
  return made;
}

// One from outside is given itself.
std::optional<HostPart> Arrays::keptList(PyObject* list) {
  std::vector<at::Tensor> tensors;
  bool keeps = std::exchange(keeps_, false);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    if (!hostPart(PyList_GET_ITEM(list, i), tensors, /*asIs=*/true)) return std::nullopt;
  }
  keeps_ = keeps;
  if (!tensors.empty()) {
    stop(Why::GivesList);
    return std::nullopt;
  }
  pin(list);
  return HostPart{HostPart::Kind::Constant, Ref::borrow(list), 0, {}};
}

bool Arrays::hosts(PyObject* callable, const Values& args, PyObject* names, bool asIs) {
  if (speculative()) return stop(Why::AttemptNumpy);
  auto call = c10::make_intrusive<HostCall>();
  call->callable = Ref::borrow(callable);
  call->names = Ref::borrow(names);
  call->repeatable = numpy::isRepeatable(callable, names);
  expectEnd();
  hosted_.emplace();
  bool random = numpy::draws(callable);
  if (PyObject* generator = numpy::boundGenerator(callable)) pin(generator);
  for (size_t i = 0; i < args.size(); ++i) {
    if (i == 0 && random && !isAtom(args[0]) && !arrays_.contains(args[0])) {  // a generator of numbers
      call->arguments.push_back({HostPart::Kind::Constant, Ref::borrow(args[0]), 0, {}});
      pin(args[0]);
      continue;
    }
    std::optional<HostPart> part = hostPart(args[i], hosted_->tensors, asIs);
    if (!part) {
      hosted_.reset();
      return false;
    }
    call->arguments.push_back(std::move(*part));
  }
  hosted_->call = std::move(call);
  return true;
}

// Code of the user's runs among the operators of a replay, and effects come after these, unless they need no result and
// no operator before them may fail: then they come first.
bool Arrays::doesEffectsFirst() {
  auto comes = [&](const Ref& argument) {
    PyObject* object = argument.get();
    if (arrayOf(object)) return false;  // a number that is data
    return isAtom(object) || isNamed(object) || placeOf(object) != kInside;
  };
  for (Effect& each : effects().list()) {
    if (each.early || each.hook) continue;
    if (tape().risk().any || !std::all_of(each.arguments.begin(), each.arguments.end(), comes)) return false;
  }
  for (Effect& each : effects().list()) each.early |= !each.hook;
  return true;
}

bool Arrays::hostsUserCode(PyObject* callable, const Values& args, PyObject* names, bool keeps) {
  if (!doesEffectsFirst()) return stop(Why::WrapperAfterEffects);
  keeps_ = keeps;
  bool begun = hosts(callable, args, names, /*asIs=*/true);
  keeps_ = false;
  if (!begun) return false;
  hosting()->wraps = true;
  hosting()->repeatable = false;
  return true;
}

Answer Arrays::calls(PyObject* callable, const Values& given, PyObject* names) {
  item_ = asksItem(callable, given);
  // Most calls: nothing is an array, and the table has no function of numpy's.
  Behaviour known = operations().ofCall(callable);
  if (known == Behaviour::Tensor) mayReadNumbers(callable, given);
  if (arrays_.empty() && known != Behaviour::Unknown) return std::nullopt;
  Values args = given;
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  bool bound = self && (isTensor(self) || numpy::isArray(self) || numpy::isScalar(self));
  if (bound) args.insert(args.begin(), self);
  bool holds = std::any_of(args.begin(), args.end(), [&](PyObject* arg) { return holdsArrays(arg); });
  if (Answer computed = holds ? computesBy(callable, args) : std::nullopt) return *computed;
  bool isNumpy = numpy::isFunction(callable) || (holds && isArithmetic(callable));
  bool converting = converts(callable, args, holds);
  if (!isNumpy && !holds && !converting) return std::nullopt;
  std::optional<int> asked = holds && args.size() == 2 && !names ? choiceOf(callable) : std::nullopt;
  if (asked && (arrayOf(args[0]) || arrayOf(args[1])) && chooses(*asked, args[0], args[1])) return true;
  const Array* alone = args.size() == 1 ? arrayOf(args[0]) : nullptr;
  if (reinterpret_cast<PyObject*>(&PyFloat_Type) == callable && alone) {
    if (alone->isFloat) return true;  // the same object
    if (!hosts(callable, args, names)) return false;
    hosted_->call->repeatable = true;
    return true;
  }
  if (!isNumpy && !converting) {
    Behaviour behaviour = known;
    auto number = std::find_if(args.begin(), args.end(), [&](PyObject* arg) { return arrayOf(arg); });
    bool one = number != args.end() && arrayOf(*number)->scalar &&
               std::none_of(number + 1, args.end(), [&](PyObject* arg) { return holdsArrays(arg); });
    if (behaviour == Behaviour::Tensor && onlyFloats(args)) {
      expectsNumbers(nameOf(callable), args);
      mayReadNumbers(callable, given);
      return true;
    }
    if (behaviour == Behaviour::Tensor && one) return expects(*arrayOf(*number));
    bool looks = behaviour == Behaviour::Shallow || behaviour == Behaviour::Identity ||
                 behaviour == Behaviour::Mutates || behaviour == Behaviour::Length || behaviour == Behaviour::Belongs ||
                 behaviour == Behaviour::OfClass || behaviour == Behaviour::Callable;
    if (PyFunction_Check(callable) || looks || PyType_Check(callable)) return std::nullopt;
    if (!PyCFunction_Check(callable) && !Py_IS_TYPE(callable, &PyMethodDescr_Type)) return std::nullopt;
    return stop({Why::ArrayTo, Operations::name(callable)});
  }
  if (PyType_Check(callable) && !holds) {
    for (PyObject* arg : args) {
      if (!realize(arg, true)) return false;
    }
    return true;  // a number or a dtype made of constants
  }
  if (numpy::tellsGeometry(callable)) return true;
  if (bound) {
    Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
    Ref unbound = name ? Ref::steal(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(self)), name.get())) : Ref();
    if (!unbound) {
      PyErr_Clear();
      return stop(unknownCall(callable));
    }
    if (!hosts(unbound.get(), args, names)) return false;
  } else if (!hosts(callable, args, names)) {
    return false;
  }
  hide(calling());
  return true;
}

void Arrays::hosted(PyObject* result) {
  Hosted done = std::move(*hosted_);
  hosted_.reset();
  // A number that a pure function makes of constants is a constant. One that is not finite comes with a warning.
  if (done.tensors.empty() && done.call->repeatable && numpy::isFiniteScalar(result)) return check();
  std::vector<PyObject*> leaves;
  bool known = done.call->sets || eachLeaf(result, [&](PyObject* leaf) {
                 std::optional<at::Tensor> tensor = leafTensor(leaf);
                 if (!tensor) return false;
                 leaves.push_back(leaf);
                 done.call->given.push_back(*tensor);
                 done.call->shapes.emplace_back(*tensor);
                 return true;
               });
  if (!known) {
    tape().spoil({Why::ArrayGives, Py_TYPE(result)->tp_name});
    return check();
  }
  std::vector<at::Tensor> tensors = done.call->given;
  callHost(done.call, done.tensors);
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (isTensor(leaves[i])) continue;
    keep(Ref::borrow(leaves[i]));
    bool isFloat = PyFloat_CheckExact(leaves[i]), scalar = isFloat || numpy::isScalar(leaves[i]);
    arrays_.emplace(leaves[i], Array{tensors[i], scalar, !scalar && !numpy::isWriteable(leaves[i]), isFloat});
  }
  check();
}

Answer Arrays::readsAttribute(PyObject* owner, PyObject* name) {
  if (!arrays_.contains(owner)) {
    return isNumpyConstant(owner) ? Answer(true) : std::nullopt;  // these never change
  }
  if (isOneOf(name, {"shape", "ndim", "size", "dtype", "itemsize", "strides", "nbytes", "__class__"})) return true;
  if (isOneOf(name, {"T", "real", "imag", "mT"})) {
    static PyObject* const getAttribute = PyDict_GetItemString(PyEval_GetBuiltins(), "getattr");
    return hosts(getAttribute, {owner, name}, nullptr);
  }
  PyObject* found = _PyType_Lookup(Py_TYPE(owner), name);
  if (found && Py_IS_TYPE(found, &PyMethodDescr_Type)) return true;
  const char* text = PyUnicode_AsUTF8(name);
  return stop({Why::ArrayAttribute, (text ? text : "?")});
}

// The operator that C code calls for tensors.
static std::string tensorOperator(watch::Binary op, bool inplace) {
  static const char* const names[] = {"add", "bitwise_and", "floor_divide", "__lshift__", "matmul",
                                      "mul", "remainder",   "bitwise_or",   "pow",        "__rshift__",
                                      "sub", "div",         "bitwise_xor"};
  return std::string(names[static_cast<size_t>(op)]) + (inplace ? "_" : "");
}

Answer Arrays::meets(watch::Binary op, bool inplace, PyObject* left, PyObject* right) {
  PyObject* number = isTensor(left) ? right : left;
  const Array* data = arrayOf(number);
  if (isTensor(left) == isTensor(right) || !data || !data->scalar) return std::nullopt;
  if (data->isFloat) {
    bool inC = isTensor(left) ? op != watch::Binary::Power && op != watch::Binary::FloorDivide
                              : op == watch::Binary::Add || op == watch::Binary::Multiply;
    // PyTorch's Python code answers the others, by calls that are told.
    return inC ? expectsNumbers(tensorOperator(op, inplace && isTensor(left)), {number}) : true;
  }
  if (!isTensor(left)) return std::nullopt;  // NumPy's own operator comes first
  return expects(*data);
}

bool Arrays::expects(const Array& data) {
  aten::RunForReal real;
  at::Scalar value = data.tensor.item();
  if (value.isFloatingPoint()) value = at::Scalar(value.toDouble());
  tape().expect(value, data.tensor);
  expectEnd();
  return expects_ = true;
}

Answer Arrays::binary(watch::Binary op, bool inplace, PyObject* left, PyObject* right) {
  if (!arrays_.contains(left) && !arrays_.contains(right)) return std::nullopt;
  if (Answer known = meets(op, inplace, left, right)) return *known;
  if (Answer known = computesBinary(op, left, right)) return *known;
  if (isTensor(left) || isTensor(right)) return stop(Why::ArrayAndTensor);
  Ref function = Ref::steal(operatorOf(op, inplace));
  return hosts(function.get(), {left, right}, nullptr);
}

Answer Arrays::unary(watch::Unary op, PyObject* operand) {
  if (!arrays_.contains(operand)) return std::nullopt;
  if (op == watch::Unary::Truth || op == watch::Unary::Not) {
    static PyObject* const zero = PyFloat_FromDouble(0);
    return decides(Py_NE, operand, zero) ? true : stop(Why::ArrayTruth);
  }
  if (op == watch::Unary::Positive && arrayOf(operand)->isFloat) return true;  // the same object
  if (Answer known = op == watch::Unary::Negative ? computes(sym::FloatOp::Neg, {operand}) : std::nullopt)
    return *known;
  const char* name = op == watch::Unary::Negative ? "neg" : op == watch::Unary::Positive ? "pos" : "invert";
  Ref function = Ref::steal(operatorNamed(name));
  return hosts(function.get(), {operand}, nullptr);
}

Answer Arrays::compares(int op, PyObject* left, PyObject* right) {
  if (!arrays_.contains(left) && !arrays_.contains(right)) return std::nullopt;
  if (decides(op, left, right)) return true;
  static const char* const names[] = {"lt", "le", "eq", "ne", "gt", "ge"};
  PyObject* number = isTensor(left) ? right : left;
  const Array* met = isTensor(left) != isTensor(right) ? arrayOf(number) : nullptr;
  if (met && met->isFloat) return expectsNumbers(names[isTensor(left) ? op : swappedComparison(op)], {number});
  for (PyObject* each : {left, right}) {
    if (const Array* data = arrayOf(each); data && data->isFloat) return stop(Why::ComparesData);
  }
  if (isTensor(left) || isTensor(right)) return stop(Why::ArrayAgainstTensor);
  Ref function = Ref::steal(operatorNamed(names[op]));
  return hosts(function.get(), {left, right}, nullptr);
}

Answer Arrays::item(PyObject* array, PyObject* key, PyObject* value, bool writes) {
  if (!arrays_.contains(array)) {
    if (writes ? value && holdsArrays(value) && isTensor(array) : false) return stop(Why::ArrayIntoTensor);
    return std::nullopt;
  }
  Ref function = Ref::steal(operatorNamed(!writes ? "getitem" : value ? "setitem" : "delitem"));
  if (!writes) return hosts(function.get(), {array, key}, nullptr);
  if (!value || !hosts(function.get(), {array, key, value}, nullptr)) return false;
  hosted(Py_None);  // written down before it is done: the order is what counts
  return !stopped();
}

void Arrays::took() {
  if (std::exchange(expects_, false) && !tape().took()) tape().spoil(Why::UsesData);
  if (std::exchange(expectsNumbers_, false) && !tape().tookNumbers()) tape().spoil(Why::UsesData);
}

bool Arrays::called(PyObject* callable, PyObject* result, bool) {
  consumed(callable, result);
  if (hosted_) {
    hosted(result);
    return true;
  }
  if (computed_) {
    computed(result);
    return true;
  }
  if (const sym::Node* number = std::exchange(item_, false) ? tape().takeItem() : nullptr) {
    keep(Ref::borrow(result));
    arrays_.emplace(result, Array{{}, true, false, true, number});
  }
  took();
  return false;
}

void Arrays::found(uint32_t place, PyObject* object) {
  if (numpy::isArray(object)) foundArray(place, object);
}

void Arrays::goesOn() {
  if (std::exchange(hosted_, std::nullopt)) tape().spoil(Why::ArrayCallFailed);
  if (std::exchange(expects_, false)) tape().spoil(Why::DataOperatorFailed);
  bool gaveNumbers = tape().givesNumbers();
  if (std::exchange(expectsNumbers_, false) && (!tape().tookNumbers() || gaveNumbers)) {
    tape().spoil(Why::DataOperatorFailed);
  }
  if (std::exchange(computed_, std::nullopt)) tape().spoil(Why::DataOperatorFailed);
  if (std::exchange(item_, false)) tape().takeItem();  // nobody has it
}

std::optional<Stop> Arrays::seal() {
  if (hosted_) return Why::ArrayCallFailed;
  for (const auto& [list, before] : given_) {
    bool same = PyList_GET_SIZE(list.get()) == PyTuple_GET_SIZE(before.get());
    for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE(before.get()); ++i) {
      same = PyList_GET_ITEM(list.get(), i) == PyTuple_GET_ITEM(before.get(), i);
    }
    if (!same) return Why::ChangesGivenList;
  }
  return std::nullopt;
}

}  // namespace saker::frontend
