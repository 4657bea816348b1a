// What a program that is recorded is told when it asks torch.compiler.is_compiling().
//
// Programs that ask may compute something else where it is true, so they are given eager mode's answer, False. One that
// asks, and then looks at data, cannot be recorded that way: its next recording is told True.
#pragma once

#include <Python.h>

namespace saker::frontend {

class CompilingQuestion {
 public:
  // For recordings on this thread while it lives.
  explicit CompilingQuestion(bool answer);
  ~CompilingQuestion();
  CompilingQuestion(const CompilingQuestion&) = delete;
  CompilingQuestion& operator=(const CompilingQuestion&) = delete;

  // The question on this thread, or nullptr.
  static CompilingQuestion* current();
  // What to call in place of `callable`; nullptr: it is another function, or is to answer itself.
  PyObject* insteadOf(PyObject* callable);
  // Was the program told False, and might do without data if it was told True?
  bool mayHelp() const { return asked_ && !answer_; }

 private:
  bool answer_;
  bool asked_ = false;
  CompilingQuestion* outer_;
};

}  // namespace saker::frontend
