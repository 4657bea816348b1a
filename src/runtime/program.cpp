#include "runtime/program.h"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "aten/enums.h"
#include "aten/memory.h"
#include "aten/on_copies.h"
#include "aten/trace_key.h"
#include "ops/effects.h"
#include "ops/operator.h"
#include "passes/memory.h"
#include "runtime/failure.h"
#include "runtime/prepared.h"
#include "runtime/recorded_calls.h"
#include "runtime/shown.h"

namespace saker::runtime {

namespace {

std::string shapeText(c10::IntArrayRef sizes) {
  std::string out = "(";
  for (size_t i = 0; i < sizes.size(); ++i) out += (i ? ", " : "") + std::to_string(sizes[i]);
  return out + ")";
}

std::string nameOf(const Program& program, size_t parameter) {
  const Source& source = program.sources[parameter];
  if (source.kind == Source::Kind::Gradient) return "the .grad of a tensor";
  if (source.kind == Source::Kind::Closed) return "a tensor that the captured function closes over";
  return "argument " + std::to_string(source.argument);
}

// The memory of an argument as one row of elements.
at::Tensor flat(const at::Tensor& tensor, const ir::TensorType& type) {
  Geometry geometry;
  int64_t count = static_cast<int64_t>(tensor.storage().nbytes() / tensor.itemsize());
  geometry.sizes.push_back(count);
  geometry.strides.push_back(1);
  return tensorOver(tensor.storage(), type, geometry);
}

void check(const Program& program, size_t parameter, const at::Tensor& given, Sizes& sizes) {
  if (!given.defined()) return;  // a .grad that nothing reads
  const ir::TensorType& type = *program.graph->top()->parameters()[parameter]->tensor();
  auto fail = [&](const std::string& what) {
    throw RunError(nameOf(program, parameter) + " " + what + ": capture the function again for it");
  };
  if (!program.asRecorded && given.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python)) {
    fail("is a tensor subclass or a FakeTensor");
  }
  if (given.layout() != c10::kStrided) fail("is not a dense strided tensor");
  if (aten::toDType(given.scalar_type()) != type.dtype) {
    fail(std::string("has dtype ") + c10::toString(given.scalar_type()) + ", the graph was captured with " +
         std::string(c10::toString(aten::fromDType(type.dtype))));
  }
  if (given.device() != aten::fromDevice(type.device)) fail("is on device " + given.device().str());
  Geometry told = sizes.told(parameter);
  if (given.sizes() != c10::IntArrayRef(told.sizes)) {
    fail("has sizes " + shapeText(given.sizes()) + ", the graph was captured for " + shapeText(told.sizes));
  }
  bool sameStrides = given.storage_offset() == told.offset;
  for (size_t i = 0; i < told.sizes.size(); ++i) {
    sameStrides &= told.sizes[i] <= 1 || given.stride(static_cast<int64_t>(i)) == told.strides[i];
  }
  if (!sameStrides && given.numel() > 0) {
    fail("has strides " + shapeText(given.strides()) + ", the graph was captured for " + shapeText(told.strides));
  }
}

std::vector<at::Tensor> bind(const Program& program, std::span<const at::Tensor> arguments) {
  if (arguments.size() != program.arguments) {
    throw RunError("the graph takes " + std::to_string(program.arguments) + " tensors, " +
                   std::to_string(arguments.size()) + " were given");
  }
  std::vector<at::Tensor> bound;
  bound.reserve(program.sources.size());
  for (size_t i = 0; i < program.sources.size(); ++i) {
    const Source& source = program.sources[i];
    if (source.kind == Source::Kind::Closed) {
      bound.push_back(source.tensor);
    } else if (source.kind == Source::Kind::Argument) {
      bound.push_back(arguments[source.argument]);
    } else if (source.kind == Source::Kind::Gradient) {
      const at::Tensor& owner = source.tensor.defined() ? source.tensor : arguments[source.argument];
      bound.push_back(owner.grad());
      if (bound.back().defined() || !program.graph->top()->parameters()[i]->hasUses()) continue;
      throw RunError((source.tensor.defined() ? std::string("a tensor that the captured function closes over")
                                              : "argument " + std::to_string(source.argument)) +
                     " has no .grad, and had one when the function was captured");
    } else {
      bound.push_back(flat(arguments[source.argument], *program.graph->top()->parameters()[i]->tensor()));
    }
  }
  return bound;
}

// A program that writes to an argument is only right if no other argument sees the same memory, unless it was so when
// it was captured. Run as recorded, it may be memory that the function closes over.
void checkSharing(const Program& program, std::span<const at::Tensor> arguments,
                  const std::vector<at::Tensor>& inputs) {
  for (size_t i = 0; i < program.sameAs.size(); ++i) {
    if (arguments[i].is_same(arguments[program.sameAs[i]])) continue;
    throw RunError("arguments " + std::to_string(program.sameAs[i]) + " and " + std::to_string(i) +
                   " are different tensors, and were one when the function was captured");
  }
  std::vector<at::Tensor> tensors(arguments.begin(), arguments.end());
  std::vector<bool> written(program.argumentWrites.begin(), program.argumentWrites.end());
  if (program.recorded) {
    std::vector<bool> parameters = writtenParameters(*program.recorded->graph);  // what no version counts too
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Source& source = program.sources[i];
      if (source.kind == Source::Kind::Argument && parameters[i]) written[source.argument] = true;
      if (source.kind != Source::Kind::Closed) continue;
      tensors.push_back(inputs[i]);
      written.push_back(parameters[i]);
    }
  }
  if (std::find(written.begin(), written.end(), true) == written.end()) return;
  std::vector<uint32_t> first = aten::sharedMemory(tensors);
  std::vector<bool> inWritten(tensors.size()), flat(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (written[i]) inWritten[first[i]] = true;
  }
  for (const Source& source : program.sources) {
    if (source.kind == Source::Kind::Flat) flat[first[source.argument]] = true;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    size_t other = first[i];
    if (other == i || !inWritten[other] || flat[other]) continue;
    bool known = i < program.memories.size() && program.memories[i] == program.memories[other];
    bool one = i < program.sameAs.size() && program.sameAs[i] != i;
    if (known || one) continue;
    if (i >= arguments.size()) {
      throw RunError("argument " + std::to_string(other) +
                     " shares memory with a tensor that the captured function closes over, and one of them is written");
    }
    throw RunError("arguments " + std::to_string(other) + " and " + std::to_string(i) +
                   " share memory that the function writes, which they did not when it was captured");
  }
}

