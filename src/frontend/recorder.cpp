
#include "frontend/recorder.h"

#include <algorithm>

#include "frontend/aside.h"
#include "frontend/compiling_question.h"
#include "frontend/float_inputs.h"
#include "frontend/kinds.h"
#include "frontend/log.h"
#include "frontend/numpy.h"
#include "frontend/subjects/subjects.h"
#include "frontend/symbol_doors.h"
#include "frontend/wrapped.h"
#include "host/kept_error.h"
#include "host/objects.h"
#include "host/symbol_watch.h"
#include "watch/loop.h"
#include "watch/once.h"

namespace saker::frontend {

namespace {

std::string textOf(PyObject* unicode) {
  const char* data = unicode ? PyUnicode_AsUTF8(unicode) : nullptr;
  if (!data) PyErr_Clear();
  return data ? data : "?";
}

}  // namespace

Recorder::Recorder(tracing::Tape& tape, PyObject* callable, const CallArguments& call, bool raising,
                   std::span<const StandIn> standIns, bool scalarsAreData, const Doubles* doubles)
    : tape_(tape),
      operations_(Operations::table()),
      provenance_(tape),
      subjects_(std::make_unique<Subjects>(*this)),
      raising_(raising),
      speculative_(!standIns.empty()),
      doubles_(doubles),
      scalarsAreData_(scalarsAreData) {
  for (const StandIn& each : standIns) standIns_.emplace(each.given.get(), &each);
  guards().positional = call.positional;
  guards().names = namesOf(callable);
  handled_ = Ref::steal(PyErr_GetHandledException());
  if (handled_.get() == Py_None) handled_ = Ref();
  fixed(callable);
  if (PyMethod_Check(callable)) {
    fixed(PyMethod_GET_SELF(callable));
  }
  for (size_t i = 0; i < call.positional; ++i) {
    read(GuardOp::Positional, kInside, nullptr, static_cast<int64_t>(i), call.values[i]);
  }
  size_t named = call.names ? static_cast<size_t>(PyTuple_GET_SIZE(call.names)) : 0;
  for (size_t i = 0; i < named; ++i) {
    PyObject* name = PyTuple_GET_ITEM(call.names, static_cast<Py_ssize_t>(i));
    guards().keywords.push_back(Ref::borrow(name));
    read(GuardOp::Keyword, kInside, name, static_cast<int64_t>(i), call.values[call.positional + i]);
  }
  subjects_->flags.meetModes();
  // Tensors that were two stay two: sets and `is` tell them apart, and in-place writes.
  constexpr size_t kMost = 16;
  if (call.positional + named > kMost) return;
  for (size_t i = 0; i < call.positional + named; ++i) {
    if (isTensor(call.values[i])) provenance_.distinguish(call.values[i]);
  }
}

Recorder::~Recorder() { effects_.undo(); }

void Recorder::meetFrame(std::span<PyObject* const> names, std::span<PyObject* const> locals,
                         std::span<PyObject* const> stack) {
  for (size_t i = 0; i < locals.size(); ++i) {
    auto slot = static_cast<int64_t>(i);
    if (locals[i]) {
      read(GuardOp::FrameLocal, kInside, names[i], slot, locals[i]);
    } else {
      provenance_.load(GuardOp::FrameUnbound, kInside, names[i], slot, nullptr);
    }
  }
  for (size_t i = 0; i < stack.size(); ++i) {
    read(GuardOp::FrameStack, kInside, nullptr, static_cast<int64_t>(i), stack[i]);
  }
}

// --- places ---

uint32_t Recorder::fixed(PyObject* object) {
  if (uint32_t known = placeOf(object); known != kInside) return known;
  uint32_t place = provenance_.load(GuardOp::Fixed, kInside, object, 0, object);
  provenance_.settle(object, place);
  if (isTensor(object)) describe(place, object);
  // An object may be given another class.
  if (isPythonClass(Py_TYPE(object)) && !isNamed(object)) {
    checkIs(GuardOp::IsType, place, reinterpret_cast<PyObject*>(Py_TYPE(object)));
  }
  return place;
}

void Recorder::noteFixed(PyObject* object) {
  if (!isAtom(object) && !isNamed(object)) fixed(object);
}

void Recorder::describe(uint32_t place, PyObject* object) {
  bool isData = isTensor(object) || numpy::isArray(object);
  if (isTensor(object)) {
    const at::Tensor& tensor = tensorOf(object);
    if (tensor.is_nested()) return tape_.spoil(Why::Nested);  // it has no sizes to compare
    auto standIn = standIns_.find(object);
    guards().tensors.emplace_back(standIn == standIns_.end() ? tensor : standIn->second->real);
    if (standIn != standIns_.end()) guards().tensors.back().dynamic = standIn->second->dims;
    checkIs(GuardOp::Tensor, place, nullptr, static_cast<int64_t>(guards().tensors.size() - 1));
    provenance_.settle(tensor, place);
  }
  if (!isData) return;
  for (Subject* each : subjects_->asked(Question::Found)) each->found(place, object);
}

bool Recorder::readData(GuardOp op, uint32_t place, PyObject* object) {
  if (auto standIn = standIns_.find(object); standIn != standIns_.end() && standIn->second->number) {
    if (standIn->second->isFloat()) {
      checkIs(GuardOp::IsType, place, reinterpret_cast<PyObject*>(&PyFloat_Type));
    } else {
      checkIs(GuardOp::Number, place, nullptr);
    }
    numbers_.emplace(object, place);
    return true;
  }
  if (scalarsAreData_ && op <= GuardOp::Keyword && numpy::isScalar(object)) {
    checkIs(GuardOp::IsType, place, reinterpret_cast<PyObject*>(Py_TYPE(object)));
    provenance_.settle(object, place);
    metScalars_ = true;
    subjects_->arrays.foundArray(place, object);
    return true;
  }
  FloatInputs* inputs = FloatInputs::current();
  if (!inputs || !PyFloat_CheckExact(object)) return false;
  if (const Array* data = subjects_->arrays.arrayOf(object)) {
    uint32_t first = data->tensor.defined() ? placeOfTensor(data->tensor) : kInside;
    if (first == kInside) tape_.spoil(Why::FloatFoundOutside);
    if (first != kInside) checkIs(GuardOp::Same, place, nullptr, first);
    return true;
  }
  if (!inputs->takes(guards().expression(place), object)) {
    inputs->constant(object);
    return false;
  }
  checkIs(GuardOp::IsType, place, reinterpret_cast<PyObject*>(&PyFloat_Type));
  at::Tensor tensor = numberTensor(PyFloat_AS_DOUBLE(object));
  tape_.meet(tensor);
  provenance_.settle(tensor, place);
  subjects_->arrays.addFloat(object, tensor);
  metScalars_ = true;
  return true;
}

uint32_t Recorder::read(GuardOp op, uint32_t parent, PyObject* key, int64_t number, PyObject* object) {
  auto [known, isNew] = provenance_.step(op, parent, key, number);
  if (!isNew) return *known;
  uint32_t place = provenance_.load(op, parent, key, number, object);
  *known = place;
  if (readData(op, place, object)) return place;
  if (isAtom(object)) {
    checkIs(object == Py_None || PyBool_Check(object) ? GuardOp::Is : GuardOp::Equals, place, object);
    return place;
  }
  bool mayBeFresh = PyFunction_Check(object) && provenance_.byArguments(place) && op != GuardOp::MethodFunction;
  if (mayBeFresh && placeOf(object) == kInside && !madeHere(object) && !isGlobalFunction(object)) {
    checkIs(GuardOp::IsType, place, reinterpret_cast<PyObject*>(&PyFunction_Type));
    provenance_.findFresh(object, place);
    return place;
  }
  if (provenance_.isFresh(object) && provenance_.byArguments(place)) {
    checkIs(GuardOp::Same, place, nullptr, placeOf(object));
    return place;
  }
  if (named(object)) {
    checkIs(GuardOp::Is, place, object);
    PyObject* self = PyCFunction_Check(object) ? PyCFunction_GET_SELF(object) : nullptr;
    if (self) noteFixed(self);
    return place;
  }
  if (uint32_t other = placeOf(object); other != kInside) {
    checkIs(GuardOp::Same, place, nullptr, other);
    return place;
  }
  checkIs(GuardOp::IsType, place, reinterpret_cast<PyObject*>(Py_TYPE(object)));
  provenance_.settle(object, place);
  describe(place, object);
  if (isDerivedValue(object) || PySlice_Check(object)) checkIs(GuardOp::Equals, place, object);
  if (Py_TYPE(object) == &PyMethod_Type) {
    read(GuardOp::MethodFunction, place, nullptr, 0, PyMethod_GET_FUNCTION(object));
    read(GuardOp::MethodSelf, place, nullptr, 0, PyMethod_GET_SELF(object));
  }
  return place;
}

PyObject* Recorder::lookUp(PyTypeObject* type, PyObject* name) {
  PyObject* found = provenance_.lookUp(type, name, !writesClasses_ || !effects_.writtenAlong(type, name));
  if (FloatInputs* inputs = FloatInputs::current(); inputs && found && PyFloat_CheckExact(found)) {
    subjects_->arrays.arrayOf(found) ? tape_.spoil(Why::FloatOfClass) : inputs->constant(found);
  }
  return found;
}

void Recorder::tellApart(PyObject* object, int depth) {
  if (depth > 12 || isAtom(object) || named(object)) return;
  if (isTensor(object) || (!isContainer(object) && comparesByIdentity(object))) return provenance_.distinguish(object);
  if (PyDict_Check(object)) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(object, &position, &key, &value)) {
      tellApart(key, depth + 1);
      tellApart(value, depth + 1);
    }
  } else if (PyList_Check(object) || PyTuple_Check(object)) {
    for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i) tellApart(PySequence_Fast_ITEMS(object)[i], depth + 1);
  } else if (PyAnySet_Check(object)) {
    Py_ssize_t position = 0;
    PyObject* element = nullptr;
    Py_hash_t hash = 0;
    while (_PySet_NextEntry(object, &position, &element, &hash)) tellApart(element, depth + 1);
  } else if (isContainer(object)) {
    Ref items = itemsOf(object);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
      tellApart(PyTuple_GET_ITEM(items.get(), i), depth + 1);
    }
  } else {
    // Its own __eq__ is watched, but comes after a look at which object it is.
    provenance_.distinguish(object);
  }
}

