// What a trace asks of the language it serves. A C++ program needs none of it; Python's part is in src/host.
#pragma once

#include <exception>
#include <optional>
#include <string>

#include "aten/infer.h"
#include "ir/context.h"
#include "ops/infer.h"

namespace saker::tracing {

// Hooks of a program that is all C++.
aten::Hooks plainHooks();

struct Host {
  aten::Hooks hooks = plainHooks();
  // The user's place in the program, or nullptr where it is not known. Never waits for another thread.
  const ir::Location* (*location)(ir::Context& context) = nullptr;
  // An error of that language. `op` may be empty, `location` nullptr. Without it, a CaptureError.
  std::exception_ptr (*error)(const ops::Refusal& refusal, const std::string& op,
                              const ir::Location* location) = nullptr;
  // Raises an error that may have been raised before.
  void (*rethrow)(const std::exception_ptr& error) = [](const std::exception_ptr& e) { std::rethrow_exception(e); };
  // Is the operator that arrives called by a gradient formula written around it, which has switched autograd off?
  bool (*insideOwnGradient)() = nullptr;
  // The program asks data a question, and raises unless the answer is this. Nothing: it is no such question.
  std::optional<bool> (*checkedTruth)() = nullptr;
  // The program chooses among objects by asking data: a graph asks again, and where the answer is another one, the
  // program itself is called.
  bool (*chooses)() = nullptr;
  // Runs a function that may wait for another thread, which may need what this one holds (Python's lock).
  void (*wait)(void (*function)(void*), void* argument) = nullptr;
  // Is the tensor made of other tensors, by a class of that language that answers operators itself?
  bool (*isWrapper)(const at::Tensor& tensor) = nullptr;
  // May another thread run the program, or write to its tensors?
  bool (*othersRun)() = [] { return false; };
  // Runs a function whose doings in that language nobody watches.
  void (*unwatched)(void (*function)(void*), void* argument) = nullptr;
};

}  // namespace saker::tracing
