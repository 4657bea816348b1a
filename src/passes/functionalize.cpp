// Makes a recorded program functional: operators that write become operators that return the new contents, and what was
// written to an input is copied into it at the end.
//
// Memory is followed by roots: an input, or a fresh result. A root has current contents, a value of the graph that each
// write replaces; every other tensor is a view of another one, and is regenerated from the contents of its root when it
// is used after a write. A write to a view is carried back to the root through the inverse of each view on the way.
// Types are exact (strides included), and stay so: contents always have the type of their root.
//
// Inputs are taken to share no memory: whoever knows that two do passes one of them as a view of the other.
#include <optional>
#include <unordered_map>
#include <vector>

#include "ops/builder.h"
#include "ops/functional_form.h"
#include "ops/infer.h"
#include "ops/view_inverse.h"
#include "passes/pass.h"
#include "support/check.h"

namespace saker::passes {
namespace {

using ir::Arg;
using ir::Node;
using ir::Value;

class Functionalizer {
 public:
  explicit Functionalizer(ir::Graph& graph) : graph_(graph) {}

  void run() {
    ir::Region* top = graph_.top();
    for (Value* input : top->parameters()) {
      if (input->tensor()) makeRoot(input);
    }
    for (Node* node = top->first(); node;) {
      Node* next = node->next();
      node->isReturn() ? finish(node) : visit(node);
      node = next;
    }
  }

 private:
  // What a value of the recorded program is now.
  struct Tensor {
    uint32_t root = 0;         // 0: not a tensor we follow
    Value* parent = nullptr;   // of a view: what it was made from
    Node* view = nullptr;      // the recorded node
    Value* current = nullptr;  // its contents, while they are of this age
    uint64_t age = 0;
  };
  struct Root {
    Value* original;
    Value* contents;
    uint64_t age = 0;
    bool written = false;
    bool finished = false;
  };

  Tensor& tensorOf(const Value* value) {
    if (tensors_.size() <= value->id()) tensors_.resize(graph_.valueLimit());
    return tensors_[value->id()];
  }
  Root& rootOf(const Value* value) { return roots_[tensorOf(value).root - 1]; }
  bool follows(const Value* value) { return tensorOf(value).root != 0; }

  void makeRoot(Value* value) {
    roots_.push_back({value, value});
    Tensor& tensor = tensorOf(value);
    tensor.root = static_cast<uint32_t>(roots_.size());
    tensor.current = value;
  }

  // The contents of a recorded value at this point, made anew where its root has been written since.
  Value* contents(Value* value, Node* position) {
    if (!follows(value)) return value;
    Tensor tensor = tensorOf(value);
    const Root& root = rootOf(value);
    if (tensor.current && tensor.age == root.age) return tensor.current;
    if (!tensor.parent) return root.contents;
    regenerate(tensor.view, contents(tensor.parent, position), position);
    return tensorOf(value).current;
  }

  // The recorded view once more, of other contents. All its results are new.
  void regenerate(Node* view, Value* base, Node* position) {
    std::vector<Arg> args(view->args().begin(), view->args().end());
    args[0] = Arg::value(base);
    ops::Builder build(graph_, position->region(), position, view->location());
    Node* again = build.call(*ops::of(view), args);
    for (size_t i = 0; i < view->resultCount(); ++i) {
      uint64_t age = rootOf(view->result(i)).age;
      Tensor& tensor = tensorOf(view->result(i));
      tensor.current = again->result(i);
      tensor.age = age;
    }
  }

  void visit(Node* node) {
    const ops::Operator* op = ops::of(node);
    recorded_.clear();
    for (size_t i = 0; i < node->operandCount(); ++i) {
      Value* operand = node->operand(i);
      recorded_.push_back(operand);
      Value* now = contents(operand, node);
      if (now != operand) graph_.setOperand(node, i, now);
    }
    if (!op) return noteFresh(node);
    if (op->writes) return replaceWrite(node, *op);
    if (op->variant == ops::Variant::View) return noteView(node, *op);
    noteFresh(node);
  }