bool Recorder::identifies(PyObject* left, PyObject* right) {
  check();
  if (stopped_) return false;
  auto single = [](PyObject* object) {
    return object == Py_None || PyBool_Check(object) || object == Py_Ellipsis || object == Py_NotImplemented ||
           isNamed(object);
  };
  auto isConstant = [](PyObject* object) { return object == Py_None || PyBool_Check(object) || PyType_Check(object); };
  if (!isConstant(left) && !isConstant(right)) {
    for (PyObject* each : {left, right}) named(each);
  }
  if (speculative_ && subjects_->attempt.shows(doors::seenByIdentity(left, right), "`is` tells which object it is"))
    return false;
  if (single(left) || single(right)) return true;
  if (subjects_->arrays.arrayOf(left) || subjects_->arrays.arrayOf(right)) {
    if (isAtom(left) && isAtom(right)) return stop(Why::IsOfData);
  }
  if (isAtom(left) && isAtom(right)) {
    if (isDtype(left) || !sameValue(left, right)) return true;
    if (left != right) return stop(Why::IsOfEqual);
    identified_.insert(left);
    return true;
  }
  uint32_t one = placeOf(left), other = placeOf(right);
  // What was read from two places and is one object has a guard that says so.
  if (one == kInside || other == kInside || left == right) return true;
  checkIs(GuardOp::Different, one, nullptr, other);
  return true;
}

