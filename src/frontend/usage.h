// How often a compiled function was replayed, recorded and run eagerly, why, and how long such calls take: what
// saker.stats()["functions"] and saker.report() tell. A replay pays for one addition and one comparison; the clock is
// read in the first replays, then in every 64th.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "capture/reasons.h"

namespace saker::frontend {

// The times of the calls that were measured last.
class Times {
 public:
  void add(std::chrono::nanoseconds took) { kept_[count_++ % kept_.size()] = took.count(); }
  void add(const Times& others);
  // In seconds; nothing: none was measured.
  std::optional<double> median() const;

 private:
  std::array<int64_t, 32> kept_{};
  size_t count_ = 0;
};

struct Usage {
  std::string name, file;  // of the function, once it was recorded
  int line = 0;
  uint64_t replays = 0;
  uint64_t recordings = 0;
  uint64_t eager = 0;                  // calls of the function itself, which were not recorded
  std::map<Why, uint64_t> eagerCalls;  // of these, by reason; some have none: another thread was at work
  std::map<Why, Stop> stops;           // by reason, the last one that was told
  std::map<Why, uint64_t> told;        // how often
  Times replayed, ran;
  Times forced;         // calls that torch.compiler.set_stance("force_eager") kept from being replayed
  double first = 0;     // seconds of the first recording, with running the function and compiling
  std::string changed;  // what did not hold of the nearest recording when the function was last recorded again

  uint64_t calls() const { return replays + recordings + eager; }
};

// Of functions that do not exist any more: the last ones, one for each name and place.
void keepUsage(Usage usage);
const std::vector<Usage>& keptUsage();
void forgetKeptUsage();

// Measures one call in 64, and the first ones.
class Stopwatch {
 public:
  Stopwatch(uint64_t number, Times& times) : times_(number < 16 || number % 64 == 0 ? &times : nullptr) {
    if (times_) start_ = std::chrono::steady_clock::now();
  }
  ~Stopwatch() {
    if (times_) times_->add(std::chrono::steady_clock::now() - start_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  // The call went another way: it does not count.
  void drop() { times_ = nullptr; }

 private:
  Times* times_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace saker::frontend
