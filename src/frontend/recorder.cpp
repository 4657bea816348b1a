#include "frontend/recorder.h"

#include <algorithm>

#include "frontend/aside.h"
#include "frontend/compiling_question.h"
#include "frontend/float_inputs.h"
#include "frontend/kinds.h"
#include "frontend/log.h"
#include "frontend/numpy.h"
#include "frontend/symbol_doors.h"
#include "frontend/wrapped.h"
#include "host/kept_error.h"
#include "host/objects.h"
#include "host/symbol_watch.h"
#include "watch/loop.h"
#include "watch/once.h"

namespace saker::frontend {

bool isAtom(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return object == Py_None || type == &PyLong_Type || type == &PyUnicode_Type || type == &PyBool_Type ||
         type == &PyFloat_Type || type == &PyBytes_Type || type == &PyComplex_Type || object == Py_Ellipsis ||
         object == Py_NotImplemented || isTorchConstant(type) || type == &PyRange_Type || type == &PyCode_Type ||
         numpy::isScalar(object);
}

namespace {

bool isEnumMember(PyObject* object) {
  PyTypeObject* meta = Py_TYPE(Py_TYPE(object));
  if (std::string_view(meta->tp_name).ends_with("pybind11_type")) {
    static PyObject* const members = PyUnicode_InternFromString("__members__");
    return _PyType_Lookup(Py_TYPE(object), members) != nullptr;
  }
  return meta != &PyType_Type &&
         (std::string_view(meta->tp_name) == "EnumType" || std::string_view(meta->tp_name) == "EnumMeta");
}

// int | str: a class of C that has no name to include.
bool isUnion(PyObject* object) {
  static constinit watch::Once<PyObject*> found;
  PyObject* type = found.get([] { return watch::importedAttribute("types", "UnionType"); });
  return Py_IS_TYPE(object, reinterpret_cast<PyTypeObject*>(type));
}

bool isOperator(PyObject* object) {
  std::string_view name = Py_TYPE(object)->tp_name;
  return name == "numpy.ufunc" || name == "numpy._ArrayFunctionDispatcher" || name == "OpOverload" ||
         name == "OpOverloadPacket" || name == "_OpNamespace" || name == "_Ops" ||
         name == "builtin_function_or_method" || name == "torch._C.Generator" || name == "re.Pattern";
}

// Python code of PyTorch's or of Python's own library: the user's line is the one that led there.
const std::string& folderOfTorch() {
  static constinit watch::Once<std::string> folder;
  return folder.get([] {
    Ref module = Ref::steal(PyImport_ImportModule("torch"));
    std::string file = module ? textAttribute(module.get(), "__file__") : "";
    return file.substr(0, file.rfind('/') + 1);
  });
}

bool isLibrary(const std::string& file) {
  bool installed = file.find("/site-packages/") != std::string::npos;
  return file.starts_with(folderOfTorch()) || (!installed && file.find("/lib/python3.") != std::string::npos);
}

uint64_t mix(uint64_t a, uint64_t b) { return (a * 0x9E3779B97F4A7C15ull) ^ (b + (a << 7) + 0xC2B2AE3D27D4EB4Full); }

std::string textOf(PyObject* unicode) {
  const char* data = unicode ? PyUnicode_AsUTF8(unicode) : nullptr;
  if (!data) PyErr_Clear();
  return data ? data : "?";
}

}  // namespace

bool isNamed(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return PyType_Check(object) || type == &PyFunction_Type || PyCFunction_Check(object) || PyModule_Check(object) ||
         type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyGetSetDescr_Type ||
         type == &PyMemberDescr_Type || type == &PyInstanceMethod_Type || type == &PyClassMethodDescr_Type ||
         type == &PyProperty_Type || type == &PyStaticMethod_Type || type == &PyClassMethod_Type ||
         PyType_IsSubtype(type, &Py_GenericAliasType) || isUnion(object) || isEnumMember(object) ||
         isOperator(object) || numpy::isDtype(object);
}

Recorder::Recorder(tracing::Tape& tape, PyObject* callable, const CallArguments& call, bool raising,
                   std::span<const StandIn> standIns, bool scalarsAreData, const Doubles* doubles)
    : tape_(tape),
      operations_(Operations::table()),
      raising_(raising),
      speculative_(!standIns.empty()),
      doubles_(doubles),
      scalarsAreData_(scalarsAreData) {
  for (const StandIn& each : standIns) standIns_.emplace(each.given.get(), &each);
  guards_.positional = call.positional;
  handled_ = Ref::steal(PyErr_GetHandledException());
  if (handled_.get() == Py_None) handled_ = Ref();
  rememberCaller();
  fixed(callable);
  if (PyMethod_Check(callable)) {
    fixed(PyMethod_GET_SELF(callable));
  }
  for (size_t i = 0; i < call.positional; ++i) {
    read(Op::Positional, kInside, nullptr, static_cast<int64_t>(i), call.values[i]);
  }
  size_t named = call.names ? static_cast<size_t>(PyTuple_GET_SIZE(call.names)) : 0;
  for (size_t i = 0; i < named; ++i) {
    PyObject* name = PyTuple_GET_ITEM(call.names, static_cast<Py_ssize_t>(i));
    guards_.keywords.push_back(Ref::borrow(name));
    read(Op::Keyword, kInside, name, static_cast<int64_t>(i), call.values[call.positional + i]);
  }
  modes_ = functionModes();
  for (size_t i = 0; i < modes_.size(); ++i) {
    read(Op::FunctionMode, kInside, nullptr, static_cast<int64_t>(i), modes_[i].get());
    meetsMode(modes_[i].get());
  }
  // Tensors that were two stay two: sets and `is` tell them apart, and in-place writes.
  constexpr size_t kMost = 16;
  if (call.positional + named > kMost) return;
  for (size_t i = 0; i < call.positional + named; ++i) {
    if (isTensor(call.values[i])) distinguish(call.values[i]);
  }
}

Stop Recorder::stopAt(Stop at) const {
  const KeptError kept;
  std::vector<watch::Place> places = watch::places();
  for (const watch::Place& place : places) {
    at.file = textOf(place.code->co_filename);
    at.line = place.line;
    if (!isLibrary(at.file)) break;
  }
  std::string inner = places.empty() ? "" : textOf(places[0].code->co_filename);
  if (isLibrary(inner) && inner != at.file) {
    bool torch = inner.starts_with(folderOfTorch());
    std::string shown = torch ? "torch/" + inner.substr(folderOfTorch().size()) : inner.substr(inner.rfind('/') + 1);
    at.library = shown + ":" + std::to_string(places[0].line);
  }
  return at;
}

bool Recorder::stop(Stop why, bool quiet) {
  if (speculative_) {
    if (!abandoned_) abandoned_ = stopAt(std::move(why));
    ++refusals_;
    if (!quiet && !PyErr_Occurred()) raiseStop(*abandoned_);
    return false;
  }
  if (stopped_) return false;
  stopped_ = stopAt(std::move(why));
  tracing::leaveTape();
  CompilingQuestion* question = CompilingQuestion::current();
  bool again = question && question->mayHelp();  // this call runs eagerly, and the next is told something else
  if (raising_ && !again && !quiet && !PyErr_Occurred()) raiseStop(*stopped_);
  return false;
}

void Recorder::unseen(watch::Unseen why) {
  switch (why) {
    case watch::Unseen::DeepStack:
      stop(Why::StackDeep);
      break;
    case watch::Unseen::Traced:
      stop(Why::Traced);
      break;
    case watch::Unseen::Instruction:
      stop(Why::UnknownInstruction);
      break;
  }
}

// Something on the tape may have made it useless: go on without watching.
void Recorder::check() {
  if (std::exchange(hosted_, std::nullopt)) tape_.spoil(Why::ArrayCallFailed);
  if (std::exchange(hooking_, std::nullopt)) tape_.spoil(Why::HookFailed);
  if (std::exchange(caching_, std::nullopt)) tape_.spoil(Why::CachedRaised);
  if (std::exchange(drawing_, std::nullopt)) tape_.spoil(Why::DrawFailed);
  if (std::exchange(expects_, false)) tape_.spoil(Why::DataOperatorFailed);
  if (speculative_ && !abandoned_) {
    const SymbolWatch* watch = SymbolWatch::current();
    if (watch && !watch->failure().empty()) stop({Why::SymbolFailed, watch->failure()}, /*quiet=*/true);
  }
  if (stopped_ || abandoned_ || !tape_.spoiled()) return;
  stop(*tape_.spoiled(), /*quiet=*/true);
  if (!speculative_) watch::stop();
}

void raiseStop(const Stop& stop) {
  watch::Pause pause;  // the exception's class is written in Python
  Ref module = Ref::steal(PyImport_ImportModule("saker.errors"));
  Ref type = module ? Ref::steal(PyObject_GetAttrString(module.get(), "CaptureError")) : Ref();
  if (!type) return;
  std::string text = "the function cannot be captured whole: " + stop.sentence() + "; " + stop.reason().hint +
                     ", or compile without fullgraph=True";
  Ref error = Ref::steal(
      stop.file.empty()
          ? PyObject_CallFunction(type.get(), "sssOi", "Unsupported", text.c_str(), "", Py_None, 0)
          : PyObject_CallFunction(type.get(), "ssssi", "Unsupported", text.c_str(), "", stop.file.c_str(), stop.line));
  if (error) PyErr_SetObject(type.get(), error.get());
}

// --- places ---

uint32_t Recorder::placeOf(PyObject* object) const {
  auto found = places_.find(object);
  return found == places_.end() ? kInside : found->second;
}

uint32_t Recorder::placeOfTensor(const at::Tensor& tensor) const {
  auto found = tensors_.find(tensor.unsafeGetTensorImpl());
  return found == tensors_.end() ? kInside : found->second;
}

uint32_t Recorder::load(Op op, uint32_t parent, PyObject* key, int64_t number, PyObject* object) {
  uint32_t place = guards_.places++;
  guards_.instructions.push_back({op, place, parent, number, Ref::borrow(key)});
  objects_.push_back(object);
  kept_.push_back(Ref::borrow(object));
  return place;
}

// Guards are checked before a replay, and find things as they were before that code ran.
static bool changedAside(PyObject* object) {
  Aside* aside = Aside::current();
  return aside && aside->changed(object);
}

void Recorder::checkIs(Op op, uint32_t place, PyObject* object, int64_t number) {
  if (changedAside(objects_[place])) tape_.spoil(Why::ReadsChangedAside);
  guards_.instructions.push_back({op, place, kInside, number, Ref::borrow(object)});
}

uint32_t Recorder::fixed(PyObject* object) {
  auto found = places_.find(object);
  if (found != places_.end()) return found->second;
  uint32_t place = load(Op::Fixed, kInside, object, 0, object);
  places_.emplace(object, place);
  if (isTensor(object)) describe(place, object);
  // An object may be given another class.
  if (isPythonClass(Py_TYPE(object)) && !isNamed(object)) {
    checkIs(Op::IsType, place, reinterpret_cast<PyObject*>(Py_TYPE(object)));
  }
  return place;
}

void Recorder::noteFixed(PyObject* object) {
  if (!isAtom(object) && !isNamed(object)) fixed(object);
}

void Recorder::describe(uint32_t place, PyObject* object) {
  if (isTensor(object)) {
    const at::Tensor& tensor = tensorOf(object);
    if (tensor.is_nested()) return tape_.spoil(Why::Nested);  // it has no sizes to compare
    auto standIn = standIns_.find(object);
    guards_.tensors.emplace_back(standIn == standIns_.end() ? tensor : standIn->second->real);
    if (standIn != standIns_.end()) guards_.tensors.back().dynamic = standIn->second->dims;
    checkIs(Op::Tensor, place, nullptr, static_cast<int64_t>(guards_.tensors.size() - 1));
    tensors_.emplace(tensor.unsafeGetTensorImpl(), place);
    if (isWrapperClass(Py_TYPE(object))) foundWrapper(place, object);
  } else if (numpy::isArray(object)) {
    foundArray(place, object);
  }
}

uint32_t Recorder::read(Op op, uint32_t parent, PyObject* key, int64_t number, PyObject* object) {
  if (parent < objects_.size() && changedAside(objects_[parent])) tape_.spoil(Why::ReadsChangedAside);
  uint64_t hash =
      mix(mix(mix(parent, static_cast<uint64_t>(op)), reinterpret_cast<uint64_t>(key)), static_cast<uint64_t>(number));
  auto [found, isNew] = reads_.try_emplace(hash, 0);
  if (!isNew) return found->second;
  uint32_t place = load(op, parent, key, number, object);
  found->second = place;
  if (auto standIn = standIns_.find(object); standIn != standIns_.end() && standIn->second->number) {
    checkIs(Op::Number, place, nullptr);
    numbers_.emplace(object, place);
    return place;
  }
  if (scalarsAreData_ && op <= Op::Keyword && numpy::isScalar(object)) {
    checkIs(Op::IsType, place, reinterpret_cast<PyObject*>(Py_TYPE(object)));
    places_.emplace(object, place);
    metScalars_ = true;
    foundArray(place, object);
    return place;
  }
  if (FloatInputs* inputs = FloatInputs::current(); inputs && PyFloat_CheckExact(object)) {
    if (const Array* data = arrayOf(object)) {
      uint32_t first = placeOfTensor(data->tensor);
      if (first == kInside) tape_.spoil(Why::FloatFoundOutside);
      if (first != kInside) checkIs(Op::Same, place, nullptr, first);
      return place;
    }
    if (inputs->takes(guards_.expression(place), object)) {
      checkIs(Op::IsType, place, reinterpret_cast<PyObject*>(&PyFloat_Type));
      at::Tensor tensor = numberTensor(PyFloat_AS_DOUBLE(object));
      tape_.meet(tensor);
      tensors_.emplace(tensor.unsafeGetTensorImpl(), place);
      arrays_.emplace(object, Array{tensor, true, false, true});
      metScalars_ = true;
      return place;
    }
    inputs->constant(object);
  }
  if (isAtom(object)) {
    checkIs(object == Py_None || PyBool_Check(object) ? Op::Is : Op::Equals, place, object);
    return place;
  }
  if (isNamed(object)) {
    checkIs(Op::Is, place, object);
    PyObject* self = PyCFunction_Check(object) ? PyCFunction_GET_SELF(object) : nullptr;
    if (self) noteFixed(self);
    return place;
  }
  auto known = places_.find(object);
  if (known != places_.end()) {
    checkIs(Op::Same, place, nullptr, known->second);
    return place;
  }
  checkIs(Op::IsType, place, reinterpret_cast<PyObject*>(Py_TYPE(object)));
  places_.emplace(object, place);
  describe(place, object);
  if (isDerivedValue(object) || PySlice_Check(object)) checkIs(Op::Equals, place, object);
  if (Py_TYPE(object) == &PyMethod_Type) {
    read(Op::MethodFunction, place, nullptr, 0, PyMethod_GET_FUNCTION(object));
    read(Op::MethodSelf, place, nullptr, 0, PyMethod_GET_SELF(object));
  }
  return place;
}

bool Recorder::writtenAlong(PyTypeObject* type, PyObject* name) const {
  PyObject* order = type->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(order); ++i) {
    if (written(PyTuple_GET_ITEM(order, i), name)) return true;
  }
  return false;
}