bool Recorder::keys(PyObject* key) {
  if (stopped_ || subjects_->arrays.findsByData(key)) return false;
  if (speculative_ && subjects_->attempt.shows(doors::symbolIn(key), "it becomes a key")) return false;
  tellApart(key);
  return true;
}

// Objects that were changed are other ones than all those that were only read.
std::optional<Stop> Recorder::seal() {
  if (!effects_.dropFailed()) return Why::ChangeFailed;
  // C code may have been told that it cannot be called so.
  for (PyObject* function : std::vector(provenance_.functionsFound())) {
    if (!handedOn_.contains(function)) guardFresh(function);
  }
  for (Subject* each : subjects_->asked(Question::Seal)) {
    if (std::optional<Stop> why = each->seal()) return why;
  }
  for (uint32_t place = 0; !identified_.empty() && place < provenance_.objects().size(); ++place) {
    PyObject* object = provenance_.at(place);
    if (identified_.contains(object)) checkIs(GuardOp::Is, place, object);
  }
  provenance_.separate(effects_.changedObjects());
  return std::nullopt;
}

void Recorder::binaryDone(watch::Binary, bool, PyObject*, PyObject*, PyObject* result) {
  subjects_->arrays.gave(result);
  subjects_->arrays.took();
  check();
}

// What was asked of data is told of here, not at the line that comes next.
void Recorder::unaryDone(watch::Unary, PyObject*, PyObject* result) {
  subjects_->arrays.gave(result);
  check();
}

void Recorder::compared(PyObject*, PyObject*, PyObject* result) {
  subjects_->arrays.gave(result);
  check();
}

void Recorder::readItem(PyObject* container, PyObject* key, PyObject* value) {
  subjects_->arrays.gave(value);
  if (std::exchange(entering_, {}) == std::pair(container, key)) entered(container, key, value);
  check();
}

// --- frames and names ---

watch::Skip Recorder::skips(PyCodeObject* code, PyCodeObject* passed) {
  watch::Skip skip = skipped_.of(code, passed);
  // What code that is not watched calls is not told; Python's import system calls nothing that it is given.
  if (skip != watch::Skip::No && !Skipped::imports(code)) provenance_.pinFresh();
  return skip;
}

void Recorder::left(PyCodeObject*, PyObject* value) {
  std::optional<KeptError> kept;
  if (!value) kept.emplace();
  check();
}

