// What compiled functions tell on stderr: topics chosen by SAKER_LOGS, and a line when a first call takes long.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace saker::frontend {

enum class Topic : uint8_t {
  Captures,    // each first call: how long, how many operators and guards
  Breaks,      // why a call was not captured, and where
  Recompiles,  // which guard failed before a call is recorded once more
  Guards,      // all guards of what was captured
  Graph,       // the captured operators
  Effects,     // what replaying does besides
  Replays,     // each replayed call
  Stages,      // each stage of compiling: how long, how many operators
  Notices,     // once for a place, that a function runs eagerly: what every user is told
};

// Is anybody listening? A look at one number.
bool logs(Topic topic);
// One or several lines, to Python's sys.stderr.
void log(Topic topic, std::string_view text);
// A list such as "breaks,guards" or "all"; gives back the names that are no topics, in order. Whoever listens to
// anything gets notices as well; an empty list is silence.
std::string setLogs(std::string_view topics);
std::string logTopics();

// Tells of a first call that takes long: once after `after` seconds, then each time ten times as much has passed. It
// tells people who wait: where sys.stderr is a terminal, or logs are asked for.
class Progress {
 public:
  explicit Progress(std::string function);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Called often while one lives on this thread.
  static void tick();
  void phase(const char* what) { phase_ = what; }
  double seconds() const;
  // Seconds until the first line; for tests.
  static double& after();

 private:
  void tell(double passed);

  std::string function_;
  const char* phase_ = "running and recording";
  std::chrono::steady_clock::time_point start_;
  double next_;
  bool told_ = false;
  Progress* outer_;
};

}  // namespace saker::frontend