// By parameter: how far the user's operators have moved its version counter beyond what is counted.
std::vector<uint32_t> movedByUser(const Program& program, const aten::WriteMeter& meter, bool counted) {
  std::vector<uint32_t> moved(program.sources.size());
  for (size_t i = 0; i < std::min(program.userWrites.size(), meter.calls().size()); ++i) {
    const Program::UserWrite& write = program.userWrites[i];
    for (size_t k = 0; k < write.parameters.size(); ++k) {
      uint32_t known = counted ? write.counted : 1, now = meter.calls()[i][k];
      for (size_t parameter : write.parameters[k]) moved[parameter] += now > known ? now - known : 0;
    }
  }
  return moved;
}

// Where version counters are to be when the program has run. Views share the counter of their base, so what counts is
// the number that each was seen to reach.
class Versions {
 public:
  // `parameter`: the one that the tensor is, if it is one.
  void note(const at::Tensor& tensor, uint32_t times, size_t parameter = SIZE_MAX) {
    if (times == 0 || !tensor.defined() || tensor.is_inference()) return;
    written_.push_back({tensor, tensor._version(), times, parameter});
  }
  void reach() {
    for (const Written& each : written_) each.reach(each.times);
    written_.clear();
  }
  // Where the run ended early: as far as parameters were written until then.
  void reach(const std::vector<uint32_t>& writes) {
    for (const Written& each : written_) {
      if (each.parameter < writes.size()) each.reach(std::min(each.times, writes[each.parameter]));
    }
    written_.clear();
  }

 private:
  struct Written {
    at::Tensor tensor;
    int64_t before;
    uint32_t times;
    size_t parameter;

    void reach(uint32_t count) const {
      while (tensor._version() < before + count) torch::autograd::impl::bump_version(tensor);
    }
  };
  std::vector<Written> written_;
};

