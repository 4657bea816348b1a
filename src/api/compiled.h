// The calls of one function that saker::compile was given: which variant runs a call, and when one is compiled.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "api/variant.h"
#include "saker/saker.h"

namespace saker::api {

class CompiledCalls {
 public:
  CompiledCalls(Function function, CompileOptions options);

  Tensors call(const Tensors& inputs);
  bool goesOn();  // see Compiled
  CompileStats stats() const;
  std::string report() const;
  std::string text() const;

 private:
  using List = std::vector<std::shared_ptr<const Variant>>;
  using Known = std::shared_ptr<const List>;  // a list that does not change: another one takes its place
  Known known() const;
  // Runs the call by the first variant that fits it. Nothing: none does.
  // The variant that ran the last call, if it is compiled for this one too.
  std::optional<Tensors> runLatest(const List& variants, const Tensors& inputs, const State& state);
  std::optional<Tensors> run(const Variant& variant, const Tensors& inputs);
  std::optional<Tensors> runKnown(const List& variants, const CallKey& key, const Tensors& inputs);
  // Compiles a variant for the call, unless another thread has added one since `before`. Gives why the function has to
  // be called first: it raises an error, which is to be its own.
  std::string addVariant(const Known& before, const CallKey& key, const Tensors& inputs, const State& state);
  void keep(std::shared_ptr<Variant> variant);
  // The function was captured: it must have left the tensors of its state where they were.
  void checkState(const State& before) const;
  std::vector<SizePlace> sizesToChange(const List& variants, const CallKey& key, const Tensors& inputs) const;
  // Makes room for one more. False: there is none.
  bool makeRoom(const State& state);
  Tensors callEagerly(const Tensors& inputs, const std::string& reason = {});
  std::string beyondLimit(const Tensors& inputs) const;

  const Function function_;
  const CompileOptions options_;
  mutable std::shared_mutex lock_;  // of what follows
  Known variants_ = std::make_shared<const List>();
  std::string lastEager_;  // why the last call that no variant stands for ran eagerly
  std::mutex compiling_;
  std::atomic<uint64_t> calls_ = 0, compiledCalls_ = 0, eagerCalls_ = 0, captures_ = 0;
  std::atomic<double> milliseconds_ = 0;
  // Calls that go on as they are: how many without being looked at, and how many of late were one small operator.
  std::atomic<uint32_t> unlooked_ = 0, small_ = 0;
  std::atomic<size_t> latest_ = 0;  // which variant ran the last call
};

}  // namespace saker::api
