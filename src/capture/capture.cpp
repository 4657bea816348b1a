#include "capture/capture.h"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "aten/memory.h"
#include "aten/torch_version/autograd_node.h"
#include "aten/version_counter.h"
#include "capture/undo.h"
#include "capture/user_code.h"
#include "ops/operator.h"
#include "runtime/shown.h"

namespace saker::tracing {

namespace {

constexpr const char* kEnded =
    "this tensor was made in a saker.capture that has ended, and has no data; return it from the captured function to "
    "get its value";

// What a stand-in of a tensor with history comes from: gradients end here.
struct StandIn final : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override { return {}; }
  std::string name() const override { return "saker::StandIn"; }
};

// A leaf stands for a leaf, which autograd does not let be written, and a tensor with history for one that has.
void giveHistory(const at::Tensor& standIn, bool leaf) {
  if (leaf) {
    standIn.set_requires_grad(true);
  } else {
    torch::autograd::set_history(standIn, aten::makeNode<StandIn>());
  }
}

// Row-major strides in the order of memory that the strides of the example show; nothing where it has gaps.
std::optional<ir::Dims> denseStrides(const at::Tensor& example, std::span<const sym::Int> sizes) {
  std::vector<size_t> order(sizes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    auto dimA = static_cast<int64_t>(a), dimB = static_cast<int64_t>(b);
    if (example.stride(dimA) != example.stride(dimB)) return example.stride(dimA) > example.stride(dimB);
    return example.size(dimA) > example.size(dimB);
  });
  ir::Dims strides;
  strides.resize(sizes.size());
  sym::Int step = 1;
  int64_t expected = 1;
  for (size_t k = order.size(); k-- > 0;) {
    auto dim = static_cast<int64_t>(order[k]);
    if (example.stride(dim) != expected) {
      if (example.size(dim) != 1) return std::nullopt;
      strides[order[k]] = example.stride(dim);
      continue;
    }
    strides[order[k]] = step;
    step = step * sizes[order[k]];
    expected *= example.size(dim);
  }
  return strides;
}

}  // namespace

Capture::Capture(Host host, std::span<const at::Tensor> arguments, std::span<const DynamicSize> dynamic,
                 std::span<const size_t> memories, std::shared_ptr<ir::Context> context)
    : trace_(std::make_shared<Trace>(Mode::Capture, host, std::move(context))),
      program_(std::make_unique<runtime::Program>()) {
  // What the program finds is there: a block around the capture runs what is pending.
  if (Trace* outer = current(); outer && outer->mode() == Mode::Deferred) outer->flush();
  program_->context = trace_->context();
  program_->arguments = arguments.size();
  program_->gradAround = c10::GradMode::is_enabled();
  wrapped_.resize(arguments.size());
  try {
    wrap(arguments, dynamic, memories);
  } catch (...) {
    leave();
    throw;
  }
  scope_ = std::make_unique<TraceScope>(trace_);
}

Capture::~Capture() { leave(); }

void Capture::leave() {
  scope_.reset();
  if (!trace_) return;
  trace_->undo().restore();
  trace_->abandon({ops::Reason::Unsupported, kEnded});
  wrapped_.clear();
  gradients_.clear();
  trace_.reset();
}

void Capture::checkArgument(size_t index, const at::Tensor& argument, std::span<const DynamicSize> dynamic) const {
  std::string name = "argument " + std::to_string(index);
  auto fail = [&](const std::string& what) { trace_->raise({ops::Reason::Unsupported, name + " " + what}); };
  const c10::TensorImpl& impl = *argument.unsafeGetTensorImpl();
  if (impl.key_set().has(c10::DispatchKey::FuncTorchBatched) ||
      impl.key_set().has(c10::DispatchKey::FuncTorchGradWrapper)) {
    fail("belongs to a torch.func transform around the capture: capture inside of it");
  }
  if (impl.key_set().has(c10::DispatchKey::Python)) {
    fail("is a tensor subclass or a FakeTensor, which cannot be captured: pass a plain tensor");
  }
  if (argument.layout() != c10::kStrided || !argument.has_storage() || argument.is_quantized()) {
    fail("is not a dense strided tensor: convert it with to_dense() or dequantize()");
  }
  for (const DynamicSize& size : dynamic) {
    if (size.argument == index && size.dim >= static_cast<size_t>(argument.dim())) {
      fail("has no dimension " + std::to_string(size.dim) + " to be dynamic");
    }
  }
}

