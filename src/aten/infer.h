// Output inference for a call at PyTorch's dispatcher: by the operator table, or, for an operator that has no entry
// there, by its ATen meta kernel, which is slow and therefore counted.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <exception>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "aten/convert.h"
#include "ir/context.h"
#include "ops/infer.h"
#include "ops/operator.h"
#include "support/arena.h"

namespace saker::aten {

// What only the owner can do, who may know Python.
struct Hooks {
  // The text of an error thrown by a kernel; kernels may be written in Python.
  std::string (*errorText)(const std::exception& error);
  Unwrap unwrap;
};

class Inference {
 public:
  explicit Inference(Hooks hooks) : hooks_(hooks) {}

  // An operator of the table, as the dispatcher's schema orders its arguments.
  struct Entry {
    const ops::Operator* op;
    std::vector<IntMeaning> meanings;
    // Per argument of the table's schema its place in the dispatcher's, -1 where it has none. Empty: the same places.
    std::vector<int> places;
  };
  // nullptr: not in the table, or its schema there has arguments the table does not know.
  const Entry* find(const c10::OperatorHandle& handle);

  enum class Source : uint8_t { Table, Fallback };
  struct Outcome {
    Source source;
    ops::Inferred inferred;
  };
  Outcome infer(ir::Context& context, const c10::OperatorHandle& handle, std::span<const c10::IValue> values);

  // Reads the state around a call that inference depends on. infer() does it by itself.
  void observe(ir::Context& context) const;

  // The arguments as ops::infer takes them; they live until the next call here. Throws ops::RefusalException.
  std::span<const ir::Arg> arguments(ir::Context& context, const Entry& entry, std::span<const c10::IValue> values);

  // The same through a converter of the caller's, whose arena they live in.
  std::span<const ir::Arg> arguments(Converter& converter, Arena& arena, const Entry& entry,
                                     std::span<const c10::IValue> values);

  // The context of the symbols among the values; nullptr if there are none.
  SharedContext contextOf(std::span<const c10::IValue> values) const { return aten::contextOf(values, hooks_.unwrap); }

  // The call as text, whether the table knows it or not.
  std::string text(ir::Context& context, const c10::OperatorHandle& handle, std::span<const c10::IValue> values);

  // How often the fallback was taken, by operator.
  const std::map<std::string, uint64_t>& fallbackCounts() const { return fallbackCounts_; }
  void resetCounts() { fallbackCounts_.clear(); }

 private:
  Hooks hooks_;
  // Only operators of the table are remembered: those are never deregistered, so a handle stays theirs.
  std::unordered_map<c10::OperatorHandle, Entry> entries_;
  std::map<std::string, uint64_t> fallbackCounts_;
  Arena arena_;
};

}  // namespace saker::aten
