#include "runtime/launches.h"

#include <algorithm>

#include "runtime/parallel.h"

namespace saker::runtime {

void Launches::add(kernel::Function function, std::span<void* const> buffers, std::span<const int64_t> arguments,
                   int64_t steps, int64_t work) {
  if (steps <= 0) return;
  int64_t begin = tasks_.empty() ? 0 : tasks_.back().end;
  tasks_.push_back({function, buffers_.size(), arguments_.size(), steps, begin, begin + std::max<int64_t>(1, work)});
  buffers_.insert(buffers_.end(), buffers.begin(), buffers.end());
  arguments_.insert(arguments_.end(), arguments.begin(), arguments.end());
}

void Launches::runPart(int64_t begin, int64_t end) const {
  auto first =
      std::upper_bound(tasks_.begin(), tasks_.end(), begin, [](int64_t at, const Task& task) { return at < task.end; });
  for (auto task = first; task != tasks_.end() && task->begin < end; ++task) {
    // The same steps end one part and begin the next.
    auto stepAt = [&](int64_t at) {
      if (at <= task->begin) return int64_t{0};
      if (at >= task->end) return task->steps;
      double share = static_cast<double>(at - task->begin) / static_cast<double>(task->end - task->begin);
      return std::min(task->steps, static_cast<int64_t>(share * static_cast<double>(task->steps)));
    };
    int64_t from = stepAt(begin), to = stepAt(end);
    if (from < to) task->function(buffers_.data() + task->buffers, arguments_.data() + task->arguments, from, to);
  }
}

void Launches::run() {
  if (tasks_.empty()) return;
  const int64_t all = tasks_.back().end, parts = all / kWorkOfTask;
  if (parts < 2) return runPart(0, all);
  auto part = [&](int64_t begin, int64_t end) { runPart(all / parts * begin, end == parts ? all : all / parts * end); };
  inParallel(parts, 1, part);
}

}  // namespace saker::runtime