void Capture::wrap(std::span<const at::Tensor> arguments, std::span<const DynamicSize> dynamic,
                   std::span<const size_t> memories) {
  std::unordered_map<uintptr_t, std::vector<size_t>> byMemory;
  std::unordered_map<const c10::TensorImpl*, size_t> seen;
  program_->sameAs.resize(arguments.size());
  std::vector<uintptr_t> order;
  if (memories.empty()) noteStorages(arguments);
  for (size_t i = 0; i < arguments.size(); ++i) {
    program_->sameAs[i] = i;
    if (!arguments[i].defined()) continue;
    checkArgument(i, arguments[i], dynamic);
    auto [known, isNew] = seen.emplace(arguments[i].unsafeGetTensorImpl(), i);
    program_->sameAs[i] = known->second;
    if (!isNew) continue;
    uintptr_t memory = memories.empty() ? reinterpret_cast<uintptr_t>(arguments[i].storage().unsafeGetStorageImpl())
                                        : static_cast<uintptr_t>(memories[i]);
    std::vector<size_t>& group = byMemory[memory];
    if (group.empty()) order.push_back(memory);
    group.push_back(i);
  }
  for (uintptr_t memory : order) {
    const std::vector<size_t>& group = byMemory[memory];
    bool alone = group.size() == 1;
    // What stands for an inference tensor is one, and has no version counter.
    c10::InferenceMode mode(arguments[group[0]].is_inference());
    alone ? wrapAlone(group[0], arguments[group[0]], dynamic) : wrapGroup(group, arguments);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (program_->sameAs[i] != i) {
      wrapped_[i] = wrapped_[program_->sameAs[i]];
    } else if (wrapped_[i].defined() && arguments[i].requires_grad()) {
      giveHistory(wrapped_[i], arguments[i].is_leaf());
    }
  }
}

// Those that are on one storage are views of one parameter; those that share memory otherwise are parameters of their
// own.
void Capture::noteStorages(std::span<const at::Tensor> arguments) {
  std::vector<uint32_t> first = aten::sharedMemory(arguments);
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i] != i && !aten::sameStorage(arguments[i], arguments[first[i]])) program_->memories = first;
  }
}

sym::Int Capture::dynamicSize(const DynamicSize& dynamic, int64_t example) {
  sym::Context& symbols = trace_->context()->symbols();
  std::string name = dynamic.name;
  if (name.empty()) {
    for (size_t k = 0; name.empty() || symbols.find(name); ++k) name = "s" + std::to_string(k);
  } else if (const sym::Symbol* known = symbols.find(name)) {
    if (known->example != example) {
      trace_->raise({ops::Reason::Unsupported, "the dynamic size " + name + " is " + std::to_string(*known->example) +
                                                   " in one argument and " + std::to_string(example) + " in another"});
    }
    return sym::Int(known->node);
  } else if (!sym::isSymbolName(name)) {
    trace_->raise({ops::Reason::Unsupported, "not a name for a dynamic size: " + name});
  }
  return symbols.symbol(name, sym::Range::size(), example);
}

const ir::TensorType* Capture::argumentType(size_t index, const at::Tensor& argument,
                                            std::span<const DynamicSize> dynamic) {
  ir::TensorSpec spec(*trace_->typeOf(argument));
  // A number that came as an input takes no part in choosing dtypes.
  spec.flags.wrappedNumber = argument.unsafeGetTensorImpl()->is_wrapped_number();
  bool any = false;
  for (const DynamicSize& size : dynamic) {
    int64_t example = size.argument == index ? argument.size(static_cast<int64_t>(size.dim)) : 0;
    // 0 and 1 mean other things in PyTorch than larger sizes do: they stay what they are.
    if (size.argument != index || example < 2) continue;
    spec.sizes[size.dim] = dynamicSize(size, example);
    any = true;
  }
  if (any) {
    if (std::optional<ir::Dims> strides = denseStrides(argument, spec.sizes)) spec.strides = *strides;
  }
  return trace_->context()->types().tensor(spec);
}

