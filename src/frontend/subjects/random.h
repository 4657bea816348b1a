// Python's random numbers: drawn before the graph when the call is done again, in the same order. And the seed of
// PyTorch's, which operators of the graph set.
#pragma once

#include <unordered_map>

#include "frontend/subject.h"

namespace saker::frontend {

class Random final : public SubjectOf<Random> {
 public:
  using SubjectOf::SubjectOf;

  const std::vector<Draw>& draws() const { return draws_; }
  // Of a generator of random numbers that the call made; kInside: it is none.
  uint32_t placeOfGenerator(PyObject* object) const {
    auto found = generators_.find(object);
    return found == generators_.end() ? kInside : found->second;
  }

  void begins() override { seedCall_ = SeedCall::None; }
  Answer calls(PyObject* callable, const Values& args, PyObject* names) override;
  Answer callsFunction(PyObject* function, const watch::Arguments& arguments) override;
  bool called(PyObject* callable, PyObject* result, bool spread) override;
  void goesOn() override;

 private:
  enum class SeedCall : uint8_t { None, Seed, GetState, SetState };

  Answer makesGenerator(PyTypeObject* type, const Values& args);
  // Of any that is used: one that was not there before is being made.
  uint32_t generatorPlace(PyObject* generator);
  void drew(PyObject* result);
  void changedSeed(PyObject* result);

  std::optional<Draw> drawing_;
  std::vector<Draw> draws_;
  std::vector<std::vector<Ref>> making_;  // classes of generators that are called, and their arguments
  std::unordered_map<PyObject*, uint32_t> generators_;
  SeedCall seedCall_ = SeedCall::None;
  Ref seed_;  // or state, that is set
};

}  // namespace saker::frontend
