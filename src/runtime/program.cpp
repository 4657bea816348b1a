#include "runtime/program.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "aten/enums.h"
#include "aten/on_copies.h"
#include "aten/trace_key.h"
#include "ops/operator.h"
#include "runtime/interpreter.h"

namespace saker::runtime {

namespace {

class ProgramRun final : public Interpreter {
 public:
  ProgramRun(const Program& program, sym::Assignment symbols, bool withAutograd)
      : Interpreter(*program.graph, std::move(symbols)), program_(program), withAutograd_(withAutograd) {}

  c10::IValue opaque(const ir::OpaqueRef& reference) override { return program_.objects.at(reference.number); }

 protected:
  void call(const ir::Node& node, const c10::OperatorHandle& handle, torch::jit::Stack& stack) override {
    std::optional<c10::InferenceMode> inference;
    if (node.id() < program_.inferenceModes.size() && program_.inferenceModes[node.id()]) {
      inference.emplace(!c10::InferenceMode::is_enabled());
    }
    if (!withAutograd_) return handle.callBoxed(&stack);
    bool on = node.id() >= program_.gradModes.size() || program_.gradModes[node.id()];
    c10::AutoGradMode mode(on);
    // Bindings make tensors below what counts writes.
    std::optional<at::AutoDispatchBelowADInplaceOrView> making;
    if (node.operandCount() == 0 && ops::of(&node)) making.emplace();
    handle.callBoxed(&stack);
  }

