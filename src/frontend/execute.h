// What runs a recorded tensor program: compiled graphs, the recording itself, or a back end of the user's.
#pragma once

#include "frontend/segment.h"
#include "passes/stages.h"

namespace saker::frontend {

struct ExecutorOptions {
  bool ahead = true;                 // gradients are to be compiled
  std::optional<Stop> instead = {};  // they cannot be, for this reason
  Ref backend = {};                  // of the user's; empty: none
  bool wraps = false;                // makes tensors of others, or takes them apart
  // Only such as has changed nothing where it fails: there is none otherwise.
  bool undone = false;
  bool numbers = false;    // it computes with numbers of Python's that change, or are data
  bool functions = false;  // code of the user's that it calls is torch.autograd.Functions, which may be opened
};

struct Made {
  Executor run;
  std::shared_ptr<aot::CompiledFunction> compiled;  // the graphs that it runs, where gradients are compiled
  std::optional<Stop> instead;  // why gradients are not compiled: the recording runs, and autograd follows it
  std::vector<passes::StageRun> stages;
  std::vector<bool> exactOffsets;  // by input: does it have to begin where it did in its memory?
};

Made makeExecutor(const std::shared_ptr<runtime::Program>& program, const std::vector<at::Tensor>& inputs,
                  const ExecutorOptions& options);

}  // namespace saker::frontend
