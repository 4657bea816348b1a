// How a recording ends before the call does: with a reason, and the line of the user that led there.
#include "frontend/compiling_question.h"
#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"
#include "frontend/user_lines.h"
#include "host/kept_error.h"
#include "host/objects.h"
#include "host/symbol_watch.h"
#include "watch/loop.h"

namespace saker::frontend {

namespace {

std::string textOf(PyObject* unicode) {
  const char* data = unicode ? PyUnicode_AsUTF8(unicode) : nullptr;
  if (!data) PyErr_Clear();
  return data ? data : "?";
}

}  // namespace

Stop Recorder::stopAt(Stop at) const {
  const KeptError kept;
  if (!at.op.empty() && at.did.empty()) at.did = doing();
  std::vector<watch::Place> places = watch::places();
  bool users = false;
  for (const watch::Place& place : places) {
    at.file = textOf(place.code->co_filename);
    at.line = place.line;
    users = !isInstalled(at.file);
    if (users) break;
  }
  // A model of a library, say: the line that calls it.
  Definition caller = users ? Definition() : lineOfUser();
  if (!caller.file.empty()) {
    at.file = caller.file;
    at.line = caller.line;
  }
  std::string inner = places.empty() ? "" : textOf(places[0].code->co_filename);
  if (isInstalled(inner) && inner != at.file) at.library = inPackage(inner) + ":" + std::to_string(places[0].line);
  return at;
}

void Recorder::doesCall(PyObject* callable) {
  doing_ = "", doingCall_ = nullptr, doesMethod_ = false;
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    doingCall_ = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
    doesMethod_ = self && isTensor(self);
  } else if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) {
    doingCall_ = reinterpret_cast<PyMethodDescrObject*>(callable)->d_method->ml_name;
    doesMethod_ = PyType_IsSubtype(tensorClass(), PyDescr_TYPE(callable));
  } else if (PyType_Check(callable) && !(reinterpret_cast<PyTypeObject*>(callable)->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
    doingCall_ = reinterpret_cast<PyTypeObject*>(callable)->tp_name;  // int, float, bool
  }
}

std::string Recorder::doing() const {
  if (!doingCall_) return doing_;
  std::string name = doingCall_;
  if (doesMethod_) return "." + name + "() of a tensor";
  bool converts = name == "bool" || name == "int" || name == "float" || name == "complex";
  return name + (converts ? "() of a tensor" : "()");
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
  tracing::leaveTape(tape_);
  CompilingQuestion* question = CompilingQuestion::current();
  bool again = question && question->mayHelp();  // this call runs eagerly, and the next is told something else
  if (raising_ && !again && !quiet && !PyErr_Occurred()) raiseStop(*stopped_);
  return false;
}

void Recorder::failed(const char* what) { stop(Stop(Why::Internal, what)); }

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
  if (std::exchange(begun_, false)) {
    for (Subject* each : subjects_->asked(Question::GoesOn)) each->goesOn();
  }
  if (speculative_ && !abandoned_) {
    const SymbolWatch* watch = SymbolWatch::current();
    if (watch && !watch->failure().empty()) stop({Why::SymbolFailed, watch->failure()}, /*quiet=*/true);
  }
  if (stopped_ || abandoned_ || !tape_.spoiled()) return;
  stop(*tape_.spoiled(), /*quiet=*/true);
  // The program may have come to another line since.
  const ir::Location* at = tape_.spoiledAt();
  if (stopped_ && at) {
    std::string inside = inPackage(std::string(at->file)) + ":";
    if (at->file == stopped_->file) stopped_->line = static_cast<int>(at->line);
    if (stopped_->library.starts_with(inside)) stopped_->library = inside + std::to_string(at->line);
  }
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

}  // namespace saker::frontend
