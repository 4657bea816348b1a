// The memory of a recorded program while it is made functional. Memory is followed by roots: an input, or a fresh
// result. A root has current contents, a value of the graph that each write replaces; every other tensor is a view of
// another one, and is made anew from the contents of its root when it is used after a write. A write to a view is
// carried back to the root through the inverse of each view on the way. Types are exact, strides included, and stay so:
// contents always have the type of their root, and the bytes between its elements.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "ops/builder.h"

namespace saker::passes {

// Thrown inside the pass only; it becomes the pass's error.
struct NotFunctional {
  std::string reason;
};

class ProgramMemory {
 public:
  explicit ProgramMemory(ir::Graph& graph) : graph_(graph) {}

  struct Root {
    ir::Value* original;
    ir::Value* contents;
    uint64_t age = 0;           // counts the times that views became stale
    ir::Origin lastWrite = {};  // of the node that did it
    uint32_t mark = 0;          // of whoever looks for a root among others
    bool written = false;
    bool live = true;     // all views of this age are views of `contents` itself
    bool read = false;    // `contents` has been used as a value
    bool frozen = false;  // more may see this memory than is known
    bool lost = false;    // and it may be an input that is written, whose memory this no longer is
  };

  // Tensors of the recorded program.
  Root& makeRoot(ir::Value* value);
  // Result `index` of a node is a view of its argument 0, which was recorded as `base`.
  void makeView(ir::Node* node, size_t index, ir::Value* base);
  bool follows(const ir::Value* value) { return tensorOf(value).root != 0; }
  Root& rootOf(const ir::Value* value) { return roots_[tensorOf(value).root - 1]; }
  bool isView(const ir::Value* value) { return tensorOf(value).parent; }
  // The input that the value is, be it under the sizes and strides it was given since; nullptr if it is none.
  ir::Value* inputOf(const ir::Value* value) { return tensorOf(value).input; }
  void setInput(const ir::Value* value, ir::Value* input) { tensorOf(value).input = input; }
  // The tensor from which an as_strided of `value` counts: the furthest base of the same dtype and bits.
  ir::Value* storageOf(ir::Value* value);

  // The value that a recorded tensor is at this place; views are made anew where they must be.
  ir::Value* contents(ir::Value* value, ir::Node* position);
  void markRead(const ir::Value* value) {
    if (follows(value)) rootOf(value).read = true;
  }

  // New contents by value, in two steps: what they make of each tensor up to the root, and from when on it counts.
  struct Write {
    std::vector<std::pair<ir::Value*, ir::Value*>> seen;  // recorded tensors, the root last, and their contents
    ir::Origin origin;
  };
  // Not where elements share addresses, or lie where no view on the way leads.
  bool canWrite(const ir::Value* target);
  // Nothing where inference refuses an inverse.
  std::optional<Write> prepare(ir::Value* target, ir::Value* updated, ir::Node* position);
  void commit(const Write& write);
  // Contents that may be changed in place: nothing else sees them. The node that does it comes next.
  void makePrivate(ir::Value* target, ir::Node* position);

  // In a body of a branch or a loop. What happens there to memory around it is forgotten when it ends, but for what was
  // frozen.
  void enter();
  void leave();
  bool inBody() const { return !scopes_.empty(); }
  // The memory was made in the innermost body.
  bool isFromBody(const ir::Value* value) { return tensorOf(value).root > scopes_.back().roots; }
  // In a body of a loop: the contents of this root at the start of each trip.
  void begin(const ir::Value* tensor, ir::Value* contents);
  // Behind a node: its bodies have written this root.
  void wrote(const ir::Value* tensor, ir::Value* contents, const ir::Origin& origin);
  // A parameter of the program, not of a body.
  static bool isInput(const ir::Value* value) { return value->isParameter() && !value->region()->owner(); }

  // The inputs get what was written; from here on they are their contents, and views are views of them.
  void writeBack(ir::Node* position);
  // A tensor that is returned shares memory with others that are: it is a view of its root's last contents.
  ir::Value* returned(ir::Value* value, ir::Node* position);

 private:
  struct Tensor {
    uint32_t root = 0;            // 0: not a tensor that is followed
    uint32_t index = 0;           // of a view: among the node's results
    ir::Value* parent = nullptr;  // of a view: what it is a view of
    ir::Node* view = nullptr;
    ir::Value* current = nullptr;  // its contents, while they are of this age
    ir::Value* input = nullptr;
    uint64_t age = 0;
    bool beyond = false;       // of an as_strided: elements may lie between those of the parent
    bool notedBeyond = false;  // stands in beyond_
  };

  Tensor& tensorOf(const ir::Value* value) {
    if (tensors_.size() <= value->id()) tensors_.resize(graph_.valueLimit());
    return tensors_[value->id()];
  }
  // For a change that is undone when a body ends.
  Tensor& change(const ir::Value* value);
  Root& change(Root& root);
  void noteWrite(Root& root, const ir::Origin& origin);
  void noteBeyond(ir::Value* target);

  ir::Graph& graph_;
  std::vector<Tensor> tensors_;  // by number of the value
  std::vector<Root> roots_;
  std::vector<uint32_t> writtenInputs_;  // roots, in the order of their first writes
  std::vector<ir::Value*> beyond_;       // views that were written, of inputs, see Tensor::beyond
  std::vector<ir::Value*> chain_;
  struct Scope {
    size_t tensors, changed;  // of the lists below
    size_t roots, writtenInputs;
  };
  std::vector<Scope> scopes_;
  std::vector<std::pair<uint32_t, Tensor>> changedTensors_;  // as they were
  std::vector<std::pair<size_t, Root>> changedRoots_;
};

// Same dtype, sizes, strides, offset and bits.
bool sameMemory(const ir::TensorType& a, const ir::TensorType& b);

}  // namespace saker::passes
