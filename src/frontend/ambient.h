// The state around a call that decides what operators do.
#pragma once

#include <ATen/SavedTensorHooks.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <string>
#include <vector>

#include "capture/reasons.h"
#include "watch/ref.h"

namespace saker::frontend {

struct Ambient {
  bool gradMode, inferenceMode, autocastCache, deterministic, deterministicWarnOnly, mkldnn;
  std::array<bool, 4> attention;  // which kernels may be chosen
  std::array<bool, 2> autocast;   // CPU, CUDA
  std::array<c10::ScalarType, 2> autocastType;
  c10::ScalarType defaultType;
  int64_t functionModes, dispatchModes;
  uint8_t functionState;  // is __torch_function__ of classes, or of modes as well, turned off?
  bool functorch, savedTensorHooks, anomaly, dualNumbers, jitTracing;
  bool belowAutograd, belowViews;  // inside of an operator's kernel, of which autograd, or nobody, sees what it calls
  bool handling;                   // the caller handles an exception

  static Ambient now();
  bool operator==(const Ambient&) const = default;
  std::string difference(const Ambient& other) const;
  // Every operator runs code of the user's, or is looked at by somebody: nothing stands in for it.
  bool seesOperators() const {
    return functorch || dispatchModes > 0 || savedTensorHooks || anomaly || dualNumbers || jitTracing;
  }
  Why whoSeesOperators() const;
};

// Flags of PyTorch's that a call may change while it runs, to put back where it fails.
class Flags {
 public:
  Flags();
  void restore() const;

 private:
  bool deterministic_, warnOnly_, fills_, mkldnn_, cudnn_, benchmark_, deterministicCudnn_;
  int threads_;
  c10::ScalarType defaultType_;
  at::impl::SavedTensorDefaultHooksTLS hooks_;
};

// An entry of the stack of function modes, from below; borrowed, nullptr: there are fewer.
PyObject* functionModeAt(int64_t index);
std::vector<Ref> functionModes();
void setFunctionModes(const std::vector<Ref>& modes);

// Takes the function modes off while it lives: what they do to operators is in the graph.
class NoFunctionModes {
 public:
  NoFunctionModes() : modes_(functionModes()) {
    if (!modes_.empty()) setFunctionModes({});
  }
  ~NoFunctionModes() { putBack(); }
  void putBack() {
    if (!modes_.empty()) setFunctionModes(modes_);
    modes_.clear();
  }
  NoFunctionModes(const NoFunctionModes&) = delete;
  NoFunctionModes& operator=(const NoFunctionModes&) = delete;

 private:
  std::vector<Ref> modes_;
};

}  // namespace saker::frontend
