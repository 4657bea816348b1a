// Why the last run of a recording on this thread failed, for whoever decides what to do instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace saker::runtime {

struct Failure {
  std::optional<uint32_t> node;  // the node of the recording that failed; none: it was not the recording that ran
  bool sizes = false;            // a result was of another size than was recorded, which is no error of the program's
};
Failure& lastFailure();

// Raised where a result is of another size than was recorded. Notes that it was.
[[noreturn]] void failForSizes(const std::string& op);

}  // namespace saker::runtime