// By parameter: how often its memory is written before a node is reached.
std::vector<uint32_t> writesBefore(const Program& program, uint32_t node) {
  const ir::Graph& graph = *program.graph;
  passes::Memory memory(graph, {false, passes::Memory::Assumptions::Unknown::Nothing});
  std::vector<uint32_t> ofClass(graph.valueLimit() + 1), writes;
  for (const ir::Node* at = graph.top()->first(); at && at->id() != node && !at->isReturn(); at = at->next()) {
    if (ops::of(at)) ops::eachWritten(*at, [&](const ir::Value* value) { ++ofClass[memory.classOf(value)]; });
  }
  for (const ir::Value* parameter : graph.top()->parameters()) writes.push_back(ofClass[memory.classOf(parameter)]);
  return writes;
}

// Before a run below autograd, of which only some operators count what they write.
Versions countedAhead(const Program& program, std::span<const at::Tensor> arguments,
                      const std::vector<at::Tensor>& inputs) {
  Versions versions;
  std::vector<size_t> parameters(arguments.size(), SIZE_MAX);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Source& source = program.sources[i];
    if (source.kind == Source::Kind::Argument) parameters[source.argument] = i;
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    versions.note(arguments[i], program.argumentWrites[i], parameters[i]);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    Source::Kind kind = program.sources[i].kind;
    if (kind == Source::Kind::Closed || kind == Source::Kind::Gradient)
      versions.note(inputs[i], program.closedWrites[i], i);
  }
  return versions;
}

void addMoved(const Program& program, std::span<const at::Tensor> arguments, const std::vector<at::Tensor>& inputs,
              const std::vector<uint32_t>& moved) {
  Versions versions;
  for (size_t i = 0; i < program.sources.size(); ++i) {
    const Source& source = program.sources[i];
    versions.note(source.kind == Source::Kind::Flat ? arguments[source.argument] : inputs[i], moved[i]);
  }
  versions.reach();
}

void setGradients(const Program& program, const std::vector<at::Tensor>& inputs, std::vector<c10::IValue>& returned) {
  for (size_t i = 0; i < program.gradients.size(); ++i) {
    const at::Tensor& leaf = inputs[program.gradients[i].parameter];
    const c10::IValue& gradient = returned[program.results + i];
    leaf.mutable_grad() = gradient.isTensor() ? gradient.toTensor() : at::Tensor();
  }
  returned.resize(program.results);
}

void checkGradients(const Program& program, const std::vector<at::Tensor>& inputs) {
  for (const Program::Gradient& gradient : program.gradients) {
    using Before = Program::Gradient::Before;
    bool hasOne = inputs[gradient.parameter].grad().defined();
    if (gradient.before == Before::Any || hasOne == (gradient.before == Before::Some)) continue;
    throw RunError(nameOf(program, gradient.parameter) +
                   (hasOne ? " has a .grad, and had none when the function was captured: clear it, or capture the "
                             "function again"
                           : " has no .grad, and had one when the function was captured"));
  }
}

}  // namespace

std::vector<std::string> Program::guards() const {
  std::vector<std::string> texts;
  for (const sym::Guard& guard : context->symbols().guards()) texts.push_back(sym::toString(guard.condition));
  return texts;
}

// Classes that answer operators themselves, and calls of the user's code, are to find all as in eager mode.
static bool mayAskPython(const Program& program, const std::vector<at::Tensor>& inputs) {
  return program.userWrote || !program.objects.empty() ||
         std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& tensor) {
           return tensor.defined() && tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python);
         });
}

static bool hasTangents(const std::vector<at::Tensor>& inputs) {
  auto mayHave = [](const at::Tensor& tensor) {
    return tensor.defined() && tensor.unsafeGetTensorImpl()->autograd_meta();
  };
  if (std::none_of(inputs.begin(), inputs.end(), mayHave)) return false;
  return torch::autograd::ForwardADLevel::try_get_by_idx(0) &&
         std::any_of(inputs.begin(), inputs.end(),
                     [](const at::Tensor& t) { return t.defined() && t._fw_grad(0).defined(); });
}

