// Passes by name, and the one place where they are run. README.md says how to add one.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace saker::passes {

// What a pass may return: why it cannot do its work. The graph is as it was then.
using Failure = std::optional<std::string>;

// what it returns, function, name, what it does
#define SAKER_PASSES(X)                                                                                      \
  X(void, eliminateDeadCode, "dce", "remove operators whose results are not used and that cannot raise")     \
  X(void, eliminateDeadCodeAndErrors, "dce-errors", "the same, also those that may raise because of data")   \
  X(void, eliminateCommonSubexpressions, "cse", "compute equal things once")                                 \
  X(Failure, functionalize, "functionalize", "replace writes by values, copied into inputs at the end")      \
  X(Failure, functionalizeRecorded, "functionalize-recorded",                                                \
    "the same of a recording, whose unknown operators are known to write nothing")                           \
  X(void, simplifyViews, "simplify-views", "use a value in the place of a view that sees the same elements") \
  X(void, removeNoops, "remove-noops", "leave out operators that give what they are given, bit by bit")      \
  X(void, foldConstants, "fold-constants", "compute what is made of tensors of one known number")            \
  X(void, simplifyControlFlow, "simplify-control-flow",                                                      \
    "leave out branches and loops whose way is known, and what they pass or return in vain")                 \
  X(void, outlineCalls, "outline-calls", "make calls of the regions whose nodes carry a number")             \
  X(void, outlineSharedRegions, "outline-shared", "the same of equal regions that autograd may take apart")  \
  X(void, inlineCalls, "inline-calls", "put the bodies of calls in their place")                             \
  X(void, canonicalizeSymbols, "canonicalize-symbols", "rewrite sizes by what is known about them")          \
  X(void, foldScalars, "fold", "use the expression a scalar is known to be instead of the scalar")           \
  X(void, stripLocations, "strip-locations", "forget where operators come from")                             \
  X(void, stripNames, "strip-names", "forget the names of values")

#define X(result, function, name, description) result function(ir::Graph& graph);
SAKER_PASSES(X)
#undef X

struct Pass {
  std::string_view name;
  std::string_view description;
  Failure (*run)(ir::Graph& graph);
};

std::span<const Pass> all();
const Pass* find(std::string_view name);

struct RunOptions {
#ifdef __OPTIMIZE__
  bool verify = false;
#else
  bool verify = true;  // in debug builds always
#endif
  // Called after each pass, for dumps.
  std::function<void(const Pass& pass, const ir::Graph& graph)> after = nullptr;
};

struct PassRun {
  const Pass* pass;
  double milliseconds;
  size_t nodesBefore;
  size_t nodesAfter;
};

struct RunResult {
  std::vector<PassRun> runs;
  // An unknown name (nothing has run then), why a pass failed, or what the verifier found.
  std::optional<std::string> error;
  bool ok() const { return !error; }
};

// `names` are separated by commas.
RunResult run(ir::Graph& graph, std::string_view names, const RunOptions& options = {});

}  // namespace saker::passes
