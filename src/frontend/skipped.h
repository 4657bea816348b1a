// Which frames of a program are not watched while it is recorded.
#pragma once

#include <Python.h>

#include <unordered_map>
#include <vector>

#include "watch/observer.h"
#include "watch/ref.h"

namespace saker::frontend {

class Skipped {
 public:
  watch::Skip of(PyCodeObject* code, PyCodeObject* passed);

 private:
  enum class Place : uint8_t {
    Program,
    Torch,    // some file of PyTorch's
    Library,  // the inside of torch.library
    Kernel,   // the function in there that calls a kernel of the user's
    Aside,    // the import system, books of torch.compile, and the like
  };
  Place placeOf(PyCodeObject* code);

  std::unordered_map<PyCodeObject*, Place> places_;
  std::vector<Ref> kept_;  // the codes, so that their addresses stay theirs
};

}  // namespace saker::frontend