PyObject* Recorder::lookUp(PyTypeObject* type, PyObject* name) {
  PyObject* found = _PyType_Lookup(type, name);
  if (FloatInputs* inputs = FloatInputs::current(); inputs && found && PyFloat_CheckExact(found)) {
    arrayOf(found) ? tape_.spoil(Why::FloatOfClass) : inputs->constant(found);
  }
  if (writesClasses_ && writtenAlong(type, name)) return found;
  uint64_t hash = mix(reinterpret_cast<uint64_t>(type), reinterpret_cast<uint64_t>(name));
  if (!lookups_.insert(hash).second) return found;
  // Types of C never change.
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return found;
  auto [entry, isNew] = types_.try_emplace(type, guards_.types.size());
  if (isNew) {
    guards_.types.emplace_back();
    guards_.types.back().type = Ref::borrow(reinterpret_cast<PyObject*>(type));
  }
  TypeLookups& lookups = guards_.types[entry->second];
  // Where the call itself writes to the class, its tag says nothing about what was read before.
  if (!isNew && lookups.version != type->tp_version_tag) lookups.version = 0;
  if (isNew) lookups.version = type->tp_version_tag;
  lookups.names.emplace_back(Ref::borrow(name), found);
  lookups.kept.push_back(Ref::borrow(found));
  return found;
}

