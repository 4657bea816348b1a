#include "frontend/usage.h"

#include <algorithm>
#include <vector>

namespace saker::frontend {

std::optional<double> Times::median() const {
  std::vector<int64_t> all(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(std::min(count_, kept_.size())));
  if (all.empty()) return std::nullopt;
  auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return static_cast<double>(*middle) * 1e-9;
}

void Times::add(const Times& others) {
  for (size_t i = 0; i < std::min(others.count_, others.kept_.size()); ++i) {
    add(std::chrono::nanoseconds(others.kept_[i]));
  }
}

namespace {

std::vector<Usage>& kept() {
  static std::vector<Usage>& all = *new std::vector<Usage>;  // of the process: what saker.report() tells
  return all;
}

// What is called and told of two functions of one definition.
void add(Usage& to, Usage&& more) {
  to.replays += more.replays;
  to.recordings += more.recordings;
  to.eager += more.eager;
  for (const auto& [why, count] : more.eagerCalls) to.eagerCalls[why] += count;
  for (const auto& [why, count] : more.told) to.told[why] += count;
  for (auto& [why, stop] : more.stops) to.stops.insert_or_assign(why, std::move(stop));
  to.replayed.add(more.replayed);
  to.ran.add(more.ran);
  to.forced.add(more.forced);
  if (to.first == 0) to.first = more.first;
  if (!more.changed.empty()) to.changed = std::move(more.changed);
}

}  // namespace

void keepUsage(Usage usage) {
  constexpr size_t kMost = 64;
  if (usage.calls() == 0 || usage.name.empty()) return;
  for (Usage& each : kept()) {
    if (each.name == usage.name && each.file == usage.file && each.line == usage.line)
      return add(each, std::move(usage));
  }
  if (kept().size() == kMost) kept().erase(kept().begin());
  kept().push_back(std::move(usage));
}

const std::vector<Usage>& keptUsage() { return kept(); }
void forgetKeptUsage() { kept().clear(); }

}  // namespace saker::frontend
