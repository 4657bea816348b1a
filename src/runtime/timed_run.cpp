#include "runtime/timed_run.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <stdexcept>

#include "aten/trace_key.h"
#include "runtime/executable.h"
#include "runtime/shown.h"

namespace saker::runtime {

namespace {

class Stopwatch final : public Conduct {
 public:
  explicit Stopwatch(c10::Device device) : device_(device) {}
  void call(const Instruction& at, torch::jit::Stack& stack) override {
    auto start = std::chrono::steady_clock::now();
    Conduct::call(at, stack);
    if (!device_.is_cpu()) c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index());
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    seconds[at.node->id()] += took.count();
  }
  std::map<uint32_t, double> seconds;  // by number of the node

 private:
  c10::Device device_;
};

std::vector<at::Tensor> bound(const Program& program, std::span<const at::Tensor> arguments) {
  std::vector<at::Tensor> inputs;
  for (const Source& source : program.sources) {
    bool argument = source.kind == Source::Kind::Argument;
    if (!argument && source.kind != Source::Kind::Closed) {
      throw std::runtime_error("inputs that share memory are not run one operator at a time");
    }
    inputs.push_back(argument ? arguments[source.argument] : source.tensor);
  }
  return inputs;
}

void collect(const ir::Region& region, const std::map<uint32_t, double>& best, std::vector<NodeTime>& out) {
  for (const ir::Node* node = region.first(); node; node = node->next()) {
    if (auto found = best.find(node->id()); found != best.end()) out.push_back({node, found->second});
    for (const ir::Region* body : node->regions()) collect(*body, best, out);
  }
}

}  // namespace

bool changesNothing(const Program& program) {
  std::vector<bool> written = writtenParameters(*program.graph);
  return std::find(written.begin(), written.end(), true) == written.end() && program.objects.empty() &&
         !program.userWrote && !program.userGradients && program.gradients.empty();
}

std::vector<NodeTime> timeNodes(const Program& program, std::span<const at::Tensor> arguments, size_t repeats) {
  std::vector<at::Tensor> inputs = bound(program, arguments);
  c10::Device device = c10::kCPU;
  for (const at::Tensor& input : inputs) {
    if (input.defined() && !input.device().is_cpu()) device = input.device();
  }
  Executable executable(*program.graph, program.objects);
  std::map<uint32_t, double> best;
  for (size_t i = 0; i < repeats; ++i) {
    Stopwatch watch(device);
    Run running(executable, &watch);
    running.sizes().bind(inputs);
    for (size_t k = 0; k < inputs.size(); ++k) running.set(k, inputs[k]);
    {
      aten::BelowAutograd below;
      running.run();
    }
    for (auto [node, seconds] : watch.seconds) {
      auto [at, fresh] = best.try_emplace(node, seconds);
      if (!fresh) at->second = std::min(at->second, seconds);
    }
  }
  std::vector<NodeTime> out;
  collect(*program.graph->top(), best, out);
  return out;
}

}  // namespace saker::runtime