void Capture::wrapAlone(size_t index, const at::Tensor& argument, std::span<const DynamicSize> dynamic) {
  ir::Graph& graph = trace_->graph();
  ir::Value* parameter = graph.addParameter(graph.top(), argumentType(index, argument, dynamic));
  addSource(parameter, {runtime::Source::Kind::Argument, index, {}, false});
  wrapped_[index] = trace_->makeTensor(parameter, nullptr);
}

// Arguments that share memory are views of one parameter: all of that memory, as a row of elements.
void Capture::wrapGroup(const std::vector<size_t>& group, std::span<const at::Tensor> arguments) {
  const at::Tensor& first = arguments[group[0]];
  for (size_t index : group) {
    if (arguments[index].scalar_type() != first.scalar_type()) {
      trace_->raise({ops::Reason::Unsupported, "arguments " + std::to_string(group[0]) + " and " +
                                                   std::to_string(index) + " share memory under different dtypes"});
    }
  }
  ir::Graph& graph = trace_->graph();
  ir::TensorSpec whole(*argumentType(group[0], first, {}));
  whole.sizes = {sym::Int(static_cast<int64_t>(first.storage().nbytes() / first.itemsize()))};
  whole.strides = {sym::Int(1)};
  whole.offset = 0;
  whole.flags = {};
  ir::Value* flat = graph.addParameter(graph.top(), trace_->context()->types().tensor(whole));
  addSource(flat, {runtime::Source::Kind::Flat, group[0], {}, false});
  at::Tensor base = trace_->makeTensor(flat, nullptr);
  const c10::Storage storage = base.storage();
  for (size_t index : group) {
    const ir::TensorType* type = argumentType(index, arguments[index], {});
    wrapped_[index] = trace_->makeTensor(trace_->appendView(flat, type), &storage);
  }
}

void Capture::addSource(const ir::Value* parameter, runtime::Source source) {
  sources_.resize(parameter->index() + 1);
  sources_[parameter->index()] = std::move(source);
}

at::Tensor Capture::addArgument(const ir::TensorType* type) {
  ir::Graph& graph = trace_->graph();
  ir::Value* parameter = graph.addParameter(graph.top(), type);
  addSource(parameter, {runtime::Source::Kind::Argument, program_->arguments++, {}, false});
  wrapped_.push_back(trace_->makeTensor(parameter, nullptr));
  program_->sameAs.push_back(wrapped_.size() - 1);
  return wrapped_.back();
}

sym::Float Capture::numberIn(size_t argument, double example) {
  static const ops::Operator* read = ops::find("aten::_local_scalar_dense");
  const std::shared_ptr<ir::Context>& context = trace_->context();
  std::string name;
  for (size_t k = 0; name.empty() || context->symbols().find(name); ++k) name = "f" + std::to_string(k);
  sym::Float symbol = context->symbols().floatSymbol(name, example);
  const ir::Arg args[] = {ir::Arg::value(trace_->valueOf(wrapped_[argument]))};
  const ir::Type* results[] = {context->types().scalar(ir::TypeKind::Float, symbol.node())};
  trace_->append(read, args, results, {nullptr, {.noGrad = true}});
  return symbol;
}

