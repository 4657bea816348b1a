// Operators of the user's that write, as graphs without writes have them: for each there is one of ours that calls it
// on copies of what it writes, and gives its results and then the copies, in one list. What the user's operator does
// beside happens as ever, once for each call.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string_view>
#include <vector>

namespace saker::aten {

bool isWritten(const c10::Argument& argument);

// The operator on copies. It takes the arguments that the user's takes, and is made when it is first asked for.
c10::OperatorHandle onCopies(const c10::OperatorHandle& op);
bool isOnCopies(std::string_view qualified);

// How far a kernel moves the version counters of what it writes is its own affair, and known when it has run: while one
// lives, it is noted for each call of an operator on copies, by copy.
class WriteMeter {
 public:
  WriteMeter();
  ~WriteMeter();
  WriteMeter(const WriteMeter&) = delete;
  WriteMeter& operator=(const WriteMeter&) = delete;

  const std::vector<std::vector<uint32_t>>& calls() const { return calls_; }

 private:
  friend class OnCopies;
  std::vector<std::vector<uint32_t>> calls_;
  WriteMeter* around_;
};

}  // namespace saker::aten