bool Recorder::readsGlobal(PyObject* globals, PyObject* builtins, PyObject* name, PyObject* value) {
  if (written(globals, name)) return true;
  uint32_t dict = fixed(globals);
  if (PyDict_CheckExact(globals) && PyDict_GetItemWithError(globals, name) == value) {
    read(GuardOp::Key, dict, name, 0, value);
    return true;
  }
  if (provenance_.first(GuardOp::NoKey, dict, name)) checkIs(GuardOp::NoKey, dict, name);
  read(GuardOp::Key, fixed(builtins), name, 0, value);
  return true;
}

bool Recorder::writesGlobal(PyObject* globals, PyObject* name, PyObject* value) {
  static PyObject* const set = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyDict_Type), "__setitem__");
  static PyObject* const remove = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyDict_Type), "__delitem__");
  if (!value && !PyDict_GetItemWithError(globals, name)) return true;  // the program will be told
  fixed(globals);
  effects_.write(globals, name);
  return value ? effect(set, {globals, name, value}) : effect(remove, {globals, name});
}

bool Recorder::readsCell(PyObject* cell, PyObject* value) {
  uint32_t place = placeOf(cell);
  if (place == kInside || written(cell, nullptr)) return true;
  if (value) {
    read(GuardOp::Cell, place, nullptr, 0, value);
  } else {
    checkIs(GuardOp::NoCell, place, nullptr);
  }
  return true;
}

bool Recorder::writesCell(PyObject* cell, PyObject* value) {
  if (placeOf(cell) == kInside) return true;
  if (!value) return stop(Why::DeletesCell);
  if (speculative_) return stop(Why::WritesCell);
  effects_.write(cell, nullptr);
  effects_.list().push_back({{}, {Ref::borrow(cell), Ref::borrow(value)}, {}});
  return true;
}

bool Recorder::readsName(PyObject* locals, PyObject* globals, PyObject* builtins, PyObject* name) {
  if (PyObject* found = locals && PyDict_Check(locals) ? PyDict_GetItemWithError(locals, name) : nullptr) {
    (void)found;  // of a class body that runs inside
    return true;
  }
  PyObject* value = PyDict_GetItemWithError(globals, name);
  if (!value && PyDict_Check(builtins)) value = PyDict_GetItemWithError(builtins, name);
  return value ? readsGlobal(globals, builtins, name, value) : true;
}

bool Recorder::effect(PyObject* callable, const std::vector<PyObject*>& args, PyObject* names) {
  bool ofDouble = doubles_ && !args.empty() && doubles_->isDouble(args[0]);
  if (speculative_ && !ofDouble && !effects_.undoes(callable, args)) {
    return stop({Why::ChangesSomething, args.empty() ? "something" : "a " + std::string(Py_TYPE(args[0])->tp_name)});
  }
  effects_.add(callable, args, names);
  return true;
}

bool Recorder::imports(PyObject* name, PyObject* fromlist, PyObject* level) {
  return !speculative_ || subjects_->attempt.mayImport(name, fromlist, level);
}

bool Recorder::importsFrom(PyObject* module, PyObject* name) { return attribute(module, name); }

// An exception takes note of each time that it is raised.
bool Recorder::raises(PyObject* exception, PyObject* cause) {
  for (PyObject* each : {exception, cause}) {
    if (each && PyType_Check(each)) guardSpecials(reinterpret_cast<PyTypeObject*>(each));
  }
  if (exception && PyExceptionInstance_Check(exception) && placeOf(exception) != kInside) {
    return stop(Why::RaisesEarlier);
  }
  if (!exception && handled_) return stop(Why::RaisesHandled);
  return true;
}

// Errors of C code name the class of what it was given.
static bool namesSymbol(PyObject* exception) {
  if (!exception || !PyExceptionInstance_Check(exception)) return false;
  PyObject* args = reinterpret_cast<PyBaseExceptionObject*>(exception)->args;
  for (Py_ssize_t i = 0; args && i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* text = PyTuple_GET_ITEM(args, i);
    if (!PyUnicode_Check(text)) continue;
    std::string found = textOf(text);
    for (const char* name : {"SymInt", "SymFloat", "SymBool"}) {
      if (found.find(name) != std::string::npos) return true;
    }
  }
  return false;
}

// What abandons a recording is nothing that the program knows of.
bool Recorder::catches(PyObject* exception, PyObject* classes) {
  if (abandoned_) return stop(*abandoned_);
  if (speculative_ && namesSymbol(exception)) return stop(Why::CatchesSize);
  if (exception && PyExceptionInstance_Check(exception)) guardOrder(Py_TYPE(exception));
  return !classes || realize(classes, true);
}

}  // namespace saker::frontend
