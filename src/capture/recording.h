// What a tape and a trace have in common: a graph, a place in it where nodes are appended, and all that makes a node of
// a call. A recording is one level of a program: the program itself, or a body of one of its nodes (capture/body.h). A
// body asks the recording around it for tensors that it did not make.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "aten/infer.h"
#include "capture/call.h"
#include "capture/host.h"
#include "ir/graph.h"
#include "support/arena.h"

namespace saker::tracing {

class ClosedBodies;

class Recording {
 public:
  virtual ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  const Host& host() const { return shared_->host; }
  const std::shared_ptr<ir::Context>& context() const { return shared_->context; }
  ir::Graph& graph() const { return *shared_->graph; }
  aten::Inference& inference() { return shared_->inference; }
  Arena& scratch() { return scratch_; }
  // Objects that arguments refer to by number (generators), of all levels.
  const std::vector<c10::IValue>& kept() const { return shared_->kept; }
  // Before anything is recorded: what opaque arguments of other graphs refer to keeps its numbers.
  void keepFrom(std::vector<c10::IValue> objects) { shared_->kept = std::move(objects); }
  // The recording whose body this is; nullptr: the program itself.
  Recording* outer() const { return outer_; }
  // Calls of regions that the program marked: see capture/regions.h.
  uint16_t countRegion() { return shared_->regions == ir::Attributes::kMaxRegion ? 0 : ++shared_->regions; }
  // The insertion point: nodes are appended to this region.
  ir::Region* body() const { return body_ ? body_ : shared_->graph->top(); }

  // What a tensor is in the graph; one that is met for the first time becomes an input of the program.
  virtual ir::Value* valueOf(const at::Tensor& tensor) = 0;
  // The same for a body of this recording, which is about to use the tensor.
  virtual ir::Value* lend(const at::Tensor& tensor) { return valueOf(tensor); }
  // A tensor that is written in the program (torch.tensor(3.0)): an input whose data is a constant.
  virtual ir::Value* addLiteral(const at::Tensor& constant) = 0;
  // The data of a literal; undefined: the value is none.
  at::Tensor literalData(const ir::Value* value) const;
  // Has the tensor been made by a recorded operator, or met as an input?
  virtual bool made(const at::Tensor& tensor) const = 0;
  // The modes of an operator that is called now, as the attributes of its node.
  virtual ir::Attributes modesOf(const Entry* entry) const;

  // The type of a tensor as the graph has it: requires_grad is left out, since autograd lies above the graph.
  const ir::TensorType* typeOf(const at::Tensor& tensor);
  // A placeholder for a symbolic number beside a tensor, as PyTorch's Python calls make them, and what it stands for;
  // None for an ordinary number.
  at::Tensor placeholder(const c10::IValue& number);
  c10::IValue symbolicNumber(const at::Tensor& tensor) const;
  // What a program or a body returns: a tensor, a number or a constant.
  ir::Arg resultArg(const c10::IValue& result);

  // A call as the graph has it. Throws ops::RefusalException. The arguments live until the next call here.
  struct Converted {
    const ir::OpDef* def = nullptr;
    std::span<const ir::Arg> args;
    const ClosedBodies* bodies = nullptr;  // of an operator with bodies, whose operands `args` are
  };
  Converted convert(const Call& call, const Entry* entry);

  ir::Node* append(const Converted& converted, std::span<const ir::Type* const> results, ir::Origin origin);
  ir::Node* append(const ir::OpDef* def, std::span<const ir::Arg> args, std::span<const ir::Type* const> results,
                   ir::Origin origin = {}) {
    return graph().append(body(), def, args, results, origin);
  }
  // A node whose bodies are recorded first; appendNode() gives it its arguments and results, and a place.
  ir::Node* createNode(const ir::OpDef* def, size_t bodies);
  void appendNode(ir::Node* node, std::span<const ir::Arg> args, std::span<const ir::Type* const> results);
  // Appends what another tensor over the memory of `value` is, which no operator of the program made: one of the same
  // geometry, without gradients, which may count writes by itself (`.data`); one of any geometry.
  ir::Value* appendDetach(ir::Value* value, const ir::Type* type, bool ownVersion, const ir::Location* location);
  ir::Value* appendView(ir::Value* value, const ir::TensorType* type);

 protected:
  Recording(Host host, std::shared_ptr<ir::Context> context);
  Recording(Recording& outer, ir::Region* body);

  // Brings what this level has noted back to how it is now, where values with numbers from `first` on are about to go.
  using Restore = std::function<void(uint32_t first)>;
  virtual Restore checkpoint() = 0;
  // Is something being recorded that may be taken back?
  bool isAttempting() const { return shared_->attempts != 0; }
  // A node with bodies was appended.
  virtual void countNode() = 0;
  // Where the program stands, as far as the host knows.
  const ir::Location* here() const { return host().location ? host().location(*context()) : nullptr; }
  // What was recorded, for good; an empty graph takes its place.
  std::unique_ptr<ir::Graph> takeGraph();
  // The value that a number beside a tensor was read from, where the program got it from there.
  virtual ir::Value* sourceOf(const at::Tensor& number) { return outer_ ? outer_->sourceOf(number) : nullptr; }

  // What all levels of a program share.
  struct Shared {
    Host host;
    std::shared_ptr<ir::Context> context;
    std::unique_ptr<ir::Graph> graph;
    aten::Inference inference;
    std::vector<c10::IValue> kept;
    std::vector<std::pair<at::Tensor, c10::IValue>> placeholders;
    std::vector<std::pair<const ir::Value*, at::Tensor>> literals;
    size_t attempts = 0;   // that are open
    uint16_t regions = 0;  // whose nodes carry a number
  };
  std::shared_ptr<Shared> shared_;

 private:
  friend class Attempt;
  class Converter;
  Recording* outer_ = nullptr;
  ir::Region* body_ = nullptr;  // nullptr: the top of the graph
  Arena scratch_;
};

}  // namespace saker::tracing
