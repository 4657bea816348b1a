#include "passes/stages.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "ir/print.h"
#include "ir/verifier.h"
#include "passes/pass.h"

namespace saker::passes {

namespace {

enum class Done : uint8_t { Always, Unless, If };
struct Row {
  std::string_view name;
  Done done;
};
constexpr std::array kRows = {
#define X(enumerator, name, done, what) Row{name, Done::done},
    SAKER_STAGES(X)
#undef X
};

constexpr uint32_t kVerify = 1u << 31;

constexpr uint32_t offByDefault() {
  uint32_t out = 0;
  for (size_t i = 0; i < kRows.size(); ++i) out |= kRows[i].done == Done::If ? 1u << i : 0;
  return out;
}

std::atomic<uint32_t>& bits() {  // by stage: is it off? And kVerify
  static std::atomic<uint32_t> all = offByDefault();
  return all;
}

std::atomic<uint32_t>& forbidden() {  // by stage: is it switched off by name?
  static std::atomic<uint32_t> all = 0;
  return all;
}

struct Folder {
  std::mutex lock;
  std::string path;
  size_t files = 0;
};

Folder& folder() {
  static Folder& one = *new Folder;
  return one;
}

std::atomic<bool> dumps = false;
std::atomic<void (*)(const StageRun&)> listener = nullptr;

uint32_t bitOf(Stage stage) { return 1u << static_cast<unsigned>(stage); }

void dump(const StageRun& run, const ir::Graph& graph) {
  Folder& into = folder();
  std::lock_guard held(into.lock);
  std::string number = std::to_string(into.files++);
  number.insert(0, number.size() < 4 ? 4 - number.size() : 0, '0');
  std::string name = into.path + "/" + number + "-" + std::string(nameOf(run.stage)) + "-" + run.of + ".sk";
  std::FILE* file = std::fopen(name.c_str(), "w");
  if (!file) return;
  std::fprintf(file, "# %s of the %s graph: %zu nodes, %.3f ms\n%s", std::string(nameOf(run.stage)).c_str(),
               run.of.c_str(), run.nodes, run.milliseconds, ir::print(graph).c_str());
  std::fclose(file);
}

std::string apply(std::string_view words) {
  uint32_t chosen = offByDefault(), named = 0;
  std::string unknown, path;
  while (!words.empty()) {
    size_t end = words.find(',');
    std::string_view word = words.substr(0, end);
    words.remove_prefix(end == words.npos ? words.size() : end + 1);
    if (word.empty()) continue;
    bool known = word == "verify";
    if (known) chosen |= kVerify;
    constexpr std::string_view kDump = "dump=";
    if (word.starts_with(kDump) && word.size() > kDump.size()) {
      path = word.substr(kDump.size());
      known = true;
    }
    for (size_t i = 0; i < kRows.size(); ++i) {
      bool off = word[0] == '-';
      if (kRows[i].done == Done::Always || word.substr(off) != kRows[i].name) continue;
      chosen = off ? chosen | 1u << i : chosen & ~(1u << i);
      named = off ? named | 1u << i : named & ~(1u << i);
      known = true;
    }
    if (!known) unknown += (unknown.empty() ? "" : ", ") + std::string(word);
  }
  {
    std::lock_guard held(folder().lock);
    folder().path = path;
  }
  dumps = !path.empty();
  bits() = chosen;
  forbidden() = named;
  return unknown;
}

std::once_flag chosenOnce;

// A variable of the environment counts until somebody sets something.
void readEnvironment() {
  std::call_once(chosenOnce, [] {
    if (const char* words = std::getenv("SAKER_STAGES")) apply(words);
  });
}

}  // namespace

std::string_view nameOf(Stage stage) { return kRows[static_cast<size_t>(stage)].name; }

std::string setStages(std::string_view words) {
  std::call_once(chosenOnce, [] {});
  return apply(words);
}

bool isOff(Stage stage) {
  readEnvironment();
  return bits() & bitOf(stage);
}

bool isForbidden(Stage stage) {
  readEnvironment();
  return forbidden() & bitOf(stage);
}

void setStageListener(void (*given)(const StageRun& run)) { listener = given; }

std::string Stages::run(Stage stage, std::string_view of, ir::Graph& graph, const char* passes) {
  std::string refused;
  run(stage, of, [&] {
    RunOptions options;
    options.verify = false;  // behind the stage, where it is asked for
    RunResult ran = passes::run(graph, passes, options);
    if (ran.error) refused = *ran.error;
    return &graph;
  });
  return refused;
}

void Stages::finish(StageRun run, const ir::Graph* graph) {
#ifdef __OPTIMIZE__
  bool verify = bits() & kVerify;
#else
  bool verify = true;  // in debug builds always
#endif
  if (graph && dumps) dump(run, *graph);
  if (void (*tell)(const StageRun&) = listener) tell(run);
  runs_.push_back(std::move(run));
  if (!graph || !verify) return;
  std::vector<ir::Diagnostic> found = ir::verify(*graph);
  if (!found.empty()) throw StageError("after " + std::string(nameOf(runs_.back().stage)) + ": " + found[0].message);
}

}  // namespace saker::passes
