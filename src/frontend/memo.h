// What a successful check of guards found, and what must be unchanged for a check to find the same again: versions of
// dicts, types of instances, the dicts they have. Objects that are reached from outside of the arguments through dicts
// (a model's modules, globals) are then not looked up again.
//
// Exact: a version is never given twice, and each witness keeps alive what the next ones look at. What no version
// tells (tensors, lists, sets, functions) is checked every time.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

namespace saker::frontend {

class Guards;
struct CallArguments;

class Memo {
 public:
  enum class Answer : uint8_t { Holds, Fails, Unknown };

  bool armed() const { return armed_; }
  // After a check that succeeded, with what it found.
  void arm(const Guards& guards, const std::vector<PyObject*>& found);
  // Unknown: something moved, and everything has to be checked.
  Answer check(Guards& guards, const CallArguments& call, std::vector<PyObject*>& found);
  void disarm();

 private:
  // Of an instance: its type and its dict; of a dict: its version; or of both.
  struct Witness {
    PyObject* object;    // or nullptr
    PyTypeObject* type;  // of the object
    PyObject** slot;     // where the object has its dict, or nullptr
    PyObject* dict;      // or nullptr
    uint64_t version;
    uint32_t lookups;  // what is looked up in the dict; or the one instruction that loads a pointer
    bool load;         // an instruction that must find the same object
  };

  class Builder;
  bool lookAgain(Witness& witness, Guards& guards, const CallArguments& call, std::vector<PyObject*>& found);

  std::vector<Witness> witnesses_;
  std::vector<std::vector<uint32_t>> lookups_;  // instructions, by witness
  std::vector<uint32_t> rest_;                  // instructions that run every time
  std::vector<PyObject*> found_;
  bool armed_ = false;
};

}  // namespace saker::frontend
