// What code of the user's changes that a replay runs as one operator: the forward of a torch.autograd.Function. A
// recording takes it for code that changes nothing but tensors, so the call must not read afterwards what it changed.
#pragma once

#include <memory>
#include <unordered_set>
#include <vector>

#include "watch/nested.h"
#include "watch/ref.h"

namespace saker::frontend {

// While one lives on this thread, changes are noted; one for each recording.
class Aside {
 public:
  Aside();
  ~Aside();
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

  // nullptr: nothing is recorded.
  static Aside* current();
  // Code of the user's begins to run as one operator, or has run.
  void begin();
  void end();
  // Has it changed this object: a container, an instance, a class, the globals of a module, a cell?
  bool changed(PyObject* object) const { return changed_.contains(object); }
  // Has it drawn random numbers of Python's?
  bool drew() const { return drew_; }

 private:
  class Watcher;
  void note(PyObject* object);

  std::unordered_set<PyObject*> changed_;
  std::vector<Ref> kept_;  // so that no other object gets the address of one
  bool drew_ = false;
  std::unique_ptr<Watcher> watcher_;
  std::unique_ptr<watch::Nested> nested_;
  Aside* before_;
};

}  // namespace saker::frontend
