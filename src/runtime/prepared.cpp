#include "runtime/prepared.h"

#include <cstdlib>
#include <cstring>

#include "aten/trace_key.h"
#include "ir/clone.h"
#include "lower/fuse.h"
#include "ops/effects.h"
#include "passes/stages.h"

namespace saker::runtime {

namespace {

template <typename Refuses>
bool holdsInside(const ir::Region& region, Refuses&& refuses) {
  for (const ir::Node* node = region.first(); node && !node->isReturn(); node = node->next()) {
    const ops::Operator* op = ops::of(node);
    ir::Attributes recorded = node->attributes();
    if (!op || op->has(ops::kSetsStorage) || (ops::writes(*node) && refuses(*op))) return false;
    if (recorded.inferenceToggled || recorded.ownVersion) return false;
    for (const ir::Region* body : node->regions()) {
      if (!holdsInside(*body, refuses)) return false;
    }
  }
  return true;
}

}  // namespace

bool isFunctional(const ir::Graph& graph) {
  return holdsInside(*graph.top(), [](const ops::Operator&) { return true; });
}

bool mayFuse(const ir::Graph& graph) {
  // Not where a tensor gets another layout: its one type would not tell.
  return holdsInside(*graph.top(), [](const ops::Operator& op) { return op.cost == ops::Cost::View; });
}

bool generatesCode(NativeCode native) {
  return native.wanted ? !passes::isForbidden(passes::Stage::Fuse) : !passes::isOff(passes::Stage::Fuse);
}

bool keepsAllBits(NativeCode native) {
  const char* precision = std::getenv("SAKER_PRECISION");
  return native.toTheBit || (precision && std::strcmp(precision, "eager") == 0);
}

void Prepared::prepare(One& one, Executable::Views views) const {
  passes::Stages stages;
  using passes::Stage;
  bool fuse = generatesCode(native_);
  bool functional = isFunctional(graph_);
  bool changes = functional ? !simplified_ || fuse : fuse && mayFuse(graph_);
  if (views == Executable::Views::Direct && changes && graph_.top()->terminator()) {
    one.graph = ir::clone(graph_);
    one.numbers.resize(one.graph->nodeLimit());
    const ir::Node* from = graph_.top()->first();
    for (const ir::Node* to = one.graph->top()->first(); to; to = to->next(), from = from->next()) {
      one.numbers[to->id()] = from->id();
    }
    if (functional && !simplified_ &&
        !stages.run(Stage::Simplify, "recording", *one.graph, passes::kSimplify).empty()) {
      one.graph.reset();
    }
    auto group = [&] {
      lower::FuseOptions options;
      options.toTheBit = keepsAllBits(native_);
      lower::fuse(*one.graph, options);
      return one.graph.get();
    };
    if (one.graph && fuse) stages.runAnyhow(Stage::Fuse, "recording", group);
  }
  const ir::Graph& graph = one.graph ? *one.graph : graph_;
  stages.run(Stage::Prepare, "recording", [&] {
    one.executable = std::make_unique<Executable>(graph, objects_, views, native_, ending_);
    return &graph;
  });
}

uint32_t Prepared::numberOf(const Executable& executable, const ir::Node& node) const {
  if (!direct_.graph || &executable.graph() != direct_.graph.get()) return node.id();
  // A node that a pass has made stands for what comes before the next one.
  const ir::Node* at = &node;
  while (at && at->id() >= direct_.numbers.size()) at = at->prev();
  return at ? direct_.numbers[at->id()] : 0;
}

const Executable& Prepared::get(std::span<const at::Tensor> inputs, std::span<const int64_t> numbers) const {
  bool recorded = !(c10::impl::tls_local_dispatch_key_set().included_ & aten::kRecordingKeys).empty();
  for (const at::Tensor& input : inputs) {
    if (recorded) break;
    // Wrappers of functorch's and classes of Python's answer for themselves.
    constexpr c10::DispatchKeySet others =
        aten::kRecordingKeys |
        c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::FuncTorchBatched,
                             c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Functionalize});
    recorded = input.defined() && !(input.key_set() & others).empty();
  }
  if (recorded) return get(Executable::Views::Called);
  const Executable& direct = get(Executable::Views::Direct);
  return direct.mayMakeViews(inputs, numbers) ? direct : get(Executable::Views::Called);
}

}  // namespace saker::runtime