void Recorder::pin(PyObject* object) {
  uint32_t place = placeOf(object);
  if (place == kInside || isAtom(object)) return;
  checkIs(Op::Is, place, object);
}

void Recorder::distinguish(PyObject* object) {
  uint32_t place = placeOf(object);
  if (place == kInside || isAtom(object) || isNamed(object)) return;
  for (uint32_t other : distinct_) {
    if (other == place) return;
  }
  if (distinct_.size() > 64) return pin(object);  // one check for each pair would be many
  for (uint32_t other : distinct_) checkIs(Op::Different, place, nullptr, other);
  distinct_.push_back(place);
}

void Recorder::tellApart(PyObject* object, int depth) {
  if (depth > 12 || isAtom(object) || isNamed(object)) return;
  if (isTensor(object) || (!isContainer(object) && comparesByIdentity(object))) return distinguish(object);
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
    for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i) {
      Ref item = Ref::steal(PySequence_GetItem(object, i));
      if (item) tellApart(item.get(), depth + 1);
    }
    PyErr_Clear();
  } else {
    // Its own __eq__ is watched, but comes after a look at which object it is.
    distinguish(object);
  }
}

bool Recorder::identifies(PyObject* left, PyObject* right) {
  check();
  if (stopped_) return false;
  auto single = [](PyObject* object) {
    return object == Py_None || PyBool_Check(object) || object == Py_Ellipsis || object == Py_NotImplemented ||
           isNamed(object);
  };
  if (speculative_ && shows(doors::seenByIdentity(left, right), "`is` tells which object it is")) return false;
  if (single(left) || single(right)) return true;
  if (arrayOf(left) || arrayOf(right)) {
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
  checkIs(Op::Different, one, nullptr, other);
  return true;
}

bool Recorder::keys(PyObject* key) {
  if (stopped_ || findsByData(key)) return false;
  if (speculative_ && shows(doors::symbolIn(key), "it becomes a key")) return false;
  tellApart(key);
  return true;
}

// A call that failed has changed nothing, if it does one thing only.
bool Recorder::dropFailed() {
  static const std::unordered_set<std::string> single = {"pop", "popitem", "popleft", "remove", "insert", "append"};
  std::sort(pending_.begin(), pending_.end(), [](const Pending& a, const Pending& b) { return a.effect > b.effect; });
  for (const Pending& each : pending_) {
    if (!single.contains(nameOf(effects_[each.effect].callable.get()))) return false;
    effects_.erase(effects_.begin() + static_cast<ptrdiff_t>(each.effect));
  }
  pending_.clear();
  return true;
}

// Objects that were changed are other ones than all those that were only read.
std::optional<Stop> Recorder::seal() {
  if (!dropFailed()) return Why::ChangeFailed;
  if (std::optional<Stop> why = leaveIterators()) return why;
  if (hosted_) return Why::ArrayCallFailed;
  if (hooking_) return Why::HookFailed;
  if (std::optional<Stop> why = guardHooks()) return why;
  for (uint32_t place = 0; !identified_.empty() && place < objects_.size(); ++place) {
    if (identified_.contains(objects_[place])) checkIs(Op::Is, place, objects_[place]);
  }
  std::set<uint32_t> changed;
  auto note = [&](PyObject* object) {
    if (uint32_t place = placeOf(object); place != kInside) changed.insert(place);
  };
  for (const auto& [object, copy] : before_) note(object);
  for (const auto& [owner, name] : written_) note(owner);
  if (changed.empty()) return std::nullopt;
  std::vector<bool> isFixed(guards_.places);
  for (const Instruction& at : guards_.instructions) {
    if (at.op == Op::Fixed) isFixed[at.place] = true;
  }
  for (uint32_t written : changed) {
    for (uint32_t place = 0; place < objects_.size(); ++place) {
      PyObject* object = objects_[place];
      if (object == objects_[written] || Py_TYPE(object) != Py_TYPE(objects_[written])) continue;
      if (placeOf(object) != place || (isFixed[place] && isFixed[written])) continue;
      checkIs(Op::Different, place, nullptr, written);
    }
  }
  return std::nullopt;
}

bool Recorder::meetsMode(PyObject* mode) {
  static PyObject* const name = PyUnicode_InternFromString("__torch_function__");
  return attribute(mode, name);
}

std::optional<std::vector<Ref>> Recorder::leftModes() const {
  std::vector<Ref> now = functionModes();
  bool same = now.size() == modes_.size();
  for (size_t i = 0; same && i < now.size(); ++i) same = now[i].get() == modes_[i].get();
  if (same) return std::nullopt;
  return now;
}

bool Recorder::leavesGradMode(const Ambient& before) {
  static constinit watch::Once<PyObject*> found;
  PyObject* set = found.get([] { return watch::importedAttribute("torch._C", "_set_grad_enabled"); });
  Ambient now = Ambient::now();
  bool mode = std::exchange(now.gradMode, before.gradMode);
  now.functionModes = before.functionModes;  // see leftModes()
  if (!setFlags_.empty()) {                  // operators of the graph set them
    now.deterministic = before.deterministic;
    now.deterministicWarnOnly = before.deterministicWarnOnly;
    now.mkldnn = before.mkldnn;
    now.defaultType = before.defaultType;
  }
  if (mode == before.gradMode) return now == before;
  return set && now == before && effect(set, {mode ? Py_True : Py_False});
}

// --- frames and names ---

watch::Skip Recorder::skips(PyCodeObject* code, PyCodeObject* passed) { return skipped_.of(code, passed); }

bool Recorder::enters(PyObject* function, PyCodeObject* code) {
  if (stopped_) return false;
  // Objects that a function has with it need no place.
  if (FloatInputs* inputs = FloatInputs::current()) {
    auto note = [&](auto&& self, PyObject* tuple) -> void {
      for (Py_ssize_t i = 0; tuple && PyTuple_Check(tuple) && i < PyTuple_GET_SIZE(tuple); ++i) {
        PyObject* value = PyTuple_GET_ITEM(tuple, i);
        if (PyTuple_Check(value)) self(self, value);
        if (!PyFloat_CheckExact(value)) continue;
        arrayOf(value) ? tape_.spoil(Why::FloatConstant) : inputs->constant(value);
      }
    };
    note(note, code->co_consts);
    if (function && PyFunction_Check(function)) {
      note(note, reinterpret_cast<PyFunctionObject*>(function)->func_defaults);
    }
  }
  ++frames_;
  Progress::tick();
  check();
  if (stopped_) return false;
  // A generator from outside is known by its code and its variables.
  if (auto begins = generatorFunctions_.find(function); begins != generatorFunctions_.end()) {
    generatorFunctions_.erase(begins);
    return true;
  }
  if (!function || !PyFunction_Check(function) || !entered_.insert(function).second || madeHere(function)) return true;
  auto* parts = reinterpret_cast<PyFunctionObject*>(function);
  uint32_t place = fixed(function);
  guards_.functions.push_back({Ref::borrow(parts->func_defaults), Ref::borrow(parts->func_kwdefaults)});
  checkIs(Op::Function, place, parts->func_code, static_cast<int64_t>(guards_.functions.size() - 1));
  auto each = [&](PyObject* tuple) {
    for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); ++i) noteFixed(PyTuple_GET_ITEM(tuple, i));
  };
  each(parts->func_closure);
  each(parts->func_defaults);
  if (parts->func_kwdefaults) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    uint32_t dict = fixed(parts->func_kwdefaults);
    while (PyDict_Next(parts->func_kwdefaults, &position, &key, &value)) read(Op::Key, dict, key, 0, value);
  }
  return true;
}