  void noteFresh(Node* node) {
    for (size_t i = 0; i < node->resultCount(); ++i) {
      if (node->result(i)->tensor()) makeRoot(node->result(i));
    }
  }

  void noteView(Node* node, const ops::Operator& op) {
    std::span<Value* const> parent = recordedIn(*node, static_cast<size_t>(op.resultAlias[0]));
    SAKER_CHECK(parent.size() == 1, "a view is a view of one tensor");
    Tensor view{tensorOf(parent[0]).root, parent[0], node, nullptr, rootOf(parent[0]).age};
    for (size_t i = 0; i < node->resultCount(); ++i) {
      view.current = node->result(i);
      tensorOf(node->result(i)) = view;
    }
  }

  static size_t countValues(const Arg& arg) {
    if (!arg.isList()) return arg.isValue();
    size_t count = 0;
    for (const Arg& item : arg.toList()) count += countValues(item);
    return count;
  }

  // The recorded values in an argument of the node being visited, whose contents stand in their place by now.
  std::span<Value* const> recordedIn(const Node& node, size_t argument) const {
    size_t first = 0;
    for (size_t i = 0; i < argument; ++i) first += countValues(node.arg(i));
    return std::span<Value* const>(recorded_).subspan(first, countValues(node.arg(argument)));
  }

  void replaceWrite(Node* node, const ops::Operator& op) {
    // The recorded tensors that are written, in the order of the arguments.
    std::vector<Value*> written;
    for (size_t i = 0; i < node->args().size(); ++i) {
      if (!(op.writes >> i & 1)) continue;
      for (Value* value : recordedIn(*node, i)) written.push_back(value);
    }
    Node* functional = functionalCall(node, op);
    if (!functional) return writeToCopies(node, op, written);
    size_t fresh = freshResults(node, op, functional);
    SAKER_CHECK(functional->resultCount() == fresh + written.size(), op.qualified.c_str());
    for (size_t i = 0; i < written.size(); ++i) write(written[i], functional->result(fresh + i), node);
    aliasResults(node, op);
    graph_.erase(node);
  }

  Node* functionalCall(Node* node, const ops::Operator& op) {
    auto [entry, isNew] = forms_.try_emplace(&op);
    if (isNew) entry->second = ops::functionalForm(op);
    const ops::FunctionalForm& form = entry->second;
    if (!form.op) return nullptr;
    std::vector<Arg> args;
    for (size_t i = 0; i < form.arguments.size(); ++i) {
      const ir::SchemaArgument& argument = form.op->parsed.arguments[i];
      args.push_back(form.arguments[i] >= 0 ? node->arg(static_cast<size_t>(form.arguments[i]))
                                            : argument.defaultValue.value_or(Arg()));
    }
    return ops::Builder(graph_, node->region(), node, node->location()).tryCall(*form.op, args);
  }

  // The results of the recorded node that are no aliases are the functional node's first ones.
  size_t freshResults(Node* node, const ops::Operator& op, Node* functional) {
    size_t fresh = 0, at = 0;
    for (size_t r = 0; r < op.parsed.returns.size() && at < node->resultCount(); ++r, ++at) {
      if (op.resultAlias[r] >= 0) continue;
      Value* now = functional->result(fresh++);
      if (now->tensor()) makeRoot(now);
      graph_.replaceAllUses(node->result(at), now);
    }
    return fresh;
  }

  // A result that is one of the written arguments is that argument from here on.
  void aliasResults(Node* node, const ops::Operator& op) {
    size_t at = 0;
    for (size_t r = 0; r < op.parsed.returns.size() && at < node->resultCount(); ++r, ++at) {
      if (op.resultAlias[r] < 0) continue;
      graph_.replaceAllUses(node->result(at), recordedIn(*node, static_cast<size_t>(op.resultAlias[r]))[0]);
    }
  }