 private:
  const Program& program_;
  bool withAutograd_;
};

std::string shapeText(c10::IntArrayRef sizes) {
  std::string out = "(";
  for (size_t i = 0; i < sizes.size(); ++i) out += (i ? ", " : "") + std::to_string(sizes[i]);
  return out + ")";
}

std::string nameOf(const Program& program, size_t parameter) {
  const Source& source = program.sources[parameter];
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

void check(const Program& program, size_t parameter, const at::Tensor& given, const sym::Assignment& symbols) {
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
  Geometry told = geometryOf(type, symbols);
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
  for (size_t i = 0; i < program.sources.size(); ++i) {
    const Source& source = program.sources[i];
    if (source.kind == Source::Kind::Closed) {
      bound.push_back(source.tensor);
    } else if (source.kind == Source::Kind::Argument) {
      bound.push_back(arguments[source.argument]);
    } else {
      bound.push_back(flat(arguments[source.argument], *program.graph->top()->parameters()[i]->tensor()));
    }
  }
  return bound;
}

// What tells whether two tensors share memory. Stand-ins of a trace have no data yet.
const void* memoryOf(const at::Tensor& tensor) {
  if (tensor.unsafeGetTensorImpl()->key_set().has(aten::kTraceKey)) return tensor.storage().unsafeGetStorageImpl();
  return tensor.storage().data();
}

// A program that writes to an argument is only right if no other argument sees the same memory.
void checkSharing(const Program& program, std::span<const at::Tensor> arguments) {
  std::vector<const void*> flats;
  for (const Source& source : program.sources) {
    if (source.kind == Source::Kind::Flat) flats.push_back(memoryOf(arguments[source.argument]));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (program.argumentWrites[i] == 0 || !arguments[i].defined()) continue;
    const void* memory = memoryOf(arguments[i]);
    if (!memory || std::find(flats.begin(), flats.end(), memory) != flats.end()) continue;
    for (size_t k = 0; k < arguments.size(); ++k) {
      if (k != i && arguments[k].defined() && memoryOf(arguments[k]) == memory) {
        throw RunError("arguments " + std::to_string(std::min(i, k)) + " and " + std::to_string(std::max(i, k)) +
                       " share memory that the function writes, which they did not when it was captured");
      }
    }
  }
}

void checkGuards(const Program& program, const sym::Assignment& symbols) {
  if (std::string why = outOfRange(program.context->symbols(), symbols); !why.empty()) {
    throw RunError(why + ": sizes of 0 and 1 mean other things in PyTorch; capture the function again for them");
  }
  for (const sym::Guard& guard : program.context->symbols().guards()) {
    std::optional<bool> holds = sym::evaluateBool(guard.condition, symbols);
    if (!holds || !*holds) {
      throw RunError("the graph was captured for sizes with " + sym::toString(guard.condition) +
                     ", which does not hold for these: capture the function again for them");
    }
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

// Views share the counter of their base, so what counts is the number that each was seen to reach. Where autograd
// follows the run, it has counted all but what `moved` says.
void bumpVersions(const Program& program, std::span<const at::Tensor> arguments, const std::vector<uint32_t>& moved,
                  bool all) {
  std::vector<std::pair<at::Tensor, int64_t>> written;
  auto note = [&](const at::Tensor& tensor, uint32_t times) {
    if (times == 0 || !tensor.defined() || tensor.is_inference()) return;
    written.emplace_back(tensor, tensor._version() + times);
  };
  for (size_t i = 0; all && i < arguments.size(); ++i) note(arguments[i], program.argumentWrites[i]);
  for (size_t i = 0; i < program.sources.size(); ++i) {
    const Source& source = program.sources[i];
    bool closed = source.kind == Source::Kind::Closed;
    uint32_t known = !all ? 0 : closed ? program.closedWrites[i] : program.argumentWrites[source.argument];
    if (closed || moved[i] != 0) note(closed ? source.tensor : arguments[source.argument], known + moved[i]);
  }
  for (const auto& [tensor, version] : written) {
    while (tensor._version() < version) torch::autograd::impl::bump_version(tensor);
  }
}

void setGradients(const Program& program, const std::vector<at::Tensor>& inputs, std::vector<c10::IValue>& returned) {
  for (size_t i = 0; i < program.gradients.size(); ++i) {
    const at::Tensor& leaf = inputs[program.gradients[i].parameter];
    leaf.mutable_grad() = returned[program.results + i].toTensor();
  }
  returned.resize(program.results);
}

void checkGradients(const Program& program, const std::vector<at::Tensor>& inputs) {
  for (const Program::Gradient& gradient : program.gradients) {
    if (inputs[gradient.parameter].grad().defined() != gradient.hadOne) {
      throw RunError(nameOf(program, gradient.parameter) +
                     (gradient.hadOne ? " has no .grad, and had one when the function was captured"
                                      : " has a .grad, and had none when the function was captured"));
    }
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
           return tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python);
         });
}

std::vector<c10::IValue> run(const Program& program, std::span<const at::Tensor> arguments) {
  std::vector<at::Tensor> inputs = bind(program, arguments);
  for (const at::Tensor& argument : arguments) {
    if (!argument.defined()) throw RunError("an argument is no tensor");
  }
  sym::Assignment symbols = bindSymbols(*program.graph, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (program.sources[i].kind != Source::Kind::Flat) check(program, i, inputs[i], symbols);
  }
  checkGuards(program, symbols);
  if (!program.asRecorded) checkSharing(program, arguments);
  checkGradients(program, inputs);
  bool grad = program.differentiable && c10::GradMode::is_enabled() &&
              std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& t) { return t.requires_grad(); });
  grad |= program.asRecorded && mayAskPython(program, inputs);

  if (grad && program.recorded) return run(*program.recorded, arguments);

  ProgramRun execution(program, std::move(symbols), grad);
  std::optional<aten::BelowAutograd> below;
  c10::AutoGradMode mode(true);  // kernels that keep something for a backward ask for it
  if (!grad) below.emplace();
  for (size_t i = 0; i < inputs.size(); ++i) execution.set(program.graph->top()->parameters()[i], inputs[i]);
  aten::WriteMeter meter;
  execution.run();
  std::vector<c10::IValue> returned;
  for (const ir::Arg& arg : program.graph->top()->terminator()->args()) returned.push_back(execution.returned(arg));
  below.reset();
  if (grad) {
    for (size_t i = 0; i < program.results; ++i) {
      if (returned[i].isTensor() && !program.resultRequiresGrad[i] && returned[i].toTensor().requires_grad()) {
        returned[i] = returned[i].toTensor().detach();
      }
    }
  }
  if (!grad || !program.userWrites.empty()) {
    bumpVersions(program, arguments, movedByUser(program, meter, !grad), !grad);
  }
  setGradients(program, inputs, returned);
  return returned;
}

}  // namespace saker::runtime
