#include "aot/functional.h"

#include <algorithm>

#include "aot/sharing.h"
#include "aten/on_copies.h"
#include "ir/clone.h"
#include "ops/effects.h"
#include "ops/view_inverse.h"
#include "passes/pass.h"
#include "passes/stages.h"

namespace saker::aot {

namespace {

// The parameter whose memory a value lies in; nullptr: memory of its own.
const ir::Value* parameterOf(const ir::Value* value) {
  while (value && !value->isParameter()) value = ops::sharedArgument(value);
  return value;
}

// Does eager mode, too, give memory of an argument without telling autograd (unsafe_split)?
bool isUnsafe(const ir::Value* value) {
  const ops::Operator* op = value->def() ? ops::of(value->def()) : nullptr;
  return op && !op->writes && op->resultAlias[0] < 0 &&
         ops::sharing(*value->def(), value->index()) != ops::Sharing::None;
}

class Functional {
 public:
  explicit Functional(Joint& joint) : joint_(joint) {}

  void run(std::span<const ir::Value* const> tangents) {
    reorder(tangents);
    noteSources();
    noteRandom();
    noteBackwardWrites();
    forgetShown();
    takeResizes();
    passes::RunOptions options;
    options.verify = false;
    passes::RunResult ran = passes::run(graph(), passes::kFunctional, options);
    if (ran.error) throw NotAheadOfTime(Why::StageFailed, *ran.error);
    takeWrites();
    dropGeometry();
    checkSharing();
    returnContents();
  }

 private:
  ir::Graph& graph() { return *joint_.program->graph; }
  const ir::Graph& graph() const { return *joint_.program->graph; }
  ir::Node* end() { return graph().top()->terminator(); }

  void reorder(std::span<const ir::Value* const> tangents) {
    const runtime::Program& recording = *joint_.recording;
    size_t count = recording.graph->top()->parameters().size();
    std::vector<bool> isTangent(count);
    for (const ir::Value* tangent : tangents) isTangent[tangent->index()] = true;
    for (bool last : {false, true}) {
      for (size_t i = 0; i < count; ++i) {
        if (isTangent[i] == last) joint_.recordedPlace.push_back(i);
      }
    }
    joint_.primals = count - tangents.size();
    auto program = std::make_shared<runtime::Program>();
    program->context = recording.context;
    program->graph = ir::clone(*recording.graph, joint_.recordedPlace);
    for (size_t place : joint_.recordedPlace) program->sources.push_back(recording.sources[place]);
    program->objects = recording.objects;
    program->arguments = recording.arguments;
    program->results = recording.results;
    joint_.program = std::move(program);
    joint_.recordedPlace.resize(joint_.primals);
  }

  // Which tensors of the caller the primals are. The backward may have met more that the function closes over.
  void noteSources() {
    size_t behind = joint_.arguments + joint_.bases.size();
    for (size_t i = 0; i < joint_.primals; ++i) {
      const runtime::Source& source = joint_.program->sources[i];
      if (source.kind != runtime::Source::Kind::Closed) {
        joint_.sources.push_back({source.argument, source.kind == runtime::Source::Kind::Flat});
        continue;
      }
      auto known = std::find_if(joint_.closed.begin(), joint_.closed.end(),
                                [&](const at::Tensor& t) { return t.is_same(source.tensor); });
      joint_.sources.push_back({behind + static_cast<size_t>(known - joint_.closed.begin()), false});
      if (known == joint_.closed.end()) joint_.closed.push_back(source.tensor);
    }
    joint_.versions.resize(joint_.callers());
    joint_.historyOf.resize(joint_.callers());
  }

  void noteRandom() {
    for (const ir::Node* node = joint_.recording->graph->top()->first(); node; node = node->next()) {
      if (aten::isOnCopies(node->op()->qualified) && node->attributes().isCheckpointed()) {
        throw NotAheadOfTime(Why::CheckpointWrites);
      }
      bool random = ops::of(node) && ops::of(node)->isRandom();
      // Values that leave the checkpoint are those of the forward for others, and other ones for its own backward.
      if (random && node->attributes().checkpoint == ir::Attributes::Checkpoint::Redraw) {
        throw NotAheadOfTime(Why::CheckpointRedraws);
      }
      joint_.random |= node->id() < joint_.forwardNodes && random;
    }
  }