  // No functional form: the operator itself, on copies that nobody else sees.
  void writeToCopies(Node* node, const ops::Operator& op, const std::vector<Value*>& written) {
    std::vector<Value*> copies;
    ops::Builder build(graph_, node->region(), node, node->location());
    for (Value* value : written) {
      Value* now = contents(value, node);
      copies.push_back(
          withType(build, *value->tensor(), now, build.call("aten::clone", {Arg::value(now), Arg::none()})));
    }
    size_t operand = 0, next = 0;
    for (size_t i = 0; i < node->args().size(); ++i) {
      for (size_t k = countValues(node->arg(i)); k-- > 0; ++operand) {
        if (op.writes >> i & 1) graph_.setOperand(node, operand, copies[next++]);
      }
    }
    aliasResults(node, op);
    for (size_t i = 0; i < written.size(); ++i) write(written[i], copies[i], node->next());
  }

  // New contents for a recorded tensor, carried back to its root.
  void write(Value* target, Value* updated, Node* position) {
    Tensor tensor = tensorOf(target);
    ops::Builder build(graph_, position->region(), position, position->location());
    Value* now = contents(target, position);
    updated = withType(build, *target->tensor(), now, updated);
    if (!tensor.parent) {
      Root& root = rootOf(target);
      root.contents = updated;
      root.written = true;
      ++root.age;
    } else {
      Value* base = contents(tensor.parent, position);
      size_t index = target->index();
      write(tensor.parent, ops::invertView(build, *tensor.view, index, base, updated), position);
    }
    // What was written is what is read, as long as it has the very strides.
    uint64_t age = rootOf(target).age;
    Tensor& after = tensorOf(target);
    after.current = updated->type() == target->type() ? updated : nullptr;
    after.age = age;
  }

  // `updated` in the dtype, sizes and strides of the tensor that it was written to.
  static Value* withType(ops::Builder& build, const ir::TensorType& type, Value* now, Value* updated) {
    if (updated->type() == &type) return updated;
    Value* copied = build.call("aten::copy", {Arg::value(now), Arg::value(updated), Arg::boolean(false)});
    if (copied->type() == &type || now->type() != &type) return copied;
    std::vector<Arg> sizes, strides;
    for (sym::Int size : type.sizes()) sizes.push_back(Arg::symInt(size));
    for (sym::Int stride : type.strides()) strides.push_back(Arg::symInt(stride));
    return build.call("aten::as_strided_scatter", {Arg::value(now), Arg::value(copied), Arg::list(sizes),
                                                   Arg::list(strides), Arg::symInt(type.offset)});
  }

  // Copies what was written into the inputs, then regenerates the returned tensors: a view of a written input sees the
  // input itself, and tensors that shared memory still do.
  void finish(Node* end) {
    ops::Builder build(graph_, end->region(), end);
    for (Root& root : roots_) {
      if (!root.written || !root.original->isParameter()) continue;
      build.call("aten::copy_", {Arg::value(root.original), Arg::value(root.contents), Arg::boolean(false)});
      root.contents = root.original;
      ++root.age;
    }
    for (size_t i = 0; i < end->operandCount(); ++i) {
      Value* operand = end->operand(i);
      if (!follows(operand)) continue;
      Root& root = rootOf(operand);
      if (root.written && !root.original->isParameter()) {
        // Not what was written to the view, but the view of what it made of the root.
        if (!root.finished) ++root.age;
        root.finished = true;
      }
      Value* now = contents(operand, end);
      if (now != operand) graph_.setOperand(end, i, now);
    }
  }

  ir::Graph& graph_;
  std::vector<Tensor> tensors_;  // by number of the value
  std::vector<Root> roots_;
  std::vector<Value*> recorded_;  // the operands of the node being visited, as recorded
  std::unordered_map<const ops::Operator*, ops::FunctionalForm> forms_;
};

}  // namespace

void functionalize(ir::Graph& graph) { Functionalizer(graph).run(); }

}  // namespace saker::passes
