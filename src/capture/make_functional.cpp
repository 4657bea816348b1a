#include <algorithm>

#include "aten/memory.h"
#include "capture/capture.h"
#include "ir/clone.h"
#include "passes/stages.h"
#include "runtime/shown.h"

namespace saker::tracing {

// As values, tensors that see the same memory would not see each other's writes.
static void refuseSharedWrites(const runtime::Program& program) {
  std::vector<at::Tensor> closed;
  std::vector<bool> written, parameters = runtime::writtenParameters(*program.graph);
  for (size_t i = 0; i < program.sources.size(); ++i) {
    if (program.sources[i].kind != runtime::Source::Kind::Closed) continue;
    closed.push_back(program.sources[i].tensor);
    written.push_back(parameters[i]);
  }
  std::vector<uint32_t> first = aten::sharedMemory(closed);
  std::vector<uint32_t> count(closed.size());
  for (uint32_t each : first) ++count[each];
  for (size_t i = 0; i < closed.size(); ++i) {
    if (!written[i] || count[first[i]] == 1) continue;
    throw std::runtime_error("the function writes to memory that it closes over by several tensors");
  }
  for (size_t i = 0; i < program.memories.size(); ++i) {
    bool shared = std::count(program.memories.begin(), program.memories.end(), program.memories[i]) > 1;
    if (!shared || program.argumentWrites[i] == 0) continue;
    throw std::runtime_error(
        "the function writes to an argument whose memory another one sees through another storage");
  }
}

std::unique_ptr<runtime::Program> makeFunctional(std::shared_ptr<const runtime::Program> recorded) {
  refuseSharedWrites(*recorded);
  auto made = std::make_unique<runtime::Program>();
  made->context = recorded->context;
  made->graph = ir::clone(*recorded->graph);
  made->sources = recorded->sources;
  made->objects = recorded->objects;
  made->arguments = recorded->arguments;
  made->argumentWrites = recorded->argumentWrites;
  made->sameAs = recorded->sameAs;
  made->closedWrites = recorded->closedWrites;
  made->results = recorded->results;
  made->resultRequiresGrad = recorded->resultRequiresGrad;
  made->differentiable = recorded->differentiable;
  made->gradients = recorded->gradients;
  made->userGradients = recorded->userGradients;
  made->function = recorded->function;
  made->gradAround = recorded->gradAround;
  made->memories = recorded->memories;
  made->recorded = std::move(recorded);
  passes::Stages stages;
  std::string refused = stages.run(passes::Stage::Functional, "recording", *made->graph, passes::kFunctional);
  if (!refused.empty()) throw std::runtime_error(refused);
  return made;
}

}  // namespace saker::tracing
