#include "aot/compiled.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "aot/replay.h"
#include "aten/autograd_node.h"
#include "aten/trace_key.h"

namespace saker::aot {

namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// Runs a graph through ATen, below autograd.
class GraphRun final : public runtime::Interpreter {
 public:
  GraphRun(const ir::Graph& graph, const std::vector<c10::IValue>& objects, sym::Assignment symbols)
      : Interpreter(graph, std::move(symbols)), objects_(objects) {}
  c10::IValue opaque(const ir::OpaqueRef& reference) override { return objects_.at(reference.number); }

 private:
  const std::vector<c10::IValue>& objects_;
};

std::vector<at::Tensor> interpret(const ir::Graph& graph, const std::vector<c10::IValue>& objects,
                                  std::vector<at::Tensor> inputs) {
  GraphRun run(graph, objects, runtime::bindSymbols(graph, inputs));
  for (size_t i = 0; i < inputs.size(); ++i) run.set(graph.top()->parameters()[i], std::move(inputs[i]));
  run.run();
  std::vector<at::Tensor> results;
  for (const ir::Arg& arg : graph.top()->terminator()->args()) {
    c10::IValue value = run.returned(arg);
    results.push_back(value.isTensor() ? std::move(value).toTensor() : at::Tensor());
  }
  return results;
}

// The compiled backward as a node of autograd's graph.
class Backward final : public torch::autograd::Node {
 public:
  explicit Backward(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}

  void save(std::vector<SavedVariable> saved, std::vector<SavedVariable> primals) {
    saved_ = std::move(saved);
    primals_ = std::move(primals);
  }

  variable_list apply(variable_list&& tangents) override {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < tangents.size(); ++i) tangents[i] = asTold(i, tangents[i]);
    return c10::GradMode::is_enabled() ? differentiably(std::move(tangents)) : compiled(std::move(tangents));
  }

  void release_variables() override {
    std::lock_guard lock(mutex_);
    for (SavedVariable& saved : saved_) saved.reset_data();
    for (SavedVariable& primal : primals_) primal.reset_data();
  }

  std::string name() const override { return "SakerBackward"; }

 private:
  // A tangent that is not given is zero; one of other strides is brought into those that the graph was made for.
  at::Tensor asTold(size_t index, const at::Tensor& given) const {
    const Joint& joint = plan_->joint;
    const ir::TensorType& type = *joint.program->graph->top()->parameters()[joint.primals + index]->tensor();
    const torch::autograd::InputMetadata& result = input_metadata(index);
    at::Tensor tangent = given.defined() ? given : at::zeros_symint(result.shape_as_dim_vector(), result.options());
    if (type.symbolic) return tangent.contiguous();
    runtime::Geometry told = runtime::geometryOf(type, {});
    if (tangent.strides() == c10::IntArrayRef(told.strides)) return tangent;
    at::Tensor copy = at::empty_strided(told.sizes, told.strides, tangent.options());
    // Not in place under autograd, which is to follow it in a double backward.
    return c10::GradMode::is_enabled() ? tangent : copy.copy_(tangent);
  }

  variable_list compiled(variable_list tangents) {
    std::vector<at::Tensor> inputs;
    for (const SavedVariable& saved : saved_) inputs.push_back(saved.unpack(getptr()));
    for (at::Tensor& tangent : tangents) inputs.push_back(std::move(tangent));
    aten::BelowAutograd below;
    return plan_->backward(std::move(inputs));
  }

  // The gradients once more, as functions of the arguments: the joint program runs under autograd.
  variable_list differentiably(variable_list tangents) {
    std::vector<at::Tensor> inputs;
    for (const SavedVariable& primal : primals_) inputs.push_back(primal.unpack(getptr()));
    for (at::Tensor& tangent : tangents) inputs.push_back(std::move(tangent));
    std::vector<at::Tensor> all =
        interpret(*plan_->joint.program->graph, plan_->joint.program->objects, std::move(inputs));
    return variable_list(all.begin() + static_cast<std::ptrdiff_t>(plan_->joint.results), all.end());
  }

  std::shared_ptr<const Plan> plan_;
  std::vector<SavedVariable> saved_;
  std::vector<SavedVariable> primals_;
};

class Call {
 public:
  Call(const std::shared_ptr<const Plan>& plan, std::span<const at::Tensor> arguments)
      : plan_(plan), joint_(plan->joint), arguments_(arguments) {
    const runtime::Program& program = *joint_.program;
    for (size_t i = 0; i < joint_.primals; ++i) {
      const runtime::Source& source = program.sources[i];
      primals_.push_back(source.kind == runtime::Source::Kind::Closed ? source.tensor : arguments[source.argument]);
    }
  }

  std::vector<at::Tensor> run() {
    bool training =
        joint_.training && c10::GradMode::is_enabled() &&
        std::any_of(primals_.begin(), primals_.end(), [](const at::Tensor& t) { return t.requires_grad(); });
    runForward(training);
    applyChanges();
    std::vector<at::Tensor> outputs;
    for (const Output& output : joint_.outputs) outputs.push_back(outputOf(output));
    return outputs;
  }

