#include "control/record_bodies.h"

#include <ATen/SequenceNumber.h>
#include <ATen/ops/lift_fresh.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <stdexcept>

#include "capture/user_code.h"
#include "control/sketch.h"
#include "ops/operator.h"
#include "support/check.h"

namespace saker::control {

namespace {

const ir::TensorType* sliceOf(ir::Context& context, const ir::TensorType& type) {
  ir::TensorSpec spec(type);
  spec.sizes = ir::Dims(std::span(type.sizes()).subspan(1));
  spec.strides = ir::Dims(std::span(type.strides()).subspan(1));
  return context.types().tensor(spec);
}

// Results of one type, whichever body gives them: where layouts differ, both are copied into the plain one.
void giveOneLayout(const std::vector<std::unique_ptr<ir::Graph>>& bodies) {
  static const ops::Operator* const clone = ops::find("aten::clone");
  std::span<const ir::Arg> left = bodies[0]->top()->terminator()->args();
  for (size_t i = 0; i < left.size(); ++i) {
    const ir::Node* other = bodies[1]->top()->terminator();
    if (left[i].toValue()->type() == other->arg(i).toValue()->type()) continue;
    for (const std::unique_ptr<ir::Graph>& body : bodies) {
      ir::Node* end = body->top()->terminator();
      ir::Value* value = end->arg(i).toValue();
      ir::TensorSpec spec(*value->tensor());
      tracing::makeRowMajor(spec);
      const ir::Type* types[] = {body->context().types().tensor(spec)};
      const ir::Arg args[] = {ir::Arg::value(value), ir::Arg::memoryFormat(ir::MemoryFormat::Contiguous)};
      ir::Node* copy = body->create(clone, args, types);
      body->insertBefore(body->top(), end, copy);
      body->setArg(end, i, ir::Arg::value(copy->result()));
    }
    left = bodies[0]->top()->terminator()->args();
  }
}

}  // namespace

BodyRecorder::BodyRecorder(tracing::Host host, ClosedBodies::Kind kind, size_t bodies)
    : kind_(kind),
      scratch_(tracing::currentTape() || tracing::current() ? nullptr : std::make_unique<tracing::Tape>(host)),
      tape_(tracing::currentTape()),
      outer_(scratch_ ? *scratch_
             : tape_  ? static_cast<tracing::Recording&>(*tape_)
                      : *tracing::current()) {
  node_.emplace(outer(), ClosedBodies::operatorOf(kind), bodies);
}

bool BodyRecorder::left() const { return tracing::currentTape() != tape_; }

BodyRecorder::~BodyRecorder() { cancel(); }

void BodyRecorder::cancel() {
  parameters_.clear();
  body_.reset();
  unhooked_.reset();
  node_.reset();
  lent_.clear();
}

std::vector<at::Tensor> BodyRecorder::begin(const std::vector<at::Tensor>& operands, const std::vector<bool>& sliced,
                                            const std::vector<std::string>& names) {
  SAKER_CHECK(!body_, "a body is recorded at a time");
  tracing::Recording& around = outer();
  std::vector<const ir::TensorType*> types;
  for (size_t i = 0; i < operands.size(); ++i) {
    const ir::TensorType* type = around.typeOf(operands[i]);
    types.push_back(i < sliced.size() && sliced[i] ? sliceOf(*around.context(), *type) : type);
  }
  unhooked_.emplace();
  firstNode_ = at::sequence_number::peek();
  body_.emplace(around, node_->region(next_++));
  parameters_.clear();
  for (size_t i = 0; i < operands.size(); ++i) {
    parameters_.push_back(
        body_->addParameter(types[i], i < names.size() ? std::string_view(names[i]) : std::string_view()));
    if (operands[i].requires_grad()) parameters_.back().set_requires_grad(true);
  }
  return parameters_;
}

bool BodyRecorder::end(std::vector<at::Tensor> results) {
  SAKER_CHECK(body_, "no body is being recorded");
  torch::autograd::edge_list roots;
  for (const at::Tensor& result : results) {
    if (result.requires_grad()) roots.push_back(torch::autograd::impl::gradient_edge(result));
  }
  bool users = tracing::reachesUserCode(roots, firstNode_);
  std::vector<at::Tensor> given = parameters_;
  for (const auto& [value, tensor] : body_->trace().lent()) given.push_back(tensor);
  for (const at::Tensor& result : results) {
    if (!body_->trace().owns(*result.unsafeGetTensorImpl())) given.push_back(result);
  }
  bool asked = kind_ == ClosedBodies::Kind::While && next_ == 1;  // a condition is read, and gone
  if (!asked) makeOwn(results, given, /*rowMajor=*/kind_ != ClosedBodies::Kind::If);
  std::vector<c10::IValue> values(results.begin(), results.end());
  body_->finish(values, [&](tracing::Trace& trace) {
    for (const auto& each : trace.lent()) {
      bool known =
          std::any_of(lent_.begin(), lent_.end(), [&](const auto& other) { return other.first == each.first; });
      if (!known) lent_.push_back(each);
    }
  });
  body_.reset();
  unhooked_.reset();
  parameters_.clear();
  return users;
}

// Data that is written in a body is a literal of the program around it.
at::Tensor BodyRecorder::tensorOf(const ir::Value* value) {
  for (const auto& [lent, tensor] : lent_) {
    if (lent == value) return tensor;
  }
  at::Tensor data = outer().literalData(value);
  if (!data.defined()) throw OnlyAsPython("a body uses a number that changes from call to call");
  return at::lift_fresh(data);
}

c10::intrusive_ptr<ClosedBodies> BodyRecorder::close(std::vector<at::Tensor>& closed, ClosedBodies::Shape shape) {
  SAKER_CHECK(node_ && !body_, "bodies are closed once, when all are recorded");
  std::vector<ir::Value*> values;
  std::vector<std::unique_ptr<ir::Graph>> graphs = node_->close(values);
  if (kind_ == ClosedBodies::Kind::If) giveOneLayout(graphs);
  for (const std::unique_ptr<ir::Graph>& graph : graphs) makeFunctional(*graph);
  std::vector<c10::IValue> objects = outer().kept();
  for (const ir::Value* value : values) closed.push_back(tensorOf(value));
  node_.reset();
  return tracing::keptOnce(c10::make_intrusive<ClosedBodies>(kind_, std::move(graphs), std::move(objects), shape));
}

}  // namespace saker::control
