#include "frontend/notices.h"

#include <set>

#include "frontend/log.h"
#include "frontend/user_names.h"
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

}  // namespace

void tellOnce(PyObject* function, const std::string& what, const Stop& why) {
  if (!logs(Topic::Notices)) return;
  KeptError kept;
  std::string name = functionName(function);
  Definition at = why.file.empty() ? definitionOf(function) : Definition{why.file, why.line};
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
                                                     at.file.c_str(), at.line, row.hint)
                               : nullptr);
  PyErr_Clear();
  if (traced) PyThreadState_LeaveTracing(state);
}

void forgetNotices() { toldNotices().clear(); }

}  // namespace saker::frontend
