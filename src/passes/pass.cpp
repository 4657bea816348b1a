#include "passes/pass.h"

#include <chrono>
#include <type_traits>

#include "ir/verifier.h"

namespace saker::passes {
namespace {

template <auto function>
Failure call(ir::Graph& graph) {
  if constexpr (std::is_void_v<decltype(function(graph))>) {
    function(graph);
    return std::nullopt;
  } else {
    return function(graph);
  }
}

constexpr Pass kPasses[] = {
#define X(result, function, name, description) {name, description, call<function>},
    SAKER_PASSES(X)
#undef X
};

}  // namespace

std::span<const Pass> all() { return kPasses; }

const Pass* find(std::string_view name) {
  for (const Pass& pass : kPasses) {
    if (pass.name == name) return &pass;
  }
  return nullptr;
}

RunResult run(ir::Graph& graph, std::string_view names, const RunOptions& options) {
  RunResult result;
  std::vector<const Pass*> passes;
  for (std::string_view rest = names; !rest.empty();) {
    size_t comma = rest.find(',');
    std::string_view name = rest.substr(0, comma);
    rest = comma == rest.npos ? std::string_view() : rest.substr(comma + 1);
    const Pass* pass = find(name);
    if (!pass) {
      result.error = "unknown pass '" + std::string(name) + "'";
      return result;
    }
    passes.push_back(pass);
  }
  for (const Pass* pass : passes) {
    size_t before = graph.liveNodes();
    auto start = std::chrono::steady_clock::now();
    Failure failure = pass->run(graph);
    std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    result.runs.push_back({pass, time.count(), before, graph.liveNodes()});
    if (failure) {
      result.error = std::string(pass->name) + ": " + *failure;
      return result;
    }
    if (options.after) options.after(*pass, graph);
    if (!options.verify) continue;
    std::vector<ir::Diagnostic> found = ir::verify(graph);
    if (!found.empty()) {
      result.error = "after " + std::string(pass->name) + ": " + found[0].message;
      return result;
    }
  }
  return result;
}

}  // namespace saker::passes
