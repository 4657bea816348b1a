// Calls of functions under saker.allow(). With tensors among the arguments the call is an operator of the graph, which
// makes it again. Without, the result is a number, a string or the like: the function is asked again before each
// replay, and the recording holds while the answer is the same.
#include <algorithm>

#include "frontend/allowed.h"
#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"
#include "host/objects.h"

namespace saker::frontend {

namespace {

class Allows final : public SubjectOf<Allows> {
 public:
  using SubjectOf::SubjectOf;

  Answer calls(PyObject* callable, const Values& args, PyObject* names) override;
  Answer callsFunction(PyObject* function, const watch::Arguments& arguments) override;
  Answer callsMethod(PyObject* method, const watch::Arguments& arguments) override;
  bool called(PyObject* callable, PyObject* result, bool spread) override;
  void goesOn() override;

 private:
  struct Pending {
    std::string name;
    std::optional<Asked> asked;                           // without tensors
    std::vector<std::pair<at::Tensor, int64_t>> written;  // those that it is given, and their versions
  };
  bool starts(PyObject* callable, const Values& args, PyObject* names);
  bool asks(PyObject* callable, const Values& args, PyObject* names);
  bool hosts(PyObject* callable, const Values& args, PyObject* names);
  void collect(PyObject* object, std::vector<at::Tensor>& into, int depth = 0) const;

  std::optional<Pending> pending_;
};

bool isConstant(PyObject* object) {
  if (!PyTuple_CheckExact(object)) return isAtom(object);
  PyObject* const* items = PySequence_Fast_ITEMS(object);
  return std::all_of(items, items + Py_SIZE(object), isConstant);
}

void Allows::collect(PyObject* object, std::vector<at::Tensor>& into, int depth) const {
  if (isTensor(object)) into.push_back(tensorOf(object));
  if (const Array* data = subjects().arrays.arrayOf(object)) into.push_back(data->tensor);
  if (depth > 4 || !(PyTuple_CheckExact(object) || PyList_CheckExact(object))) return;
  for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i) collect(PySequence_Fast_ITEMS(object)[i], into, depth + 1);
}

bool Allows::asks(PyObject* callable, const Values& args, PyObject* names) {
  const std::string& name = pending_->name;
  size_t byName = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0, positional = args.size() - byName;
  bool objects = false;
  Asked asked{Ref::borrow(callable), Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(positional))), {}, {}, true};
  for (size_t i = 0; i < positional; ++i) {
    bool constant = isConstant(args[i]) || named(args[i]);
    asked.places.push_back(constant ? kInside : placeOf(args[i]));
    if (!constant && asked.places.back() == kInside) return stop({Why::CallsWithMade, name});
    objects |= !constant;
    PyTuple_SET_ITEM(asked.arguments.get(), static_cast<Py_ssize_t>(i), Py_NewRef(constant ? args[i] : Py_None));
  }
  Ref keywords = Ref::steal(byName > 0 ? PyDict_New() : nullptr);
  for (size_t i = 0; i < byName; ++i) {
    if (!isConstant(args[positional + i])) return stop({Why::CallsWithObject, name});
    PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i)), args[positional + i]);
  }
  // It is asked before the call does anything.
  if (objects && !effects().list().empty()) return stop({Why::AllowedAfterEffects, name});
  if (keywords) {
    Ref tools = Ref::steal(PyImport_ImportModule("functools"));
    Ref partial = tools ? Ref::steal(PyObject_GetAttrString(tools.get(), "partial")) : Ref();
    Ref function = Ref::steal(PyTuple_Pack(1, callable));
    asked.function = partial ? Ref::steal(PyObject_Call(partial.get(), function.get(), keywords.get())) : Ref();
    PyErr_Clear();
    if (!asked.function) return stop({Why::CallsWithObject, name});
  }
  pending_->asked = std::move(asked);
  return true;
}

