// A call of a Python function that only computes with tensors, as a program: no effects, no random numbers of Python's,
// no code of the user's inside, no decision that depends on data. It can be run on other tensors, stand-ins too.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <memory>
#include <string>
#include <vector>

#include "frontend/segment.h"

namespace saker::frontend {

class Computation {
 public:
  struct Recorded {
    Ref result;  // nullptr with an error set: the function has raised
    std::unique_ptr<Computation> computation;
    std::string why;  // there is none
  };
  // Calls the function with a tuple of arguments, and writes down what it does.
  static Recorded record(PyObject* function, PyObject* arguments);
  // Is one being written down on this thread?
  static bool recording();

  // `arguments` are those of the call with placeholders, any objects, where it was given tensors: what else was read
  // is looked up through them from now on. False: something does not hold, or a tensor is used that is none of
  // these.
  bool bind(PyObject* arguments, const std::vector<PyObject*>& placeholders);
  // Does all that was read hold? `around`: and is what surrounds a call as it was, flags that the function asked for
  // among it?
  bool holds(bool around) const;
  bool asksFlags() const;
  // The placeholders of tensors that it writes to, by their numbers.
  std::vector<size_t> writes() const;
  // Would the call have been the same with these tensors, by placeholder? `exact`: also by their strides.
  bool fits(const std::vector<at::Tensor>& tensors, bool exact) const;
  // What the function gives. A new reference, or nullptr with an error set.
  PyObject* run(const std::vector<at::Tensor>& tensors) const;
  // Does the function look at this attribute or key?
  bool looksAt(const char* name) const;
  // Does it ask for strides of tensors? Which ones it was given is then of interest.
  bool asksStrides() const { return segment_.guards.asksStrides; }

 private:
  CallArguments call() const;
  std::string finish(Recorder& recorder, tracing::Tape& tape, PyObject* result);
  bool dropTensors();

  Segment segment_;
  std::vector<std::pair<uint32_t, TensorShape>> shapes_;  // of places
  std::vector<Ref> arguments_, placeholders_;
  std::vector<Ref> places_;        // what is there that is no tensor
  std::vector<uint32_t> numbers_;  // by place: one above the number of its placeholder
  mutable Found found_;
};

}  // namespace saker::frontend
