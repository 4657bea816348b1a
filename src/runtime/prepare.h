// From a graph to the instructions that run it.
#pragma once

#include <memory>
#include <unordered_map>

#include "runtime/executable.h"
#include "runtime/plan_memory.h"

namespace saker::runtime {

class Preparation {
 public:
  explicit Preparation(Executable& executable) : made_(executable) {}
  void prepare();

 private:
  void noteViewed(const ir::Value* value);
  bool changesLayouts(const ir::Region& region);
  void findViews(const ir::Region& region);
  bool isDirect(const ir::Node& node) const;
  bool isMade(const ir::Value* view) const;
  void noteUse(const ir::Value* value, const ir::Node& node);
  void noteUses(const ir::Region& region);
  void translate(const ir::Region& region, std::vector<Instruction>& into);
  Instruction translate(const ir::Node& node);
  void translateArgument(Instruction& made, uint32_t index, const c10::Type& type);
  void noteNumbers(const ir::Arg& arg);
  void translateViews(Instruction& made);
  void translateControl(Instruction& made);
  void translateFused(Instruction& made);
  std::shared_ptr<const FusedCode> codeOf(const ir::Node& group);
  void translateResults(Instruction& made);
  uint32_t cellOf(const ir::Value* value);
  void keepSlots(const MemoryPlan& plan);
  void keepCalls();
  void addBodies(Instruction& made);
  void findStale();
  // Does nothing read the value behind the node, which stands in the value's region?
  bool isLast(const ir::Value* value, const ir::Node& node) const { return lastUse_[value->id()] == node.id(); }

  Executable& made_;
  aten::Handles handles_;
  std::unordered_map<const ir::Node*, std::shared_ptr<const FusedCode>> codes_;  // by group
  std::vector<const ir::Value*> sourceOf_;  // by value that is a view and made directly: what it is a view of
  std::vector<bool> kept_;                  // by value: its slot is the same in each run
  std::vector<uint32_t> lastUse_;           // by value: the last node of its own region that it is read by, or in
};

}  // namespace saker::runtime
