#include "capture/capture.h"
#include "ir/clone.h"
#include "passes/pass.h"

namespace saker::tracing {

std::unique_ptr<runtime::Program> makeFunctional(std::shared_ptr<const runtime::Program> recorded) {
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
  made->recorded = std::move(recorded);
  passes::RunOptions options;
  options.verify = false;
  passes::RunResult result = passes::run(*made->graph, "functionalize-recorded,dce", options);
  if (result.error) throw std::runtime_error(*result.error);
  return made;
}

}  // namespace saker::tracing
