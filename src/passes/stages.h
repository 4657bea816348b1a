// The stages between a recording and what runs it, and the one wrapper around each of them: it takes the time, counts
// nodes, verifies, dumps, and leaves out what is switched off. aot/pipeline.cpp is the list of them in order.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace saker::passes {

// enumerator, name, is it done (always; unless it is switched off; if it is switched on), what it does
#define SAKER_STAGES(X)                                                                                                \
  X(Differentiate, "differentiate", Unless, "autograd goes through the recording; what its backward does is recorded") \
  X(Functional, "functional", Always, "writes become values")                                                          \
  X(Simplify, "simplify", Unless, "what changes no bit of a result is left out")                                       \
  X(Cut, "cut", Always, "forward and backward become two graphs, and what is saved between them is chosen")            \
  X(Fuse, "fuse", If, "operators that one kernel can compute become groups")                                           \
  X(Prepare, "prepare", Always, "operators are looked up, arguments converted, memory planned")

enum class Stage : uint8_t {
#define X(enumerator, name, done, what) enumerator,
  SAKER_STAGES(X)
#undef X
};
std::string_view nameOf(Stage stage);

struct StageRun {
  Stage stage;
  std::string of;  // which graph: "joint", "forward", "backward", "recording"
  double milliseconds;
  size_t nodes;  // afterwards
};

// A stage has made a graph that the verifier refuses.
struct StageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Settings of the process, by the words of a list such as "verify,-simplify,fuse,dump=folder": graphs are verified
// behind each stage; a stage is left out; one that is off by default is done; each graph is written to a file of the
// folder, which saker-opt reads. Gives back the words that mean nothing. The variable SAKER_STAGES sets them at the
// start.
std::string setStages(std::string_view words);
bool isOff(Stage stage);
// Is it switched off by name? One that is off by default is not.
bool isForbidden(Stage stage);
// Gets every run of a stage while it is set, for logs.
void setStageListener(void (*listener)(const StageRun& run));

// The list of passes that the stage Simplify is. They are for graphs that run below autograd: `detach` is a view there,
// which can be left out.
inline constexpr const char* kSimplify = "inline-calls,fold-constants,simplify-views,remove-noops,cse,dce";
// Before the cut, where only what eager mode keeps is kept, a copy of an argument that the backward reads stays a copy:
// the argument may be written before the backward comes.
inline constexpr const char* kSimplifyKeepingCopies = "inline-calls,fold-constants,simplify-views,cse,dce";
inline constexpr const char* kFunctional = "functionalize-recorded,dce";

// The stages of one compilation.
class Stages {
 public:
  // `body` does the work, and gives the graph as it is then, or nullptr.
  template <typename Body>
  void run(Stage stage, std::string_view of, Body&& body) {
    if (!isOff(stage)) runAnyhow(stage, of, body);
  }
  // The same, also if it is off by default.
  template <typename Body>
  void runAnyhow(Stage stage, std::string_view of, Body&& body) {
    auto start = std::chrono::steady_clock::now();
    const ir::Graph* graph = body();
    std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    finish({stage, std::string(of), time.count(), graph ? graph->liveNodes() : 0}, graph);
  }
  // The same for a stage that is a list of passes. Gives what they refuse; empty: nothing.
  std::string run(Stage stage, std::string_view of, ir::Graph& graph, const char* passes);

  const std::vector<StageRun>& runs() const { return runs_; }
  // Takes over those of another attempt.
  void add(const Stages& other) { runs_.insert(runs_.end(), other.runs_.begin(), other.runs_.end()); }

 private:
  void finish(StageRun run, const ir::Graph* graph);
  std::vector<StageRun> runs_;
};

}  // namespace saker::passes
