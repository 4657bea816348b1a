// Why the last run of a recording on this thread failed, for whoever decides what to do instead.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace saker::runtime {

struct Failure {
  std::optional<uint32_t> node;  // the node of the recording that failed; none: it was not the recording that ran
  bool sizes = false;            // a result was of another size than was recorded, which is no error of the program's
};
Failure& lastFailure();

// A kernel below Python's key would take a subclass that answers operators itself for its empty memory.
void checkPlain(const std::string& op, const at::Tensor& result);

// Raised where a result is of another size than was recorded. Notes that it was.
[[noreturn]] void failForSizes(const std::string& op);

}  // namespace saker::runtime
