// Which kernels a graph becomes, for people to read: what saker.explain and Graph.kernels() show.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "runtime/native_code.h"

namespace saker::runtime {

struct KernelReport {
  std::string text;
  // Of tensors, each counted once and whole; with the sizes that were met first where sizes change. Nothing: not known.
  std::optional<int64_t> bytesRead, bytesWritten;
  double milliseconds = 0;  // of compiling; of a kernel that was kept, when it was compiled
  size_t codeBytes = 0;     // 0: it is not compiled
};

struct GroupReport {
  std::vector<std::string> operators;  // in order
  std::string ended;                   // why it did not grow; empty: nothing behind it reads it
  std::vector<KernelReport> kernels;
};

struct FusionReport {
  std::vector<GroupReport> groups;
  std::vector<std::string> outside;  // operators that are called one by one, in order
  std::vector<std::string> refused;  // why groups that were found have no kernels
  std::string reason;                // why nothing is fused, or not compiled; empty: it is
  double fuseMilliseconds = 0, lowerMilliseconds = 0, compileMilliseconds = 0;
};

// Does what a first run with generated code does to the graph, on a copy of it. `simplified`: the graph has passed that
// stage.
FusionReport reportKernels(const ir::Graph& graph, bool simplified, bool compiles, NativeCode native);

}  // namespace saker::runtime
