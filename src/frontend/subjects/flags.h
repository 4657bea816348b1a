// What surrounds operators and is none itself: flags of PyTorch's, hooks on what autograd saves, function modes, and
// questions whose answer may be another one at the next call.
#pragma once

#include <set>
#include <string>

#include "frontend/ambient.h"
#include "frontend/subject.h"

namespace saker::frontend {

class FlagsAround final : public SubjectOf<FlagsAround> {
 public:
  using SubjectOf::SubjectOf;

  // The function modes around the call: every operator asks them.
  void meetModes();
  // The call is over: the function modes that it leaves, where they are others than it was called with.
  std::optional<std::vector<Ref>> leftModes() const;
  // The call is over, and has changed the grad mode, and nothing else around it: that is done again.
  bool leavesGradMode(const Ambient& before);
  const std::vector<Asked>& asked() const { return asked_; }
  void add(Asked asked) { asked_.push_back(std::move(asked)); }
  // How many flags have been set so far.
  size_t setCount() const { return count_; }
  // A question to C code: it is asked again before a replay.
  bool asks(PyObject* callable, const Values& args);

  Answer calls(PyObject* callable, const Values& args, PyObject* names) override;
  Answer behaves(Behaviour behaviour, PyObject* callable, const Values& args, PyObject* names) override;
  Answer callsFunction(PyObject* function, const watch::Arguments& arguments) override;

 private:
  bool sets(PyObject* callable, const Values& args, PyObject* names);
  bool packsSaved(const Values& hooks);
  bool asksForException(PyObject* callable);
  // A function mode is asked by every operator from now on.
  bool meetsMode(PyObject* mode);

  std::vector<Ref> modes_;  // of functions, around the call
  std::vector<Asked> asked_;
  std::set<std::string> set_;
  size_t count_ = 0;
};

}  // namespace saker::frontend
