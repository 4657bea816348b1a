// A call with stand-ins is an attempt: it sees symbols where a real call sees numbers, and nothing that it reaches may
// keep anything of it. What would tell the difference, or could not be taken back, ends it before it happens.
#pragma once

#include "frontend/subject.h"

namespace saker::frontend {

class Attempt final : public SubjectOf<Attempt> {
 public:
  using SubjectOf::SubjectOf;
  ~Attempt() override;

  // Would an operation see this symbol for what it is? Then the recording ends. nullptr: it sees none.
  bool shows(PyObject* symbol, const char* how);
  bool showsInCall(Behaviour behaviour, PyObject* callable, const Values& args);
  bool mayMake(PyTypeObject* type);
  bool mayCall(Behaviour behaviour, PyObject* callable, const Values& args);
  bool mayAskCache(PyObject* cached, const Values& args, PyObject* names);
  bool mayImport(PyObject* name, PyObject* fromlist, PyObject* level);

 private:
  bool entered_ = false;  // the level of forward mode, which the call has not left yet
};

}  // namespace saker::frontend