void Capture::takeGradients(std::span<const at::Tensor> arguments) {
  ir::Graph& graph = trace_->graph();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const at::Tensor& standIn = wrapped_[i];
    if (program_->sameAs[i] != i || !standIn.defined() || !standIn.requires_grad() || !standIn.is_leaf()) continue;
    const at::Tensor gradient = arguments[i].grad();
    if (gradient.defined() && gradient.layout() == c10::kStrided && gradient.has_storage() &&
        !gradient.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python)) {
      // Of sizes that change, only those of the argument are known.
      const ir::TensorType* type = trace_->valueOf(standIn)->tensor();
      bool alike = gradient.sizes() == arguments[i].sizes() && gradient.strides() == arguments[i].strides() &&
                   gradient.scalar_type() == arguments[i].scalar_type() && gradient.storage_offset() == 0 &&
                   arguments[i].storage_offset() == 0;
      if (!alike && type->symbolic) continue;
      if (!alike) type = argumentType(i, gradient, {});
      ir::Value* parameter = graph.addParameter(graph.top(), type);
      addSource(parameter, {runtime::Source::Kind::Gradient, i, {}, false});
      gradients_.emplace_back(parameter->index(), trace_->makeTensor(parameter, nullptr));
      standIn.mutable_grad() = gradients_.back().second;
    }
    trace_->undo().noteLeaf(standIn);
  }
}

void Capture::expectCleared(const at::Tensor& tensor) {
  aten::RunForReal real;
  trace_->undo().expectCleared(tensor);
}

namespace {

// Where leaves, and what they have as .grad, are in the graph.
class Places {
 public:
  explicit Places(Trace& trace) : trace_(trace) {
    for (const Input& input : trace.inputs()) inputs_.emplace(input.tensor.unsafeGetTensorImpl(), input.value);
  }
  void addArgument(const at::Tensor& standIn, size_t parameter) {
    arguments_.emplace(standIn.unsafeGetTensorImpl(), parameter);
  }
  void addReturned(const ir::Arg& arg) {
    if (arg.isValue()) returned_.insert(arg.toValue());
  }

  std::optional<size_t> parameterOf(const at::Tensor& leaf) {
    auto argument = arguments_.find(leaf.unsafeGetTensorImpl());
    if (argument != arguments_.end()) return argument->second;
    if (traceStorage(*leaf.unsafeGetTensorImpl())) return std::nullopt;  // made by the program, and gone with it
    ir::Value* value = trace_.valueOf(leaf);
    return value->isParameter() ? std::optional<size_t>(value->index()) : std::nullopt;
  }
  // Has an operator seen it, or is it a result?
  bool isRead(const at::Tensor& gradient) const {
    auto input = inputs_.find(gradient.unsafeGetTensorImpl());
    const TraceTensor* own = traceTensor(*gradient.unsafeGetTensorImpl());
    const ir::Value* value = own ? own->value() : input != inputs_.end() ? input->second : nullptr;
    return value && (value->hasUses() || returned_.contains(value));
  }

 private:
  Trace& trace_;
  std::unordered_map<const c10::TensorImpl*, const ir::Value*> inputs_;
  std::unordered_map<const c10::TensorImpl*, size_t> arguments_;
  std::unordered_set<const ir::Value*> returned_;
};

}  // namespace

void Capture::collectGradients(std::vector<ir::Arg>& returned) {
  using Before = runtime::Program::Gradient::Before;
  Places places(*trace_);
  for (size_t i = 0; i < sources_.size(); ++i) {
    bool argument = sources_[i] && sources_[i]->kind == runtime::Source::Kind::Argument;
    if (argument) places.addArgument(wrapped_[sources_[i]->argument], i);
  }
  for (const ir::Arg& arg : returned) places.addReturned(arg);
  const std::vector<Undo::Leaf> leaves = trace_->undo().leaves();
  for (const Undo::Leaf& leaf : leaves) {
    const at::Tensor before = leaf.found, after = leaf.tensor.grad();
    bool same = after.is_same(before);
    bool read = before.defined() && places.isRead(before);
    if (leaf.saidCleared && read) {
      trace_->raise({ops::Reason::BadArgument,
                     "the function uses the .grad that a tensor has, which it was said to clear before"});
    }
    if (same && (after.defined() || !leaf.set)) continue;
    std::optional<size_t> parameter = places.parameterOf(leaf.tensor);
    if (!parameter) continue;
    bool any = leaf.setFirst || (before.defined() && !same && !read);
    program_->gradients.push_back({*parameter, any ? Before::Any : before.defined() ? Before::Some : Before::None});
    returned.push_back(after.defined() ? ir::Arg::value(trace_->valueOf(after)) : ir::Arg::none());
  }
}

