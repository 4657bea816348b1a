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

}  // namespace saker::frontend