void Recorder::left(PyCodeObject*, PyObject* value) {
  std::optional<KeptError> kept;
  if (!value) kept.emplace();
  check();
}

void Recorder::madeFunction(PyObject* function) {
  kept_.push_back(Ref::borrow(function));
  madeFunctions_.insert(function);
}

bool Recorder::readsGlobal(PyObject* globals, PyObject* builtins, PyObject* name, PyObject* value) {
  if (written(globals, name)) return true;
  uint32_t dict = fixed(globals);
  if (PyDict_CheckExact(globals) && PyDict_GetItemWithError(globals, name) == value) {
    read(Op::Key, dict, name, 0, value);
    return true;
  }
  uint64_t hash = mix(mix(dict, static_cast<uint64_t>(Op::NoKey)), reinterpret_cast<uint64_t>(name));
  if (reads_.try_emplace(hash, 0).second) checkIs(Op::NoKey, dict, name);
  read(Op::Key, fixed(builtins), name, 0, value);
  return true;
}

bool Recorder::writesGlobal(PyObject* globals, PyObject* name, PyObject* value) {
  static PyObject* const set = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyDict_Type), "__setitem__");
  static PyObject* const remove = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyDict_Type), "__delitem__");
  if (!value && !PyDict_GetItemWithError(globals, name)) return true;  // the program will be told
  fixed(globals);
  written_.emplace(globals, name);
  return value ? effect(set, {globals, name, value}) : effect(remove, {globals, name});
}