 private:
  // A backward reads arguments as they were: those that the function writes are copied before.
  void keepOriginals() {
    originals_ = primals_;
    for (const Change& change : joint_.changes) {
      for (size_t i = 0; i < primals_.size(); ++i) {
        if (primals_[i].is_same(arguments_[change.argument])) originals_[i] = primals_[i].clone();
      }
    }
  }

  void runForward(bool training) {
    std::vector<at::Tensor> returned;
    {
      c10::AutoGradMode mode(false);
      aten::BelowAutograd below;
      returned = plan_->forward(primals_);
    }
    results_.assign(returned.begin(), returned.begin() + static_cast<std::ptrdiff_t>(joint_.results));
    if (training) connect({returned.begin() + static_cast<std::ptrdiff_t>(joint_.results), returned.end()});
  }

  // Will the epilogue write to this memory?
  bool isToBeWritten(const at::Tensor& tensor) const {
    return std::any_of(joint_.changes.begin(), joint_.changes.end(), [&](const Change& change) {
      return arguments_[change.argument].storage().unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl();
    });
  }

  void connect(const std::vector<at::Tensor>& saved) {
    keepOriginals();
    auto node = aten::makeNode<Backward>(plan_);
    torch::autograd::edge_list edges;
    for (size_t parameter : joint_.gradientOf) {
      const at::Tensor& primal = primals_[parameter];
      edges.push_back(primal.requires_grad() ? torch::autograd::impl::gradient_edge(primal) : torch::autograd::Edge());
    }
    node->set_next_edges(std::move(edges));
    for (size_t i = 0; i < results_.size(); ++i) {
      if (!joint_.differentiable[i]) continue;
      torch::autograd::set_history(results_[i], node);
    }
    node->save(pack(saved), packPrimals());
  }

  std::vector<SavedVariable> pack(const std::vector<at::Tensor>& saved) {
    std::vector<SavedVariable> packed;
    for (size_t i = 0; i < saved.size(); ++i) {
      const std::optional<size_t>& primal = plan_->cut.saved[i].primal;
      at::Tensor tensor = primal ? originals_[*primal] : saved[i];
      if (!primal && isToBeWritten(tensor)) tensor = tensor.clone();
      bool isOutput = !primal && tensor.grad_fn() != nullptr;
      packed.emplace_back(tensor, isOutput);
    }
    return packed;
  }

  std::vector<SavedVariable> packPrimals() {
    std::vector<SavedVariable> packed;
    for (const at::Tensor& original : originals_) packed.emplace_back(original, false);
    return packed;
  }

  // Writes what the function would have written, in the sight of autograd where that is so.
  void applyChanges() {
    for (const Change& change : joint_.changes) {
      const at::Tensor& argument = arguments_[change.argument];
      {
        c10::AutoGradMode mode(change.visible && c10::GradMode::is_enabled());
        argument.copy_(results_[change.result]);
      }
      if (argument.is_inference()) continue;
      for (uint32_t done = 1; done < change.versions; ++done) torch::autograd::impl::bump_version(argument);
    }
  }

  at::Tensor outputOf(const Output& output) {
    switch (output.kind) {
      case Output::Kind::None:
        return {};
      case Output::Kind::Result:
        return replay(output, results_[output.index], joint_);
      case Output::Kind::Argument:
        return replay(output, arguments_[output.index], joint_);
      case Output::Kind::Closed:
        return replay(output, primals_[output.index], joint_);
    }
    return {};
  }

  const std::shared_ptr<const Plan>& plan_;
  const Joint& joint_;
  std::span<const at::Tensor> arguments_;
  std::vector<at::Tensor> primals_;
  std::vector<at::Tensor> originals_;  // in training: the primals as they are before the call
  std::vector<at::Tensor> results_;
};

}  // namespace

CompiledFunction::CompiledFunction(Joint joint, const autograd::PartitionOptions& options)
    : plan_(std::make_shared<Plan>()) {
  plan_->joint = std::move(joint);
  const Joint& given = plan_->joint;
  const ir::Graph& whole = *given.program->graph;
  if (given.training) {
    autograd::Joint layout{given.primals, whole.top()->parameters().size() - given.primals, given.results};
    auto cut = autograd::partition(whole, layout, options);
    if (const auto* why = std::get_if<std::string>(&cut)) throw std::runtime_error(*why);
    plan_->cut = std::move(std::get<autograd::Cut>(cut));
  }
  Plan* plan = plan_.get();
  plan_->forward = [plan](std::vector<at::Tensor> inputs) {
    const ir::Graph& graph = plan->joint.training ? *plan->cut.forward : *plan->joint.program->graph;
    return interpret(graph, plan->joint.program->objects, std::move(inputs));
  };
  plan_->backward = [plan](std::vector<at::Tensor> inputs) {
    return interpret(*plan->cut.backward, plan->joint.program->objects, std::move(inputs));
  };
}

const ir::Graph& CompiledFunction::forwardGraph() const {
  return training() ? *plan_->cut.forward : *plan_->joint.program->graph;
}

void CompiledFunction::setExecutables(Executable forward, Executable backward) {
  if (forward) plan_->forward = std::move(forward);
  if (backward) plan_->backward = std::move(backward);
}

std::vector<at::Tensor> CompiledFunction::operator()(std::span<const at::Tensor> arguments) const {
  return Call(plan_, arguments).run();
}

}  // namespace saker::aot
