// Bodies of nodes (branches, loops and other operators with regions), recorded one level deeper than the program around
// them. A body runs on stand-ins and computes nothing, be the recording around it a tape or a trace. What it uses of
// the recordings around it becomes a use of their values; what it meets for the first time, an input of the program.
//
//   OpenNode node(outer, ops::find("saker::if"), 2);
//   for (size_t i = 0; i < 2; ++i) {
//     Body body(outer, node.region(i));
//     body.finish({function(body.addParameter(type))});
//   }
//   ir::Node* done = node.append(args, results);
//
// A body that is left before finish(), by an exception or because something in it was refused, leaves nothing behind:
// nodes, inputs, symbols, guards, kept objects, and version counters and histories of tensors around it are as before.
// So does a node that is left before append().
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "capture/tape.h"
#include "capture/trace.h"

namespace saker::tracing {

// Takes back what is recorded while it lives, unless it is kept. They nest.
class Attempt {
 public:
  explicit Attempt(Recording& recording);
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  void keep();

 private:
  Recording& recording_;
  ir::Graph::Checkpoint nodes_;
  sym::Context::Checkpoint symbols_;
  size_t kept_;
  std::vector<Recording::Restore> levels_;  // from the inside out
  bool open_ = true;
};

// A node that is being given its bodies. It is in no region until it is appended, so whatever a body makes the
// recording around it append (a view that no operator made) comes before it. Nothing but bodies is to be recorded
// meanwhile.
class OpenNode {
 public:
  OpenNode(Recording& outer, const ir::OpDef* op, size_t bodies);

  ir::Region* region(size_t i) const { return node_->regions()[i]; }
  // Appends it where the recording stands. Results get no tensors by that: Tape::gave(), Trace::makeTensor().
  ir::Node* append(std::span<const ir::Arg> args, std::span<const ir::Type* const> results);
  // In place of that: its bodies as graphs of their own, whose parameters are theirs and then `outer`, the values that
  // they use from around. What they asked of sizes and met of tensors stays; the node does not.
  std::vector<std::unique_ptr<ir::Graph>> close(std::vector<ir::Value*>& outer);

 private:
  Recording& outer_;
  Attempt attempt_;
  ir::Node* node_;
};

// From its construction on, operators that this thread calls are recorded in the body, until it is finished or
// destroyed.
class Body {
 public:
  Body(Recording& outer, ir::Region* region);
  ~Body();
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  // The recording of the body: what bodies in it are opened on.
  Trace& trace() { return *trace_; }
  // One more parameter, and what stands for it. `name` is that of the program's function for it, or empty.
  at::Tensor addParameter(const ir::TensorType* type, std::string_view name = {});
  // One more parameter that is an int, such as the counter of a loop.
  ir::Value* addNumber();
  // Ends the body: it returns these tensors, numbers or constants. Throws what was refused inside, even where the
  // program has caught it. Tensors made in the body raise an error from here on when they are used. `look` is called
  // with its recording before that ends.
  void finish(std::span<const c10::IValue> results, const std::function<void(Trace& trace)>& look = nullptr);

 private:
  void leave(const char* why);

  Attempt attempt_;
  ir::Region* region_;
  std::shared_ptr<Trace> trace_;
  std::unique_lock<std::recursive_mutex> held_;
  std::optional<TapeScope> untaped_;
  std::optional<TraceScope> scope_;
};

}  // namespace saker::tracing