// Where it gives another size in a replay, the call begins again: nothing may have been done before.
bool Allows::hosts(PyObject* callable, const Values& args, PyObject* names) {
  if (!effects().list().empty()) return stop({Why::AllowedAfterEffects, pending_->name});
  if (tape().risk().firstDone) return stop({Why::MayFail, pending_->name});
  if (!subjects().arrays.hostsUserCode(callable, args, names)) return false;
  subjects().arrays.hosting()->repeatable = true;
  return true;
}

bool Allows::starts(PyObject* callable, const Values& args, PyObject* names) {
  std::string name = Operations::name(callable);
  if (speculative()) return stop({Why::AttemptCalls, name});
  std::vector<at::Tensor> tensors;
  for (PyObject* arg : args) collect(arg, tensors);
  expectEnd();
  pending_.emplace();
  pending_->name = name;
  if (!(tensors.empty() ? asks(callable, args, names) : hosts(callable, args, names))) {
    pending_.reset();
    return false;
  }
  for (const at::Tensor& each : tensors) {
    pending_->written.emplace_back(each, each.is_inference() ? 0 : static_cast<int64_t>(each._version()));
  }
  return true;
}

Answer Allows::calls(PyObject* callable, const Values& args, PyObject* names) {
  if (!isAllowed(callable)) return std::nullopt;
  pin(callable);
  if (!starts(callable, args, names)) return false;
  hideUsers(calling());
  return true;
}

Answer Allows::callsFunction(PyObject* function, const watch::Arguments& arguments) {
  if (!isAllowed(function)) return std::nullopt;
  size_t byName = arguments.names ? static_cast<size_t>(PyTuple_GET_SIZE(arguments.names)) : 0;
  Values args(arguments.values, arguments.values + arguments.positional + byName);
  if (!starts(function, args, arguments.names)) return false;
  hideUsers(function);
  return true;
}

Answer Allows::callsMethod(PyObject* method, const watch::Arguments& arguments) {
  if (!isAllowed(method)) return std::nullopt;
  size_t byName = arguments.names ? static_cast<size_t>(PyTuple_GET_SIZE(arguments.names)) : 0;
  Values args{PyMethod_GET_SELF(method)};
  args.insert(args.end(), arguments.values, arguments.values + arguments.positional + byName);
  PyObject* function = PyMethod_GET_FUNCTION(method);
  if (!named(function) || !starts(function, args, arguments.names)) return false;
  hideUsers(method);
  return true;
}

bool Allows::called(PyObject*, PyObject* result, bool) {
  std::optional<Pending> done = std::exchange(pending_, std::nullopt);
  if (!done) return false;
  for (const auto& [tensor, version] : done->written) {
    if (!tensor.is_inference() && static_cast<int64_t>(tensor._version()) != version) {
      stop({Why::AllowedWrites, done->name}, /*quiet=*/true);
      return false;
    }
  }
  std::vector<at::Tensor> given;
  collect(result, given);
  for (const at::Tensor& each : given) {
    bool known = provenance().placeOfTensor(each) != kInside || tape().made(each);
    for (const auto& [tensor, version] : done->written) {
      known |= each.is_same(tensor) || (each.has_storage() && tensor.has_storage() && each.is_alias_of(tensor));
    }
    if (!known) continue;
    stop({Why::AllowedGivesArgument, done->name}, /*quiet=*/true);
    return false;
  }
  if (!done->asked) return false;  // Arrays writes the operator down
  if (!isConstant(result)) {
    stop({Why::AllowedGives, done->name, Py_TYPE(result)->tp_name}, /*quiet=*/true);
    return false;
  }
  done->asked->answer = Ref::borrow(result);
  subjects().flags.add(std::move(*done->asked));
  return true;
}

void Allows::goesOn() {
  if (std::exchange(pending_, std::nullopt)) tape().spoil(Why::AllowedFailed);
}

}  // namespace

std::unique_ptr<Subject> makeAllows(Recorder& recorder) { return std::make_unique<Allows>(recorder); }

}  // namespace saker::frontend
