// One compilation of a function that saker::compile was given, and the calls that it fits.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "aot/compiled_function.h"
#include "aot/signature.h"
#include "saker/saker.h"

namespace saker::api {

// What one call looks like, as far as it decides which variant runs.
struct CallKey {
  CallKey(const Tensors& inputs, const State& state);

  // All but sizes and strides: the state of autograd and of the thread, dtypes, devices, ranks, requires_grad, inputs
  // that share memory, the state that the options name.
  aot::Signature kind;
  // By input its sizes, then its strides; strides that mean nothing are 0.
  std::vector<uint64_t> geometry;
};

// A size of an input: which input, which dimension.
using SizePlace = std::pair<size_t, size_t>;

struct Variant {
  Variant(CallKey key, const Tensors& inputs, State given) : key(std::move(key)), state(std::move(given)) {
    for (const at::Tensor& input : inputs) offsets.push_back(input.defined() ? input.storage_offset() : 0);
  }

  const CallKey key;
  const State state;                     // holds its tensors, so that no other one comes to be at their address
  std::vector<int64_t> offsets;          // by input: where it began in its memory
  std::vector<std::string> inputs = {};  // as report() shows them

  // nullptr: calls like it call the function as it is, whatever sizes they have.
  std::shared_ptr<const aot::CompiledFunction> native = nullptr;
  std::string reason = {};
  bool isSmall = false;                 // one small operator: calls like it go on as they are
  std::vector<SizePlace> symbols = {};  // sizes that may change
  double milliseconds = 0;
  mutable std::atomic<uint64_t> calls = 0;

  // From here on `native` is compiled for the tensors that the function closes over as they are now.
  void noteClosed();

  // Is there a tensor among them that the function makes itself, of memory that nobody owns?
  bool borrowsMemory() const;

  // Does it fit a call? Where sizes are symbols, and of sizes of closed-over tensors, only `native` knows.
  bool fits(const CallKey& call, const Tensors& inputs) const;
  // The same for a call that has no key yet, where no sizes are symbols: cheaper, and false where it cannot tell.
  bool fitsExactly(const Tensors& inputs, const State& given) const;

  // The function was compiled for calls of the same kind, and may differ in sizes.
  bool sameKind(const CallKey& call) const { return key.kind == call.kind; }

  // The program has replaced a tensor that the function closed over: no call will fit.
  bool isStale() const;

 private:
  struct Closed {
    bool requiresGrad;
    // How many references the variant itself holds, where the program had others when it was compiled. When these are
    // gone, the program has replaced the tensor by another one.
    size_t own;
  };
  bool closedAsBefore() const;
  bool liesAsBefore(const Tensors& inputs) const;

  std::vector<Closed> closed_;
  std::vector<bool> exactOffsets_;
};

// By input: "x: Float[128, 16]", with its name where it has one, and * for a size that may change.
std::vector<std::string> describe(const Tensors& inputs, std::span<const std::string> names,
                                  std::span<const SizePlace> symbols);
std::string joined(std::span<const std::string> parts);

}  // namespace saker::api
