#include "aot/user_writes.h"

#include "aot/sharing.h"

namespace saker::aot {

void noteUserWrites(Joint& joint, tracing::Trace& trace, const Callers& callers, std::span<const at::Tensor> results) {
  for (const tracing::UserWrite& write : trace.userWrites()) {
    Joint::UserWrite noted{write.counted, {}};
    for (const at::Tensor& target : write.targets) {
      std::vector<VersionCheck::Counter>& counters = noted.counters.emplace_back();
      for (size_t i = 0; i < callers.standIns.size(); ++i) {
        if (callers.standIns[i].defined() && sharesVersion(target, callers.standIns[i])) counters.push_back({false, i});
      }
      for (size_t i = 0; i < results.size(); ++i) {
        if (sharesVersion(target, results[i])) counters.push_back({true, i});
      }
    }
    joint.userWrites.push_back(std::move(noted));
  }
}

// What is not counted when it is recorded may not be counted at all: then eager mode's backward reads what it saved as
// it was written since. And what a backward moves is not measured.
void checkUserWrites(const Joint& joint, tracing::Trace& trace) {
  for (const tracing::UserWrite& write : trace.userWrites()) {
    if (joint.training && write.counted == 0) throw NotAheadOfTime(Why::UserOperatorUnseen);
  }
}

}  // namespace saker::aot
