#include "frontend/log.h"

#include <Python.h>

#include <array>
#include <cstdio>
#include <utility>

#include "frontend/notices.h"
#include "host/gil.h"
#include "passes/stages.h"

namespace saker::frontend {

namespace {

constexpr std::array kNames = {"captures", "breaks",  "recompiles", "guards", "graph",
                               "effects",  "replays", "stages",     "notices"};

uint32_t& chosen() {
  static uint32_t bits = 0;  // a setting of the process
  return bits;
}

void write(const std::string& line) { PySys_FormatStderr("%s\n", line.c_str()); }

thread_local Progress* current = nullptr;

// A person looks at sys.stderr, or has asked for logs.
bool anybodyReads() {
  if (chosen() != 0) return true;
  PyObject* stream = PySys_GetObject("stderr");
  PyObject* answer = stream ? PyObject_CallMethod(stream, "isatty", nullptr) : nullptr;
  bool reads = answer && PyObject_IsTrue(answer) == 1;
  Py_XDECREF(answer);
  PyErr_Clear();
  return reads;
}

std::string secondsText(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", seconds);
  return text.data();
}

}  // namespace

bool logs(Topic topic) { return (chosen() >> static_cast<unsigned>(topic)) & 1u; }

void log(Topic topic, std::string_view text) {
  if (!logs(topic)) return;
  std::string prefix = std::string("[saker ") + kNames[static_cast<size_t>(topic)] + "] ";
  while (!text.empty()) {
    size_t end = text.find('\n');
    write(prefix + std::string(text.substr(0, end)));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
}

// Stages run with and without the interpreter's lock.
static void tellStage(const passes::StageRun& run) {
  if (!current && !logs(Topic::Stages)) return;
  HoldInterpreter held;
  Progress::tick();
  if (!logs(Topic::Stages)) return;
  std::array<char, 32> time{};
  std::snprintf(time.data(), time.size(), "%.2f ms", run.milliseconds);
  log(Topic::Stages, std::string(nameOf(run.stage)) + " " + run.of + ": " + time.data() + ", " +
                         std::to_string(run.nodes) + " operators");
}

std::string setLogs(std::string_view topics) {
  uint32_t bits = 0;
  std::string unknown;
  while (!topics.empty()) {
    size_t end = topics.find_first_of(", ");
    std::string_view name = topics.substr(0, end);
    topics.remove_prefix(end == std::string_view::npos ? topics.size() : end + 1);
    if (name.empty()) continue;
    bool known = name == "all";
    if (known) bits = ~0u;
    for (size_t i = 0; i < kNames.size(); ++i) {
      if (name != kNames[i]) continue;
      bits |= 1u << i;
      known = true;
    }
    bits |= 1u << static_cast<unsigned>(Topic::Notices);
    if (!known) unknown += (unknown.empty() ? "" : ", ") + std::string(name);
  }
  chosen() = bits;
  forgetNotices();
  passes::setStageListener(&tellStage);
  return unknown;
}

std::string logTopics() {
  std::string out;
  for (const char* name : kNames) out += (out.empty() ? "" : ", ") + std::string(name);
  return out + ", all";
}

double& Progress::after() {
  static double seconds = 3.0;  // a setting of the process
  return seconds;
}

Progress::Progress(std::string function)
    : function_(std::move(function)),
      start_(std::chrono::steady_clock::now()),
      next_(after()),
      outer_(std::exchange(current, this)) {}

Progress::~Progress() {
  current = outer_;
  if (told_) write("saker: the first call of " + function_ + " took " + secondsText(seconds()));
}

double Progress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Progress::tick() {
  if (!current) return;
  double passed = current->seconds();
  if (passed >= current->next_) current->tell(passed);
}

void Progress::tell(double passed) {
  next_ = passed < 1 ? 1 : passed * 10;
  if (!anybodyReads()) return;
  told_ = true;
  write("saker: the first call of " + function_ + " has taken " + secondsText(passed) + " so far (" + phase_ +
        "); later ones are replayed");
}

}  // namespace saker::frontend
