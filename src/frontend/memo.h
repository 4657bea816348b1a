// What a successful check of guards found, and what must be unchanged for a check to find the same again: versions of
// dicts, types of instances, the dicts they have. Objects that are reached from outside of the arguments through dicts
// (a model's modules, globals) are then not looked up again.
//
// Exact: a version is never given twice, and each witness keeps alive what the next ones look at. What no version
// tells (tensors, lists, sets, functions) is checked every time. Where a dict, slot or cell was written to, an object
// at the address of the one from before may be another one, since that may have died: then only objects count as the
// same of which every check that follows would tell.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>
#include <torch/csrc/autograd/variable.h>

#include <array>
#include <cstdint>
#include <vector>

namespace saker::frontend {

class Guards;
struct CallArguments;
struct Found;

class Memo {
 public:
  enum class Answer : uint8_t { Holds, Fails, Unknown };

  bool armed() const { return armed_; }
  // After a check that succeeded, with what it found.
  void arm(const Guards& guards, const std::vector<PyObject*>& found);
  // Unknown: something moved, and everything has to be checked.
  Answer check(const Guards& guards, const CallArguments& call, Found& found);
  void disarm();

 private:
  // A word of memory that must not have moved: the type of an object, where it has its dict, the version of a dict,
  // what a cell holds.
  struct Word {
    const uint64_t* at;
    uint64_t value;
  };
  // What holds so far keeps alive what the words of the next level look at, so that these can be read in any order.
  // The versions of dicts come last; after them, loads that must find the same object.
  struct Level {
    uint32_t words, versions, loads;  // where they end
  };
  // What most parameters of a model have in common with others.
  struct Form {
    PyTypeObject* type;
    c10::DispatchKeySet keys;
    caffe2::TypeMeta dtype;
    bool requiresGrad, leaf;
    int64_t offset;
    size_t dims;
    std::array<int64_t, 4> sizes, strides;

    bool operator==(const Form&) const = default;
  };
  // A tensor that is where it was: it may have been given another shape all the same.
  struct Seen {
    PyObject* object;
    const c10::TensorImpl* impl;
    const torch::autograd::AutogradMeta* meta;
    uint32_t form, instruction;

    bool has(const Form& form) const;
  };

  class Builder;
  bool wordsHold(size_t from, size_t to, const Guards& guards, const CallArguments& call, Found& found);
  bool levelsHold(const Guards& guards, const CallArguments& call, Found& found);
  bool lookAgain(Word& word, const std::vector<uint32_t>& lookups, const Guards& guards, const CallArguments& call,
                 Found& found);

  std::vector<Word> words_;
  std::vector<std::vector<uint32_t>> lookups_;  // by word: instructions that look into a dict of that version
  std::vector<uint32_t> loads_;
  std::vector<Level> levels_;
  std::vector<Form> forms_;
  std::vector<Seen> tensors_;
  std::vector<uint32_t> rest_;  // instructions that run every time
  std::vector<PyObject*> found_;
  std::vector<uint32_t> copied_;  // places that are wanted of it
  bool armed_ = false;
  bool watched_ = false;  // all dicts are: their versions need not be read while no watched dict changes
  uint64_t changes_ = 0;  // the count of changes under which the versions held
};

}  // namespace saker::frontend