bool Recorder::readsCell(PyObject* cell, PyObject* value) {
  uint32_t place = placeOf(cell);
  if (place == kInside || written(cell, nullptr)) return true;
  if (value) {
    read(Op::Cell, place, nullptr, 0, value);
  } else {
    checkIs(Op::NoCell, place, nullptr);
  }
  return true;
}

bool Recorder::writesCell(PyObject* cell, PyObject* value) {
  if (placeOf(cell) == kInside) return true;
  if (!value) return stop(Why::DeletesCell);
  if (speculative_) return stop(Why::WritesCell);
  written_.emplace(cell, nullptr);
  effects_.push_back({{}, {Ref::borrow(cell), Ref::borrow(value)}, {}});
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

// A write to an attribute or a key, in a call that is followed without running it: what was there is put back.
bool Recorder::undoes(PyObject* callable, const std::vector<PyObject*>& args) {
  static PyObject* const setAttribute =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__setattr__");
  static PyObject* const setItem = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyDict_Type), "__setitem__");
  if (args.size() != 3) return false;
  PyObject* dict = nullptr;
  if (callable == setItem && PyDict_CheckExact(args[0])) dict = args[0];
  if (callable == setAttribute && isPythonClass(Py_TYPE(args[0])) && !isTensor(args[0])) {
    PyObject* descriptor = _PyType_Lookup(Py_TYPE(args[0]), args[1]);
    if (!descriptor || !Py_TYPE(descriptor)->tp_descr_set) dict = instanceDict(args[0]);
  }
  if (!dict) return false;
  undo_.push_back({Ref::borrow(dict), Ref::borrow(args[1]), Ref::borrow(PyDict_GetItemWithError(dict, args[1]))});
  return true;
}

void Recorder::undo() {
  for (auto each = undo_.rbegin(); each != undo_.rend(); ++each) {
    if (each->before) {
      PyDict_SetItem(each->dict.get(), each->key.get(), each->before.get());
    } else {
      PyDict_DelItem(each->dict.get(), each->key.get());
    }
  }
  undo_.clear();
}

bool Recorder::effect(PyObject* callable, const std::vector<PyObject*>& args, PyObject* names) {
  bool ofDouble = doubles_ && !args.empty() && doubles_->isDouble(args[0]);
  if (speculative_ && !ofDouble && !undoes(callable, args)) {
    return stop({Why::ChangesSomething, args.empty() ? "something" : "a " + std::string(Py_TYPE(args[0])->tp_name)});
  }
  Effect made;
  made.callable = Ref::borrow(callable);
  for (PyObject* arg : args) made.arguments.push_back(Ref::borrow(arg));
  made.names = Ref::borrow(names);
  effects_.push_back(std::move(made));
  return true;
}

bool Recorder::imports(PyObject* name, PyObject* fromlist, PyObject* level) {
  return !speculative_ || mayImport(name, fromlist, level);
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
