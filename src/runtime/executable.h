// A graph made ready to be run many times by calling ATen: operators are looked up, constant arguments converted, last
// uses found and expressions of sizes compiled once. What runs recordings, ahead-of-time graphs, flushes and graphs
// that were written by hand.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "aten/call_node.h"
#include "ir/graph.h"
#include "runtime/instruction.h"
#include "runtime/native_code.h"
#include "runtime/sizes.h"
#include "runtime/workspace.h"

namespace saker::runtime {

struct History;

// How the operators of a run are called, for those who do more than call them.
class Conduct {
 public:
  virtual ~Conduct() = default;
  virtual void call(const Instruction& at, torch::jit::Stack& stack) { at.handle->callBoxed(&stack); }
  // May kernels run in the place of groups of operators?
  virtual bool mayLaunch() const { return false; }
  // With each fresh result, in the layout that the graph tells; what it returns is used from there on. `moved`: the
  // operator gave another layout.
  virtual at::Tensor fresh(const ir::Value&, at::Tensor real, const Geometry&, bool /*moved*/) { return real; }
};

class Executable {
 public:
  // How views are made: by calling their operators, for runs that autograd or a Conduct is to see or with other strides
  // than told; or directly, as the graph tells their layouts.
  enum class Views : uint8_t { Called, Direct };
  // Both live as long as this does. Throws std::runtime_error where something in it cannot be run. `ending`: see
  // planMemory.
  Executable(const ir::Graph& graph, const std::vector<c10::IValue>& objects, Views views = Views::Called,
             NativeCode native = {}, std::vector<bool> ending = {});
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  const ir::Graph& graph() const { return graph_; }
  const SizePlan& sizes() const { return sizes_; }

  // One tensor for each parameter, `numbers` in their order where a parameter is a number; undefined tensors for what
  // is no tensor in the result. Inputs are let go at their last use.
  // `freely`: inputs may have other strides than the graph says, and so may what is computed.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, std::span<const int64_t> numbers = {},
                              bool freely = false) const;
  // May views be made as told? Inputs that they are views of must have the strides that the graph tells.
  bool mayMakeViews(std::span<const at::Tensor> inputs, std::span<const int64_t> numbers = {}) const;
  // Were operators recorded that must be called in another mode than the one around the run (ir/attributes.h)?
  bool hasModes() const { return modes_; }

 private:
  void setNumbers(Sizes& sizes, std::span<const int64_t> numbers) const;
  friend class Run;
  friend class Preparation;

  const ir::Graph& graph_;
  const std::vector<c10::IValue>& objects_;
  std::vector<Instruction> instructions_;
  uint32_t end_ = 0;  // of those of the graph itself, which come first; then those of bodies
  std::vector<ir::Arg> returned_;
  SizePlan sizes_;
  std::vector<uint32_t> cellOf_;  // by value that is a number, or none
  bool numbers_ = false;          // are there sizes that change, or numbers as values?
  bool modes_ = false;
  std::vector<uint32_t> viewed_;  // parameters that operators give views of
  Views views_;
  NativeCode native_;
  std::vector<bool> ending_;
  WorkspacePlan workspace_;
  // Slots that are the same in each run: where in the workspace planned values lie, and views of these.
  std::vector<std::pair<uint32_t, uint32_t>> keptSlots_;
  std::vector<DirectView> keptViews_;
  std::vector<uint32_t> otherSlots_;
  mutable IdleWorkspaces idle_;
};

// Does the graph compute the same values whatever the strides of its inputs? It may still refuse some of them.
bool mayRunFreely(const ir::Graph& graph);

// One run.
class Run final : private aten::CallEnvironment {
 public:
  explicit Run(const Executable& executable, Conduct* conduct = nullptr, bool freely = false);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void set(size_t parameter, at::Tensor tensor);
  void set(const ir::Value* value, at::Tensor tensor) { slots_[value->id()] = std::move(tensor); }
  Sizes& sizes() { return sizes_; }

  // Runs everything but the terminator; no node whose number is `before` or larger.
  void run(uint32_t before = kNone);
  // The node that is being run; after an error, the one that failed.
  const ir::Node* running() const { return running_; }
  // Argument `i` of the terminator, after a run.
  c10::IValue returned(size_t i) { return valueOf(executable_.returned_[i]); }
  size_t returnedCount() const { return executable_.returned_.size(); }

 private:
  const at::Tensor& tensor(const ir::Value* value) override { return slots_[value->id()]; }
  c10::IValue number(const ir::Value* value) override;
  c10::IValue opaque(const ir::OpaqueRef& reference) override;
  c10::IValue expression(const sym::Node* node) override;

  void runRange(uint32_t begin, uint32_t end);
  void call(const Instruction& at);
  void pushArguments(const Instruction& at);
  void takeResults(const Instruction& at);
  void callInto(const Instruction& at);
  bool callKept(const Instruction& at);
  std::unique_ptr<aten::KeptCall> prepareKept(const Instruction& at);
  void fillKeptSlots();
  void makeView(const DirectView& view);
  void bindSizes(const Result& result, const at::Tensor& real);
  void take(const Result& result, at::Tensor real);
  void makeViews(const Instruction& at);
  void fused(const Instruction& at);
  bool launch(const Instruction& at);
  bool launchTogether(uint32_t first);
  struct Group;
  bool mayLaunch(const Instruction& at);
  void prepare(const Instruction& at, Group& group);
  void finish(const Instruction& at, Group& group);
  void branch(const Instruction& at);
  void loop(const Instruction& at);
  void whileLoop(const Instruction& at);
  void whileBackward(const Instruction& at);
  std::vector<c10::IValue> repeat(const Instruction& at, const std::vector<c10::IValue>& initial,
                                  const std::vector<c10::IValue>& closed, History* history);
  void scan(const Instruction& at);
  at::Tensor withoutRows(const Result& result);
  std::vector<c10::IValue> valuesOf(const ir::Arg& list);
  void enter(const Body& body, size_t first, std::vector<c10::IValue>& given);
  std::vector<c10::IValue> leave(const Body& body);
  void setResults(const Instruction& at, std::vector<c10::IValue>& values);
  void setValue(const ir::Value* value, c10::IValue given);
  c10::IValue valueOf(const ir::Arg& arg);
  bool truthOf(const ir::Arg& arg);

  const Executable& executable_;
  Conduct* conduct_;
  bool freely_;
  bool keeps_ = false;  // may kernels be entered directly?
  uint32_t before_ = kNone;
  const ir::Node* running_ = nullptr;
  torch::jit::Stack stack_;
  std::vector<at::Tensor> slots_;
  std::unique_ptr<Workspace> workspace_;
  Sizes sizes_;
};

}  // namespace saker::runtime
