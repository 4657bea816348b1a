#include "frontend/notices.h"

#include <set>

#include "frontend/log.h"
#include "frontend/user_lines.h"
#include "host/kept_error.h"
#include "watch/loop.h"
#include "watch/ref.h"
#include "watch/traced.h"

namespace saker::frontend {

namespace {

std::set<std::string>& toldNotices() {
  static std::set<std::string>& all = *new std::set<std::string>;  // of the process: places, which are few
  return all;
}

// The line that led there; else the function's; of one that a library defines, the line that calls it.
Definition shownPlace(const Definition& defined, const Stop& why) {
  if (!why.file.empty() || !isInstalled(defined.file)) return defined;
  Definition caller = lineOfUser();
  return caller.file.empty() ? defined : caller;
}

}  // namespace

void tellOnce(PyObject* function, const std::string& what, const Stop& why) {
  if (!logs(Topic::Notices)) return;
  KeptError kept;
  std::string name = functionName(function);
  Definition at = why.file.empty() ? definitionOf(function) : Definition{why.file, why.line};
  Definition shown = shownPlace(at, why);
  std::string place = at.file + ":" + std::to_string(at.line);
  // These are about the process, and not about the function.
  bool everywhere = why.why == Why::Traced || why.why == Why::PythonVersion;
  std::string key = everywhere ? "" : place + " " + name + " " + what + " ";
  if (!toldNotices().insert(key + why.reason().name).second) return;
  if (logs(Topic::Breaks)) return;  // which has just told the same
  std::string text = name + " " + what + ": " + why.sentence();
  watch::Pause pause;
  // A tracer must not see frames of ours.
  bool traced = watch::traced();
  PyThreadState* state = PyThreadState_Get();
  if (traced) PyThreadState_EnterTracing(state);
  Ref module = Ref::steal(PyImport_ImportModule("saker._logs"));
  const StopReason& row = why.reason();
  Ref done = Ref::steal(module ? PyObject_CallMethod(module.get(), "tell", "sssis", text.c_str(), row.name.c_str(),
                                                     shown.file.c_str(), shown.line, row.hint)
                               : nullptr);
  PyErr_Clear();
  if (traced) PyThreadState_LeaveTracing(state);
}

void forgetNotices() { toldNotices().clear(); }

}  // namespace saker::frontend
