#include "frontend/segment.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "aten/memory.h"
#include "aten/version_counter.h"
#include "frontend/host_call.h"
#include "frontend/numpy.h"
#include "frontend/subjects/subjects.h"
#include "host/objects.h"
#include "ops/operator.h"
#include "runtime/prepared.h"

namespace saker::frontend {

namespace {
constexpr uint32_t kOtherStorage = 1u << 31;
}

std::vector<at::Tensor> Code::run(const std::vector<at::Tensor>& inputs) {
  if (!run_ && late_) {
    auto make = late_;  // another thread may be here as well: each makes one, the first is kept
    Executor made = make(inputs);
    if (!run_) run_ = std::move(made);
  }
  return run_ ? run_(inputs) : std::vector<at::Tensor>();
}

at::Tensor tensorAt(PyObject* object) {
  if (isTensor(object)) return tensorOf(object);
  if (PyFloat_CheckExact(object)) return numberTensor(PyFloat_AS_DOUBLE(object));
  if (PyLong_CheckExact(object)) return at::empty({PyLong_AsLongLong(object), 0});
  std::optional<at::Tensor> tensor = leafTensor(object);
  TORCH_CHECK(tensor, "an array of numpy's cannot be seen as a tensor any more");
  return *tensor;
}

std::vector<uint32_t> sharedMemory(const std::vector<at::Tensor>& tensors) {
  std::vector<uint32_t> first = aten::sharedMemory(tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (first[i] != i && !aten::sameStorage(tensors[i], tensors[first[i]])) first[i] |= kOtherStorage;
  }
  return first;
}

std::vector<uint32_t> sharedCounters(const std::vector<at::Tensor>& tensors, const std::vector<uint32_t>& memory) {
  std::vector<uint32_t> out(tensors.size());
  std::unordered_map<const void*, uint32_t> first;
  for (size_t i = 0; i < tensors.size(); ++i) {
    auto number = static_cast<uint32_t>(i);
    out[i] = number;
    uint32_t other = memory[i] & ~kOtherStorage;
    if (other == number) continue;
    for (uint32_t each : {other, number}) {
      if (const void* counter = aten::counterOf(tensors[each])) out[i] = first.try_emplace(counter, each).first->second;
    }
  }
  return out;
}

bool callsUserOperators(const ir::Graph& graph) {
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    std::string_view name = node->op()->qualified;
    if (!ops::of(node) && !node->isReturn() && !name.starts_with("aten::") && !name.starts_with("saker::")) return true;
  }
  return false;
}

namespace {

bool isOfTransform(PyObject* object) {
  if (!isTensor(object)) return false;
  c10::DispatchKeySet keys = tensorOf(object).unsafeGetTensorImpl()->key_set();
  return keys.has(c10::DispatchKey::FuncTorchBatched) || keys.has(c10::DispatchKey::FuncTorchGradWrapper);
}

// What a call leaves where one of its effects writes. A tensor of a transform, which is of no use behind it, is not
// left where the same key is given something else later (parameters that are swapped for a while).
PyObject* leftBy(const std::vector<Effect>& effects, size_t number, size_t argument) {
  const Effect& effect = effects[number];
  PyObject* given = effect.arguments[argument].get();
  if (!effect.dict || effect.arguments.size() != 3 || argument != 2 || !isOfTransform(given)) return given;
  for (size_t i = effects.size(); --i > number;) {
    const Effect& later = effects[i];
    bool same = later.dict.get() == effect.dict.get() && PyUnicode_Compare(later.key.get(), effect.key.get()) == 0;
    if (same && later.arguments.size() == 3) return later.arguments[2].get();
  }
  return given;
}

}  // namespace

