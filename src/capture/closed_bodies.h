// Bodies of an operator that stand for themselves: what they use comes in by their parameters, and they write to none
// of it. PyTorch's dispatcher carries them as an object, so that autograd, functorch and recordings see one call of
// `saker::bodies`; in a graph they are the regions of one node.
//
//   kind    operands                   parameters of bodies       results
//   Call    given...                   given...                   what the body returns
//   If      condition, given...        given...                   what either body returns
//   While   carried..., closed...      the same                   carried..., and its history where that is kept
//   WhileBackward  carried..., closed..., flowing..., history
//                                      the same; the last body: kept..., flowing..., carried..., closed...
//                                                                 flowing...
//   Scan    carried..., xs..., closed...  carried..., slices..., closed...  carried..., rows put together
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "capture/call.h"
#include "ir/graph.h"
#include "runtime/executable.h"

namespace saker::tracing {

class ClosedBodies final : public torch::CustomClassHolder {
 public:
  enum class Kind : uint8_t { If, While, WhileBackward, Scan, Call };

  // Which operands are what, and what of a loop is chosen.
  struct Shape {
    size_t carried = 0, sliced = 0, flowing = 0;
    size_t kept = 0;       // parameters of a way back that steps kept
    bool reverse = false;  // a scan goes from the last slice to the first
    bool history = false;  // a while loop keeps what it carried; its derivative is given that
    friend bool operator==(const Shape&, const Shape&) = default;
  };

  // `graphs`: one for each body, of one context. `objects` are what opaque arguments refer to.
  ClosedBodies(Kind kind, std::vector<std::unique_ptr<ir::Graph>> graphs, std::vector<c10::IValue> objects,
               Shape shape);
  ClosedBodies(Kind kind, std::vector<std::unique_ptr<ir::Graph>> graphs, std::vector<c10::IValue> objects)
      : ClosedBodies(kind, std::move(graphs), std::move(objects), Shape()) {}
  // Those of a node of a graph. `operands` gets the values that the call is made with: what the node is given, and
  // then what its bodies use from outside.
  static c10::intrusive_ptr<ClosedBodies> ofNode(const ir::Node& node, const std::vector<c10::IValue>& objects,
                                                 std::vector<ir::Value*>& operands);

  // Of a node that programs have made; none: it has other bodies, or none.
  static std::optional<Kind> kindOf(const ir::Node& node);
  // The operator of a node with such bodies.
  static const ir::OpDef* operatorOf(Kind kind);

  Kind kind() const { return kind_; }
  const Shape& shape() const { return shape_; }
  size_t carried() const { return shape_.carried; }
  size_t sliced() const { return shape_.sliced; }
  const std::shared_ptr<ir::Context>& context() const { return graphs_[0]->sharedContext(); }
  const std::vector<std::unique_ptr<ir::Graph>>& graphs() const { return graphs_; }
  const std::vector<c10::IValue>& objects() const { return objects_; }
  // The body that gives the results.
  const ir::Graph& main() const { return *graphs_[kind_ == Kind::While ? 1 : kind_ == Kind::WhileBackward ? 2 : 0]; }
  size_t resultCount() const;
  // The same graphs with another shape.
  c10::intrusive_ptr<ClosedBodies> reshaped(Shape shape) const;
  // Does a body draw random numbers?
  bool isRandom() const;

  std::vector<const ir::Type*> resultTypes(std::span<ir::Value* const> operands) const;
  // Appends the node. The graph is of the same context.
  ir::Node* append(ir::Graph& graph, ir::Region* region, std::span<ir::Value* const> operands,
                   ir::Origin origin = {}) const;

  // Runs them on tensors that have data. `conduct`: how operators are called, one by one.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& operands, runtime::Conduct* conduct = nullptr) const;

  // Of bodies that compute gradients: results that are zero because nothing leads to them; of a loop, by value that it
  // carries, whether it leads to what is differentiated.
  const std::vector<bool>& absent() const { return absent_; }
  const std::vector<bool>& leads() const { return leads_; }
  void setAbsent(std::vector<bool> absent, std::vector<bool> leads) {
    absent_ = std::move(absent);
    leads_ = std::move(leads);
  }

  // What whoever derived them from others knows of them besides.
  const std::shared_ptr<const void>& notes() const { return notes_; }
  void setNotes(std::shared_ptr<const void> notes) { notes_ = std::move(notes); }

  // What is derived from them, made once for each key.
  c10::intrusive_ptr<ClosedBodies> derived(const std::vector<int64_t>& key,
                                           const std::function<c10::intrusive_ptr<ClosedBodies>()>& make) const;

 private:
  std::vector<ir::Arg> arguments(std::span<const ir::Arg> operands) const;
  const ir::TensorType* parameterType(size_t operand, size_t operands) const;
  const runtime::Executable& executable(const std::vector<at::Tensor>& operands, bool conducted) const;

  Kind kind_;
  std::vector<std::unique_ptr<ir::Graph>> graphs_;
  std::vector<c10::IValue> objects_;
  Shape shape_;
  std::vector<bool> absent_, leads_;
  std::shared_ptr<const void> notes_;
  // What runs them, by the sizes of operands that bodies do not tell (how often a scan is repeated) and who calls
  // operators.
  struct Runnable {
    std::unique_ptr<ir::Graph> graph;
    std::unique_ptr<runtime::Executable> executable;
  };
  mutable std::mutex lock_;
  mutable std::map<std::pair<int64_t, bool>, Runnable> runnable_;
  mutable std::map<std::vector<int64_t>, c10::intrusive_ptr<ClosedBodies>> derived_;
};

// The same bodies as one object: those that were made before, if they still live. Which are derived from others, and
// say more than their graphs, are not asked for.
c10::intrusive_ptr<ClosedBodies> keptOnce(c10::intrusive_ptr<ClosedBodies> made);

// Gives a tensor of these sizes a layout without gaps that begins where its memory does.
void makeRowMajor(ir::TensorSpec& spec);

// The bodies of a call of `saker::bodies`; nullptr: it is another operator.
c10::intrusive_ptr<ClosedBodies> bodiesOf(const Call& call);
// Calls `saker::bodies`.
std::vector<at::Tensor> callBodies(const std::vector<at::Tensor>& operands,
                                   const c10::intrusive_ptr<ClosedBodies>& bodies);

}  // namespace saker::tracing
