// The program of what a tape has written down.
#include <algorithm>
#include <vector>

#include "capture/tape.h"
#include "ops/operator.h"
#include "runtime/shown.h"

namespace saker::tracing {

namespace {

// Was autograd on where some operator was called?
bool recordsHistory(const ir::Graph& graph) {
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    if (!node->isReturn() && !node->attributes().noGrad) return true;
  }
  return false;
}

// Behind an operator that fails, version counters are to stand where eager mode leaves them, whatever it did before. A
// number that has no value has done nothing: they are counted then.
bool mayFailElsewhere(const ir::Graph& graph, const Tape::Risk& risk) {
  static const ops::Operator* number = ops::find("saker::expect.number");
  std::vector<bool> isNumber(graph.nodeLimit());
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    isNumber[node->id()] = ops::of(node) == number;
  }
  return std::any_of(risk.before.begin(), risk.before.end(),
                     [&](const Tape::Risk::Before& each) { return !isNumber[each.node]; });
}

}  // namespace

std::unique_ptr<runtime::Program> Tape::finish(std::span<const at::Tensor> outputs) {
  auto program = std::make_unique<runtime::Program>();
  std::vector<ir::Arg> returned;
  for (const at::Tensor& output : outputs) {
    returned.push_back(ir::Arg::value(valueOf(output)));
    auto memory = storages_.find(output.storage().unsafeGetStorageImpl());
    if (memory != storages_.end() && !memory->second.filled && output.numel() > 0) spoil(Why::MemoryUnwritten);
    program->resultRequiresGrad.push_back(output.requires_grad());
    program->differentiable |= output.requires_grad();
  }
  program->context = context();
  program->results = outputs.size();
  program->asRecorded = true;
  program->userWrote = userWrote_ || mayFailElsewhere(graph(), risk_);
  program->closedWrites.resize(inputs_.size());
  bool followed = program->userWrote || recordsHistory(graph());
  bool others = host().othersRun() && !userWrote_;
  for (const Input& input : inputs_) {
    if (input.literal) {
      program->sources.push_back({runtime::Source::Kind::Closed, 0, input.tensor, true});
      continue;
    }
    program->sources.push_back({runtime::Source::Kind::Argument, program->arguments, {}, false});
    program->sameAs.push_back(program->arguments++);
    uint32_t moved = 0;
    if (others && !input.tensor.is_inference()) {
      moved = counted_.to(input.tensor) - input.writes;
    } else if (!input.tensor.is_inference()) {
      moved = static_cast<uint32_t>(input.tensor._version() - input.version);
    }
    program->argumentWrites.push_back(moved);
    // What is written gets a history, whether it is returned or not; optimizers write with autograd off.
    program->differentiable |= followed && moved != 0 && input.tensor.requires_grad();
  }
  graph().appendReturn(graph().top(), returned);
  program->objects = kept();
  program->gradAround = hadGrad_;
  program->showsGradients = runtime::markShown(graph());
  program->graph = takeGraph();
  return program;
}

}  // namespace saker::tracing