  // What a backward writes to is written when it runs.
  void noteBackwardWrites() {
    std::vector<size_t> primalOf(joint_.recording->graph->top()->parameters().size(), kNone);
    for (size_t i = 0; i < joint_.primals; ++i) primalOf[joint_.recordedPlace[i]] = i;
    backwardVersions_.resize(joint_.primals);
    std::vector<bool> inForward(joint_.primals);
    for (const ir::Node* node = joint_.recording->graph->top()->first(); node; node = node->next()) {
      const ops::Operator* op = ops::of(node);
      ops::eachWritten(*node, [&](const ir::Value* value) {
        const ir::Value* written = parameterOf(value);
        if (!written) return;
        size_t primal = primalOf[written->index()];
        if (node->id() < joint_.forwardNodes) {
          if (primal != kNone) inForward[primal] = true;
          return;
        }
        // How far the user's operators move a version counter is not measured in a backward.
        const ir::Node* from = node->operandCount() > 1 ? node->operand(1)->def() : nullptr;
        bool user = from && aten::isOnCopies(from->op()->qualified);
        if (user || primal == kNone || inForward[primal] || !mayWriteLater(primal)) {
          throw NotAheadOfTime(Why::BackwardWrites);
        }
        if (op->cost == ops::Cost::View) throw Refused(Why::BackwardReshapes);
        ++backwardVersions_[primal];
      });
    }
  }

  // An argument on memory of its own, written by a backward that always runs as a whole.
  bool mayWriteLater(size_t primal) const {
    const Joint::Primal& source = joint_.sources[primal];
    bool shared = std::any_of(joint_.members.begin(), joint_.members.end(),
                              [&](const Joint::Member& member) { return member.argument == source.caller; });
    size_t tangents = graph().top()->parameters().size() - joint_.primals;
    return source.caller < joint_.arguments && !source.flat && !shared && tangents == 1;
  }

  // What the caller sees beside values is made by steps.
  void forgetShown() {
    for (ir::Node* node = graph().top()->first(); node; node = node->next()) {
      ir::Attributes attributes = node->attributes();
      if (!attributes.shown) continue;
      attributes.shown = false;
      graph().setAttributes(node, attributes);
    }
  }

  // Memory that is given another length, and not looked at afterwards.
  void takeResizes() {
    for (ir::Node *node = graph().top()->first(), *next; node != end(); node = next) {
      next = node->next();
      if (node->op()->qualified != "inductor::resize_storage_bytes_") continue;
      ir::Value* resized = node->operand(0);
      bool argument = resized->isParameter() && resized->index() < joint_.primals &&
                      joint_.sources[resized->index()].caller < joint_.arguments &&
                      node->arg(1).kind() == ir::Arg::Kind::Int;
      if (!argument) throw NotAheadOfTime(Why::ResizesOther);
      for (const ir::Node* later = next; later; later = later->next()) {
        for (size_t i = 0; i < later->operandCount(); ++i) {
          if (parameterOf(later->operand(i)) == resized) {
            throw NotAheadOfTime(Why::ResizedIsUsed);
          }
        }
      }
      joint_.resizes.push_back({joint_.sources[resized->index()].caller, node->arg(1).toInt()});
      graph().erase(node);
    }
  }

  // Writes to primals are not done by the graph: new contents are returned.
  void takeWrites() {
    static const ops::Operator* copy = ops::find("aten::copy_");
    contents_.resize(joint_.primals);
    for (ir::Node *node = graph().top()->first(), *next; node != end(); node = next) {
      next = node->next();
      const ops::Operator* op = ops::of(node);
      if (!ops::writes(*node) || op->cost == ops::Cost::View) continue;
      ops::eachWritten(*node, [&](const ir::Value* value) {
        const ir::Value* written = parameterOf(value);
        if (written && (op != copy || node->operand(0) != written || written->index() >= joint_.primals)) {
          throw NotAheadOfTime(Why::WritesEmpty);
        }
      });
      if (op != copy || !node->operand(0)->isParameter()) continue;
      ir::Value *primal = node->operand(0), *now = node->operand(1);
      contents_[primal->index()] = now;
      graph().replaceAllUses(node->result(), now);
      // From here on the primal is what was written to it.
      for (ir::Node* later = next; later; later = later->next()) {
        for (size_t i = 0; i < later->operandCount(); ++i) {
          if (later->operand(i) == primal) graph().setOperand(later, i, now);
        }
      }
      graph().erase(node);
    }
  }

