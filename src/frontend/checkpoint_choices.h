// Policies of selective checkpoints (create_selective_checkpoint_contexts). While a call is recorded, the program's
// policy is asked about each operator as in eager mode, and watched: what it reads is guarded, and its answer stands in
// the operator's node. A replay does not ask again.
#pragma once

#include <Python.h>

#include <cstdint>

#include "capture/tape.h"
#include "watch/loop.h"
#include "watch/ref.h"

namespace saker::frontend {

class Recorder;

namespace checkpoints {

// Calls a function of the program from below code that is not watched. A new reference, or nullptr with an error set.
PyObject* callWatched(Recorder& recorder, const watch::Pause& pause, PyObject* function, PyObject* args,
                      PyObject* kwargs);

// While one lives, answers of the policy of one checkpoint are marked in what this thread records.
class Choices {
 public:
  // `tape`: what the operators, which run, are written on; nullptr: they do not run.
  Choices(Recorder& recorder, tracing::Tape* tape, uint16_t region);
  ~Choices();
  Choices(const Choices&) = delete;
  Choices& operator=(const Choices&) = delete;

  // The two contexts that the program's function makes, a new reference. It is watched. Contexts that are not those of
  // a policy stop the recording.
  PyObject* contexts(PyObject* function, const watch::Pause& pause);
  // The first of them, in which the function runs; nullptr: it has not been made.
  PyObject* mode() const { return mode_.get(); }
  // The same function, called in that context. A new reference.
  PyObject* call(PyObject* function, PyObject* args, PyObject* kwargs) const;

 private:
  static Choices* of(PyObject* mode);
  static PyObject* dispatch(PyObject* mode, PyObject* args);
  static PyObject* ask(PyObject* policy, PyObject* args, PyObject* kwargs);
  bool watchPolicy();

  Recorder& recorder_;
  tracing::Tape* tape_;
  uint16_t region_;
  Ref mode_;
  Ref ask_;  // what is called in place of the policy
  bool saves_ = false;
  Choices* outer_;
};

}  // namespace checkpoints
}  // namespace saker::frontend