bool Segment::addEffects(const Recorder& recorder, Cookbook& book) {
  for (size_t at = 0; at < recorder.effects().size(); ++at) {
    const Effect& effect = recorder.effects()[at];
    DoneAgain again;
    again.callable = effect.callable;
    again.names = effect.names;
    again.early = effect.early;
    again.inner = effect.inner;
    for (size_t i = 0; i < effect.arguments.size(); ++i) {
      std::optional<uint32_t> number = book.write(leftBy(recorder.effects(), at, i));
      if (!number) return false;
      again.arguments.push_back(*number);
    }
    effects.push_back(std::move(again));
  }
  for (PyObject* tensor : recorder.subjects().made.changedHistories()) histories.push_back(recorder.placeOf(tensor));
  asked = recorder.subjects().flags.asked();
  locks = recorder.subjects().world.locks();
  std::optional<std::vector<Ref>> left = recorder.subjects().flags.leftModes();
  if (!left) return true;
  modes.emplace();
  for (const Ref& mode : *left) {
    std::optional<uint32_t> number = book.write(mode.get());
    if (!number) return false;
    modes->push_back(*number);
  }
  return true;
}

void Segment::relaxOffsets(const std::vector<bool>& exact) {
  if (guards.asksOffsets) return;
  std::vector<size_t> sharing(memory.size());
  for (uint32_t first : memory) ++sharing[first & ~kOtherStorage];
  std::vector<bool> kept(guards.tensors.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool shared = writes && i < memory.size() && sharing[memory[i] & ~kOtherStorage] > 1;
    if (!shared && !exact[i]) continue;
    for (const GuardInstruction& at : guards.instructions) {
      if (at.op == GuardOp::Tensor && at.place == inputs[i]) kept[static_cast<size_t>(at.number)] = true;
    }
  }
  for (size_t i = 0; i < kept.size(); ++i) guards.tensors[i].anyOffset = !kept[i];
}

void Segment::shorten() {
  bool more = !effects.empty() || !draws.empty() || !asked.empty() || !histories.empty() || !unseen.empty() || modes ||
              handles > 0 || sets || dynamic || !locks.empty() || hazards.risky || hazards.foreign;
  bool casts = std::find(ambient.autocast.begin(), ambient.autocast.end(), true) != ambient.autocast.end();
  const Recipe& result = recipes[exit.result];
  bool plain = result.kind == Recipe::Kind::Output && !result.object;
  plain |= result.kind == Recipe::Kind::Place || result.kind == Recipe::Kind::Constant;
  if (more || casts || ambient.functionModes > 0 || !plain) return;
  // Where autograd was off around the call, it may have been switched on inside.
  if (!ambient.gradMode && program->differentiable) return;
  single = runtime::SingleCall::of(*program);
}

void Segment::settle() {
  guards.wanted = inputs;
  guards.wanted.insert(guards.wanted.end(), histories.begin(), histories.end());
  for (const Recipe& recipe : recipes) {
    if (recipe.kind == Recipe::Kind::Place) guards.wanted.push_back(recipe.index);
  }
  for (const Draw& each : draws) {
    if (each.method && !drawnPlace(each.generator)) guards.wanted.push_back(each.generator);
  }
  for (const Asked& each : asked) {
    for (uint32_t place : each.places) {
      if (place != kInside) guards.wanted.push_back(place);
    }
  }
  guards.wantsAll = false;
}

void Segment::keepGuardsOnly() {
  locks.clear();  // the program takes its locks and draws its numbers itself
  draws.clear();
  writes = alone = dynamic = false;
  single = nullptr;
}

bool Segment::drawnPlace(uint32_t place) const {
  return std::any_of(draws.begin(), draws.end(), [&](const Draw& each) { return each.place == place; });
}

bool Segment::sizesFit(const std::vector<at::Tensor>& tensors) const {
  std::vector<at::Tensor> bound;
  for (const runtime::Source& source : program->sources) {
    bound.push_back(source.kind == runtime::Source::Kind::Argument ? tensors[source.argument] : source.tensor);
  }
  return runtime::Sizes(program->prepared().get(runtime::Executable::Views::Called).sizes()).fit(bound);
}

}  // namespace saker::frontend