  // Nor does it give tensors other sizes or strides: steps do.
  void dropGeometry() {
    for (ir::Node *node = end()->prev(), *before; node; node = before) {
      before = node->prev();
      const ops::Operator* op = ops::of(node);
      if (op && op->writes == 1 && op->cost == ops::Cost::View && !node->hasUsedResults()) graph().erase(node);
    }
    for (ir::Node* node = graph().top()->first(); node != end(); node = node->next()) {
      const ops::Operator* op = ops::of(node);
      if (op && op->writes && op->cost == ops::Cost::View && parameterOf(node->operand(0))) {
        throw NotAheadOfTime(Why::ReshapesArgument);
      }
    }
  }

  // Tensors that the function closes over may share memory unknown to the capture.
  void checkSharing() {
    size_t behind = joint_.arguments + joint_.bases.size();
    for (size_t i = 0; i < joint_.primals; ++i) {
      if (!contents_[i] || joint_.sources[i].caller < behind) continue;
      const at::Tensor& written = joint_.closed[joint_.sources[i].caller - behind];
      for (const at::Tensor& other : joint_.closed) {
        if (!other.is_same(written) && shareMemory(other, written)) {
          throw NotAheadOfTime(Why::WritesClosedTwice);
        }
      }
    }
  }

  void returnContents() {
    std::vector<ir::Arg> returned(end()->args().begin(), end()->args().end());
    size_t known = joint_.results.size();
    std::vector<ir::Arg> all(returned.begin(), returned.begin() + static_cast<std::ptrdiff_t>(known));
    for (ir::Arg& arg : all) arg = ir::Arg::value(withoutExpand(arg.toValue()));
    for (size_t i = 0; i < joint_.primals; ++i) {
      if (!contents_[i]) continue;
      const Joint::Primal& source = joint_.sources[i];
      if (backwardVersions_[i] != 0) {
        joint_.backwardWrites.push_back({source.caller, backwardVersions_[i]});
        returned.push_back(ir::Arg::value(contents_[i]));
        continue;
      }
      bool done = std::any_of(joint_.writes.begin(), joint_.writes.end(),
                              [&](const Write& w) { return w.visible && w.caller == source.caller; });
      if (done) continue;
      joint_.writes.push_back({source.caller, joint_.results.size(), false, source.flat});
      joint_.results.push_back({});
      all.push_back(ir::Arg::value(contents_[i]));
    }
    for (size_t i = 0; i < all.size(); ++i) {
      const ir::Value* value = all[i].toValue();
      joint_.results[i].isInput = parameterOf(value) && !isUnsafe(value);
    }
    all.insert(all.end(), returned.begin() + static_cast<std::ptrdiff_t>(known), returned.end());
    graph().setArgs(end(), all);
    joint_.program->results = all.size();
  }

  // A write's contents were recorded behind a view, which is often of the whole.
  ir::Value* withoutExpand(ir::Value* value) {
    static const ops::Operator* expand = ops::find("aten::expand");
    const ir::Node* node = value->def();
    return node && node->op() == expand && node->operand(0)->type() == value->type() ? node->operand(0) : value;
  }

  static constexpr size_t kNone = ~size_t{0};

  Joint& joint_;
  std::vector<uint32_t> backwardVersions_;  // by primal: how often the backward writes it
  std::vector<ir::Value*> contents_;        // by primal: what was written to it
};

}  // namespace

void makeFunctional(Joint& joint, std::span<const ir::Value* const> tangents) { Functional(joint).run(tangents); }

}  // namespace saker::aot