// Where the tensors come from that the program found elsewhere. The .grad of a tensor is what that has when it runs.
void Capture::noteInputs() {
  std::unordered_map<const c10::TensorImpl*, const at::Tensor*> owners;
  for (const Undo::Leaf& leaf : trace_->undo().leaves()) {
    if (leaf.grad.defined()) owners.emplace(leaf.grad.unsafeGetTensorImpl(), &leaf.tensor);
  }
  for (const Input& input : trace_->inputs()) {
    using Kind = runtime::Source::Kind;
    auto owner = owners.find(input.tensor.unsafeGetTensorImpl());
    program_->sources[input.value->index()] = owner == owners.end()
                                                  ? runtime::Source{Kind::Closed, 0, input.tensor, input.literal}
                                                  : runtime::Source{Kind::Gradient, 0, *owner->second, false};
    program_->closedWrites[input.value->index()] = trace_->undo().writesTo(input.tensor);
  }
}

void Capture::noteUserWrites() {
  for (const UserWrite& write : trace_->userWrites()) {
    runtime::Program::UserWrite noted{write.counted, {}};
    for (const at::Tensor& target : write.targets) {
      std::vector<size_t>& parameters = noted.parameters.emplace_back();
      for (size_t i = 0; i < program_->sources.size(); ++i) {
        const runtime::Source& source = program_->sources[i];
        if (source.kind == runtime::Source::Kind::Gradient) continue;
        bool closed = source.kind == runtime::Source::Kind::Closed;
        const at::Tensor& tensor = closed ? source.tensor : wrapped_[source.argument];
        if (aten::sharesVersion(target, tensor)) parameters.push_back(i);
      }
    }
    program_->userWrites.push_back(std::move(noted));
  }
}

std::unique_ptr<runtime::Program> Capture::finish(std::span<const c10::IValue> outputs) {
  auto held = trace_->lock();
  if (trace_->refused()) trace_->host().rethrow(trace_->refused());
  runtime::Program& program = *program_;
  std::vector<ir::Arg> returned;
  std::vector<torch::autograd::Edge> roots;
  for (const c10::IValue& output : outputs) {
    returned.push_back(trace_->resultArg(output));
    bool grad = output.isTensor() && output.toTensor().defined() && output.toTensor().requires_grad();
    program.resultRequiresGrad.push_back(grad);
    program.differentiable |= grad;
    if (grad) roots.push_back(torch::autograd::impl::gradient_edge(output.toTensor()));
  }
  program.results = outputs.size();
  program.userGradients = reachesRecordedUserCode(roots);
  collectGradients(returned);
  for (const at::Tensor& argument : wrapped_) {
    bool counted = argument.defined() && !argument.is_inference();
    program.argumentWrites.push_back(counted ? static_cast<uint32_t>(argument._version()) : 0);
    program.differentiable |= program.argumentWrites.back() != 0 && argument.requires_grad();
  }
  size_t parameters = trace_->graph().top()->parameters().size();
  program.closedWrites.resize(parameters);
  program.sources.resize(parameters);
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i]) program.sources[i] = *sources_[i];
  }
  for (const auto& [parameter, standIn] : gradients_) {
    program.closedWrites[parameter] = static_cast<uint32_t>(standIn._version());
  }
  noteInputs();
  noteUserWrites();
  trace_->graph().appendReturn(trace_->graph().top(), returned);
  program.objects = trace_->kept();
  program.graph = trace_->takeGraph();
  // Arguments that share memory are views of one that the caller does not have.
  bool flat = std::any_of(program.sources.begin(), program.sources.end(),
                          [](const runtime::Source& source) { return source.kind == runtime::Source::Kind::Flat; });
  if (!flat) program.showsGradients = runtime::markShown(*program.graph);
  std::unique_ptr<runtime::Program> done = std::move(program_);
  leave();
  return done;
}

}  // namespace saker::tracing
