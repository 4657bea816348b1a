// Writes the code of one kernel: loops over its axes (nest.cpp), its reductions (reduce.cpp), its loads and stores
// (memory.cpp, tiles.cpp) and its other lines (lines.cpp).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/llvm/code.h"
#include "codegen/llvm/functions.h"
#include "kernel/kernel.h"

namespace saker::codegen {

class Emitter {
 public:
  Emitter(llvm::Module& module, const kernel::Kernel& kernel, const TargetInfo& target, const Functions& functions,
          std::string name);
  void run();

 private:
  // A value, and the level at whose beginning, or in whose body, it was computed.
  struct Known {
    Value* value = nullptr;
    int level = 0;
    bool inBody = false;
  };
  // Where an axis stands: the index of its present step, of lane 0 if it is the vector axis.
  struct AxisState {
    Value* index = nullptr;
    int level = 0;
  };
  struct Range {
    Value *begin, *end;
  };
  // Where a load or store goes to: contiguous lanes, lanes apart, or one element for all lanes.
  struct Address {
    Value* pointer;  // of lane 0, or pointers of all lanes
    int level;
    bool varies;  // with the lane
    bool contiguous;
    Value* first = nullptr;   // of lanes that lie equally far apart: the pointer of lane 0,
    Value* stride = nullptr;  // and from each to the next, in elements
  };

  // nest.cpp
  void parallelAxis(uint32_t axis);
  Range range(uint32_t axis);
  Value* extent(const kernel::Extent& extent);
  Values vectorLoop(uint32_t axis, Range range, Values carried, const std::function<Values(Values)>& body);
  Values scalarLoop(uint32_t axis, Range range, Values carried, const std::function<Values(Values)>& body);
  Values step(uint32_t axis, Value* index, Values carried, const std::function<Values(Values)>& body);
  bool storesShort() const;                     // elements of less than four bytes
  Value* notEmpty(uint32_t from, uint32_t to);  // whether all these axes have steps
  void close();
  void phases();

  // tiles.cpp
  void chooseTiles();
  void tileLoop(uint32_t axis);
  void tiledLines();
  void fillTile(const kernel::Node& node, Value* memory);
  Value* tiled(uint32_t node);  // a row of its tile

  // reduce.cpp
  void loopPhase(const kernel::Phase& phase);
  Values reducedAxis(const kernel::Phase& phase, uint32_t axis, Values sums);
  Values identities(const kernel::Phase& phase);
  Values begun(const kernel::Phase& phase, const Values& before);
  void scan(uint32_t node);
  Values combined(const kernel::Phase& phase, const Values& a, const Values& b);
  Values accumulated(const kernel::Phase& phase, Values sums);
  Value* acrossLanes(const kernel::Node& node, Value* vector);
  std::vector<uint32_t> reductions(const kernel::Phase& phase) const;

  // lanes.cpp
  void chooseLanes();
  int lanesOf(const kernel::Phase& phase) const;

  // lines.cpp
  void lines(const kernel::Phase& phase);
  void line(uint32_t node);
  int levelOf(const kernel::Node& node) const;  // the deepest level that its operands need
  int usable(const Known& known) const;         // the first level at whose beginning it can be used, or the top one
  Value* wide(const Known& known);              // with all lanes
  Value* wide(Value* constantOrArgument) { return wide(Known{constantOrArgument, 0, false}); }
  Value* wide(uint32_t node) { return wide(known_[node]); }
  void know(uint32_t node, Value* value, int level);  // computed at the beginning of this level, or in the top one

  // memory.cpp
  Address address(const kernel::Node& node);
  Known pointer(const kernel::Node& node);
  Value* mask(uint32_t given);  // of all lanes: those that have not ended, and for which `given` is true; null: all
  void load(uint32_t node);
  void store(uint32_t node);
  Value* loaded(const kernel::Node& node, const Address& address);
  Value* inMemory(Value* value, DType dtype);
  bool oneByOne(const Address& address, DType dtype) const;
  Value* lanePointer(const Address& address, llvm::Type* type, int lane);
  bool inVector() const { return lanes_ > 1 && axes_[kernel_.vector].index; }

  const kernel::Kernel& kernel_;
  const Functions& functions_;
  Code code_;
  uint32_t parallel_ = 0;       // how many axes are
  bool vectorReduced_ = false;  // whether the vector axis is a reduced one
  int kernelLanes_ = 1;
  int lanes_ = 1;              // of the code that is being written
  int floor_ = 0;              // nothing is hoisted above this level
  Value* laneMask_ = nullptr;  // lanes that have not ended; null: none has
  std::vector<Known> known_;   // by node
  std::map<Value*, Known> splats_;
  std::vector<AxisState> axes_;
  std::vector<Value*> arguments_;
  std::vector<Value*> buffers_;
  std::map<std::string, Known> pointers_;
  uint32_t tileAxis_ = kernel::kNone;  // along which transposed loads are contiguous
  std::map<uint32_t, Value*> tiles_;   // by such a load: a square of its elements, on the stack
  Range tile_{};                       // steps of that axis which are in the squares
  std::map<uint32_t, Value*> scans_;   // what the loop carries of them, before the present step
};

}  // namespace saker::codegen
