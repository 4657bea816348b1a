#include "host/trace_host.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include <memory>
#include <string>
#include <unordered_map>

#include "capture/symbolic_number.h"
#include "host/errors.h"
#include "host/gil.h"
#include "host/number_failure.h"
#include "host/symbol_watch.h"
#include "runtime/number_failure.h"
#include "watch/once.h"

namespace saker {

namespace py = pybind11;

namespace {

std::string_view text(PyObject* unicode) {
  Py_ssize_t size = 0;
  const char* data = unicode ? PyUnicode_AsUTF8AndSize(unicode, &size) : nullptr;
  if (!data) {
    PyErr_Clear();
    return "?";
  }
  return {data, static_cast<size_t>(size)};
}

// Frames of PyTorch and of this package are not the user's. Decided once for each code object, which is kept: a freed
// one's address may come again.
class UserCode {
 public:
  // Lines of the user's code by instruction: Python looks for one from the beginning of the function. nullptr: it is
  // not the user's.
  using Lines = std::unordered_map<int, int>;
  Lines* linesOf(PyCodeObject* code) {
    auto known = codes_.find(code);
    if (known == codes_.end()) {
      std::string_view file = text(code->co_filename);
      bool users = !startsWith(file, torchRoot()) && !startsWith(file, ownRoot()) && file.substr(0, 1) != "<";
      Py_INCREF(code);
      known = codes_.emplace(code, users ? std::make_unique<Lines>() : nullptr).first;
    }
    return known->second.get();
  }

 private:
  static bool startsWith(std::string_view file, const std::string& root) {
    return !root.empty() && file.substr(0, root.size()) == root;
  }
  static std::string folderOf(const char* module) {
    std::string file = py::cast<std::string>(py::module_::import(module).attr("__file__"));
    return file.substr(0, file.rfind('/') + 1);
  }
  static const std::string& torchRoot() {
    static constinit watch::Once<std::string> root;
    return root.get([] { return folderOf("torch"); });
  }
  static const std::string& ownRoot() {
    static constinit watch::Once<std::string> root;
    return root.get([] { return folderOf("saker"); });
  }

  std::unordered_map<PyCodeObject*, std::unique_ptr<Lines>> codes_;
};

int lineOf(PyFrameObject* frame, UserCode::Lines& lines) {
  auto [known, isNew] = lines.try_emplace(PyFrame_GetLasti(frame));
  if (isNew) known->second = PyFrame_GetLineNumber(frame);
  return known->second;
}

// The innermost frame that is the user's. PyTorch lets go of the interpreter's lock before it calls an operator.
const ir::Location* location(ir::Context& context) {
  py::gil_scoped_acquire gil;
  static UserCode& users = *new UserCode;  // never destroyed: it holds Python objects
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  const ir::Location* found = nullptr;
  while (frame && !found) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    if (UserCode::Lines* lines = users.linesOf(code)) {
      found = context.location(text(code->co_filename), lineOf(frame, *lines), text(code->co_qualname));
    }
    Py_DECREF(code);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return found;
}

// Operators of torch.library with a gradient written in Python are called by frames of that file.
bool insideOwnGradient() {
  py::gil_scoped_acquire gil;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  bool found = false;
  while (frame && !found) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    std::string_view file = text(code->co_filename);
    bool formula = file.ends_with("torch/_library/autograd.py");
    found = formula && text(code->co_name) == "forward";  // and not what it calls where autograd is off already
    bool library = formula || file.find("torch/_library/") != std::string_view::npos ||
                   file.ends_with("torch/_ops.py") || file.ends_with("torch/autograd/function.py");
    Py_DECREF(code);
    PyFrameObject* back = library ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return found;
}

std::exception_ptr error(const ops::Refusal& refusal, const std::string& op, const ir::Location* where) {
  py::gil_scoped_acquire gil;
  PyErr_Clear();  // what a kernel in Python may have left is in the refusal
  py::object type = py::module_::import("saker.errors").attr("CaptureError");
  py::object file = where ? py::object(py::str(where->file.data(), where->file.size())) : py::none();
  py::object raised = type(std::string(ops::name(refusal.reason)), refusal.message, op, file, where ? where->line : 0);
  PyErr_SetObject(type.ptr(), raised.ptr());
  python_error kept;
  kept.persist();
  return std::make_exception_ptr(std::move(kept));
}

// An error of Python's is used up when it is raised: a copy is.
bool isCaptureError(PyObject* error) {
  Ref type = Ref::steal(errorClass("CaptureError"));
  return type && PyObject_IsInstance(error, type.get()) == 1;
}

// An error of the same class that says the same. Python keeps with an error the frames that it went through, and what
// is in them: one that is told again and again would keep them all.
PyObject* anew(PyObject* error) {
  PyTypeObject* type = Py_TYPE(error);
  Ref args = Ref::steal(PyObject_GetAttrString(error, "args"));
  Ref fresh = Ref::steal(args ? reinterpret_cast<PyTypeObject*>(PyExc_BaseException)->tp_new(type, args.get(), nullptr)
                              : nullptr);
  Ref from = Ref::steal(fresh ? PyObject_GetAttrString(error, "__dict__") : nullptr);
  Ref to = Ref::steal(from ? PyObject_GetAttrString(fresh.get(), "__dict__") : nullptr);
  if (!to || PyDict_Update(to.get(), from.get()) != 0) {
    PyErr_Clear();
    return Py_NewRef(error);
  }
  return fresh.release();
}

void rethrow(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const python_error& kept) {
    py::gil_scoped_acquire gil;
    python_error copy(kept);
    if (copy.value && isCaptureError(copy.value)) {
      PyObject* shared = std::exchange(copy.value, anew(copy.value));
      Py_XDECREF(shared);
      Py_CLEAR(copy.traceback);
    }
    throw copy;
  }
}

c10::IValue symbolicNumber(const at::Tensor& wrapped) {
  py::gil_scoped_acquire gil;
  py::object number = py::getattr(py::cast(wrapped), "_wrapped_number", py::none());
  if (torch::is_symint(number)) return py::cast<c10::SymInt>(number);
  if (torch::is_symfloat(number)) return py::cast<c10::SymFloat>(number);
  if (torch::is_symbool(number)) return py::cast<c10::SymBool>(number);
  return {};
}

void wait(void (*function)(void*), void* argument) {
  if (!PyGILState_Check()) return function(argument);
  py::gil_scoped_release released;
  function(argument);
}

}  // namespace

std::string errorText(const std::exception& error) {
  py::gil_scoped_acquire gil;  // PyTorch lets go of it before it calls an operator
  if (isInterruption(error)) throw;
  if (PyErr_Occurred()) return py::str(py::error_already_set().value());
  if (const auto* ours = dynamic_cast<const c10::Error*>(&error)) return ours->what_without_backtrace();
  return error.what();
}

bool othersRun() {
  HoldInterpreter gil;
  return !onlyPythonThread();
}

tracing::Host pythonHost() {
  tracing::Host host;
  host.hooks = {&errorText, &unwrapPythonNode};
  host.location = &location;
  host.insideOwnGradient = &insideOwnGradient;
  host.error = &error;
  host.rethrow = &rethrow;
  tracing::setSymbolicNumber(&symbolicNumber);
  runtime::setNumberFailure(&raiseNumberFailure);
  host.wait = &wait;
  host.othersRun = &othersRun;
  return host;
}

}  // namespace saker
