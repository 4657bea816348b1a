// Floats that change from call to call are inputs of the graph. Who records tells at which places they are found; the
// recorder then takes them as data, as it does numbers that are drawn at random.
#pragma once

#include <Python.h>

#include <set>
#include <string>
#include <unordered_set>

namespace saker::frontend {

// While one lives on this thread.
class FloatInputs {
 public:
  explicit FloatInputs(const std::set<std::string>& places);
  ~FloatInputs();
  FloatInputs(const FloatInputs&) = delete;
  FloatInputs& operator=(const FloatInputs&) = delete;

  // nullptr: floats are compared.
  static FloatInputs* current();
  // Is the float that was found at this place an input? Not if the program has the same object as a constant too:
  // objects are told apart by identity.
  bool takes(const std::string& place, PyObject* number) {
    return places_.contains(place) && !constants_.contains(number);
  }
  void constant(PyObject* number) { constants_.insert(number); }

 private:
  const std::set<std::string>& places_;
  std::unordered_set<PyObject*> constants_;
  FloatInputs* before_;
};

}  // namespace saker::frontend
