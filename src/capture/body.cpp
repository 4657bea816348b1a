#include "capture/body.h"

#include "capture/undo.h"
#include "passes/bodies.h"
#include "support/check.h"

namespace saker::tracing {

namespace {

constexpr const char* kFinished =
    "this tensor was made in the body of an operator, and has no data; return it from the body to get its value";
constexpr const char* kTakenBack =
    "this tensor was made in the body of an operator that could not be recorded, and has no data";

}  // namespace

Attempt::Attempt(Recording& recording)
    : recording_(recording),
      nodes_(recording.graph().checkpoint()),
      symbols_(recording.context()->symbols().checkpoint()),
      kept_(recording.kept().size()) {
  for (Recording* level = &recording; level; level = level->outer()) levels_.push_back(level->checkpoint());
  ++recording.shared_->attempts;
}

Attempt::~Attempt() {
  if (!open_) return;
  // While values that are about to go can still be looked at.
  for (const Recording::Restore& level : levels_) level(nodes_.values);
  std::erase_if(recording_.shared_->literals, [&](const auto& each) { return each.first->id() >= nodes_.values; });
  recording_.graph().rollback(nodes_);
  recording_.context()->symbols().rollback(symbols_);
  recording_.shared_->kept.resize(kept_);
  --recording_.shared_->attempts;
}

void Attempt::keep() {
  SAKER_CHECK(open_, "it was kept before");
  open_ = false;
  recording_.graph().commit(nodes_);
  --recording_.shared_->attempts;
}

OpenNode::OpenNode(Recording& outer, const ir::OpDef* op, size_t bodies)
    : outer_(outer), attempt_(outer), node_(outer.createNode(op, bodies)) {}

ir::Node* OpenNode::append(std::span<const ir::Arg> args, std::span<const ir::Type* const> results) {
  outer_.appendNode(node_, args, results);
  attempt_.keep();
  return node_;
}

std::vector<std::unique_ptr<ir::Graph>> OpenNode::close(std::vector<ir::Value*>& outer) {
  std::vector<std::unique_ptr<ir::Graph>> closed = passes::closed(*node_, outer_.graph(), outer);
  outer_.graph().erase(node_);
  attempt_.keep();
  return closed;
}

Body::Body(Recording& outer, ir::Region* region)
    : attempt_(outer), region_(region), trace_(std::make_shared<Trace>(outer, region)), held_(trace_->lock()) {
  SAKER_CHECK(region->owner() && !region->owner()->region(), "bodies are recorded before their node is appended");
  SAKER_CHECK(region->empty(), "a body is recorded once");
  trace_->enterBody();
  untaped_.emplace(nullptr);
  scope_.emplace(trace_);
}

Body::~Body() {
  if (!trace_) return;
  trace_->undo().restore();
  leave(kTakenBack);
}

at::Tensor Body::addParameter(const ir::TensorType* type, std::string_view name) {
  return trace_->makeTensor(trace_->graph().addParameter(region_, type, name), nullptr);
}

ir::Value* Body::addNumber() {
  return trace_->graph().addParameter(region_, trace_->context()->types().plain(ir::TypeKind::Int));
}

void Body::finish(std::span<const c10::IValue> results, const std::function<void(Trace& trace)>& look) {
  SAKER_CHECK(trace_, "the body is finished");
  if (trace_->refused()) trace_->host().rethrow(trace_->refused());
  std::vector<ir::Arg> returned;
  for (const c10::IValue& result : results) returned.push_back(trace_->resultArg(result));
  trace_->graph().appendReturn(region_, returned);
  if (look) look(*trace_);
  trace_->handOver();
  attempt_.keep();
  leave(kFinished);
}

void Body::leave(const char* why) {
  scope_.reset();
  untaped_.reset();
  trace_->endBody(why);
  held_ = {};
  trace_.reset();
}

}  // namespace saker::tracing