// Is every operator to be called as eager mode calls it?
static bool followsGradients(const Program& program, const std::vector<at::Tensor>& inputs) {
  if ((program.asRecorded && mayAskPython(program, inputs)) || hasTangents(inputs)) return true;
  // Where autograd was off around the call as well, the program has turned it on.
  bool enabled = c10::GradMode::is_enabled() || !program.gradAround;
  // What a result is a view of may require grad although the result does not.
  if (!enabled || !(program.differentiable || program.showsGradients)) return false;
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const at::Tensor& t) { return t.defined() && t.requires_grad(); });
}

// The inputs of a run, which are what the program was captured for.
static std::vector<at::Tensor> checkedInputs(const Program& program, std::span<const at::Tensor> arguments,
                                             bool guarded = false) {
  for (const at::Tensor& argument : arguments) {
    if (!argument.defined()) throw RunError("an argument is no tensor");
  }
  std::vector<at::Tensor> inputs = bind(program, arguments);
  if (guarded) return inputs;
  Sizes sizes(program.prepared().get(Executable::Views::Called).sizes());
  sizes.bind(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (program.sources[i].kind != Source::Kind::Flat) check(program, i, inputs[i], sizes);
  }
  if (std::string why = sizes.unmet(); !why.empty()) throw RunError(why);
  if (!program.asRecorded) checkSharing(program, arguments, inputs);
  checkGradients(program, inputs);
  return inputs;
}

bool needsFunction(const Program& program, std::span<const at::Tensor> arguments) {
  if (!program.userGradients) return false;
  return followsGradients(program, checkedInputs(program, arguments));
}

const Prepared& Program::prepared() const {
  std::call_once(once_,
                 [this] { prepared_ = std::make_unique<Prepared>(*graph, objects, /*simplified=*/false, native); });
  return *prepared_;
}

Program::Program() = default;
Program::~Program() = default;

std::vector<c10::IValue> run(const Program& program, std::span<const at::Tensor> arguments, bool guarded) {
  std::vector<at::Tensor> inputs = checkedInputs(program, arguments, guarded);
  bool grad = followsGradients(program, inputs);
  if (grad && program.recorded) return run(*program.recorded, arguments);
  if (grad && program.userGradients) {
    if (program.function) return program.function(arguments);
    throw RunError(
        "gradients of the results pass a torch.autograd.Function or a hook, which no graph has: call the function "
        "itself, or run the graph with autograd off");
  }

  const Prepared& prepared = program.prepared();
  const Executable& executable = grad ? prepared.get(Executable::Views::Called) : prepared.get(inputs);
  std::optional<RecordedCalls> calls;
  if (grad || executable.hasModes()) calls.emplace(program, grad);
  Run execution(executable, calls ? &*calls : nullptr);
  execution.sizes().bind(inputs);
  Versions versions = grad ? Versions() : countedAhead(program, arguments, inputs);
  std::optional<aten::BelowAutograd> below;
  c10::AutoGradMode mode(true);  // kernels that keep something for a backward ask for it
  if (!grad) below.emplace();
  for (size_t i = 0; i < inputs.size(); ++i) execution.set(i, inputs[i]);
  aten::WriteMeter meter;
  try {
    execution.run();
  } catch (...) {
    lastFailure().node = execution.running() ? prepared.numberOf(executable, *execution.running()) : 0;
    if (program.asRecorded && execution.running()) versions.reach(writesBefore(program, *lastFailure().node));
    throw;
  }
  std::vector<c10::IValue> returned;
  returned.reserve(execution.returnedCount());
  for (size_t i = 0; i < execution.returnedCount(); ++i) returned.push_back(execution.returned(i));
  below.reset();
  if (grad) {
    for (size_t i = 0; i < program.results; ++i) {
      if (returned[i].isTensor() && !program.resultRequiresGrad[i] && returned[i].toTensor().requires_grad()) {
        returned[i] = returned[i].toTensor().detach();
      }
    }
  }
  versions.reach();
  if (!program.userWrites.empty()) addMoved(program, arguments, inputs, movedByUser(program, meter, !grad));
  setGradients(program, inputs, returned);
  return returned;
}

}  // namespace saker::runtime
