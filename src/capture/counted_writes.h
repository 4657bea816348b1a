// How far operators move version counters, told from their schemas. The counters themselves also show what other
// threads write, and take back.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "aten/version_counter.h"
#include "capture/call.h"

namespace saker::tracing {

class CountedWrites {
 public:
  using Counters = std::vector<const void*>;

  // Those that a call moves, once each; the run takes the arguments off the stack.
  static Counters of(const Call& call) {
    Counters counters;
    eachCounted(call, [&](const at::Tensor& tensor) { counters.push_back(aten::counterOf(tensor)); });
    return counters;
  }
  void add(const Counters& counters) {
    for (const void* counter : counters) ++moves_[counter];
  }
  uint32_t to(const at::Tensor& tensor) const {
    auto found = moves_.find(aten::counterOf(tensor));
    return found == moves_.end() ? 0 : found->second;
  }

 private:
  std::unordered_map<const void*, uint32_t> moves_;
};

}  // namespace saker::tracing
