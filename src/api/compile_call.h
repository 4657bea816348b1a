// Compiling a C++ function for one call: it is captured on stand-ins with its backward, or it is said why it cannot be.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "api/variant.h"
#include "saker/saker.h"

namespace saker::api {

struct Outcome {
  std::shared_ptr<const aot::CompiledFunction> compiled = nullptr;
  std::string reason = {};  // why not, and what to do
  // The function raised an error itself, on stand-ins as it would on the inputs: it is to be called, so that the error
  // is its own.
  bool raises = false;
};

// Calls the function on stand-ins for the inputs. `symbols` are the sizes that may change. Nothing that it would have
// changed is changed afterwards.
Outcome compileCall(const Function& function, const Tensors& inputs, std::span<const SizePlace> symbols,
                    double memoryBudget);

}  // namespace saker::api
