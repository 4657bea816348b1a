// Builds one kernel: asks the rules of operators what the elements of its results are, down to what lies in memory.
#pragma once

#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "lower/axes.h"
#include "lower/expressions.h"

namespace saker::lower {

// This value cannot be computed where it is needed: it is to lie in memory before. Thrown while a kernel is built.
struct NeedsMemory {
  const ir::Value* value;
};

// A tensor that a kernel reads or writes; or no tensor but a bool, which it sets where eager mode would raise.
struct Memory {
  const ir::Value* value;
  bool written = false;

  ir::DType dtype() const { return value ? value->tensor()->dtype : ir::DType::Bool; }
};

class KernelBuilder {
 public:
  class Source {
   public:
    virtual ~Source() = default;
    // Strides of what lies in memory, or nothing: it is computed.
    virtual std::optional<ir::Dims> strides(const ir::Value* value) const = 0;
    // The kernel stores a result in its place.
    virtual bool isOverwritten(const ir::Value* /*parameter*/) const { return false; }
  };

  // `toTheBit`: not lowered where elements are not always eager mode's bits.
  KernelBuilder(ir::Context& context, const Source& source, Axes axes, bool toTheBit = false)
      : context_(context), source_(source), axes_(std::move(axes)), toTheBit_(toTheBit) {}

  // A result of the kernel; `over`: the parameter in whose place it goes. Throws Split, NeedsMemory, ops::NotLowered.
  void store(const ir::Value* value, const ir::Dims& strides, const ir::Value* over = nullptr);
  // The steps of what puts elements into a result, which is stored before. The space is that of the steps.
  void put(const ir::Value* value, const ir::Dims& strides);

  const Axes& axes() const { return axes_; }
  Arguments& arguments() { return arguments_; }
  Expressions& expressions() { return expressions_; }
  const std::vector<Memory>& memory() const { return memory_; }
  const std::vector<uint32_t>& stores() const { return stores_; }
  // Is it read too, before a result takes its place?
  static bool isOverwritten(const Memory& memory) {
    return memory.written && memory.value && memory.value->isParameter();
  }

 private:
  friend class Call;
  struct Key {
    const ir::Value* value;
    uint32_t mask;
    std::vector<uint64_t> places;
    bool operator==(const Key&) const = default;
  };
  struct HashKey {
    size_t operator()(const Key& key) const;
  };

  uint32_t add(const kernel::Node& node) { return expressions_.add(node, axes_.reduced()); }
  ops::Num valueAt(const ir::Value* value, const ops::Places& places);
  ops::Num compute(const ir::Value* value, const ops::Places& places);
  void check(uint32_t fails);
  uint32_t load(const ir::Value* value, const ir::Dims& strides, const ops::Places& places);
  kernel::Index index(const ops::Places& places, const ir::Dims& strides);
  uint32_t bufferOf(const ir::Value* value, bool written);
  uint32_t constant(ir::DType dtype, uint64_t bits);
  uint32_t number(const ops::Place& place);
  std::pair<ops::Place, ops::Place> divide(const ops::Place& place, Int by);
  ops::Places spread(const ops::Place& linear, std::span<const Int> sizes);
  ops::Places rootPlaces(const ir::Value* value);
  // Places at which rows of the result are made of rows of the space, where there are such (align.cpp).
  std::optional<ops::Places> alignedPlaces(const ir::Value* value);
  void watch(const ir::Value* value, const ops::Places& places) const;

  ir::Context& context_;
  const Source& source_;
  Axes axes_;
  Arguments arguments_;
  Expressions expressions_;
  std::vector<Memory> memory_;
  std::vector<uint32_t> stores_;
  std::unordered_map<Key, ops::Num, HashKey> known_;
  uint32_t mask_ = kernel::kNone;
  bool mustLoad_ = false;  // what is asked for is read several times
  const bool toTheBit_;
  int depth_ = 0;
  const ir::Dims* watched_ = nullptr;  // sizes of what is looked for
};

}  // namespace saker::lower
