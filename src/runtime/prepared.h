// The executables of one graph, each prepared when it is first asked for: the graph does not change from then on. What
// runs below autograd is simplified before.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "runtime/executable.h"

namespace saker::runtime {

// Can its operators be left out, moved and fused? Not where a recording writes: its writes run as they are, as values
// they would be copies. Nor where more than values may be seen of an operator.
bool isFunctional(const ir::Graph& graph);
// Can kernels be made of its operators? They may write to tensors: what does stays in order.
bool mayFuse(const ir::Graph& graph);
// Do a program's operators become kernels, as it or the process asks for?
bool generatesCode(NativeCode native);
// Only of those whose results are eager mode's to the bit? Asked for by it, or of all by SAKER_PRECISION=eager.
bool keepsAllBits(NativeCode native);

class Prepared {
 public:
  // Both live as long as this does. `simplified`: the graph has passed that stage. `ending`: see planMemory.
  Prepared(const ir::Graph& graph, const std::vector<c10::IValue>& objects, bool simplified, NativeCode native,
           std::vector<bool> ending = {})
      : graph_(graph), objects_(objects), simplified_(simplified), native_(native), ending_(std::move(ending)) {}

  const Executable& get(Executable::Views views) const {
    One& one = views == Executable::Views::Direct ? direct_ : called_;
    std::call_once(one.once, [&] { prepare(one, views); });
    return *one.executable;
  }
  // For a run below autograd on such inputs. Where operators are recorded, views are to be recorded too.
  const Executable& get(std::span<const at::Tensor> inputs, std::span<const int64_t> numbers = {}) const;

  // The node of the graph that this node of one of its executables stands for.
  uint32_t numberOf(const Executable& executable, const ir::Node& node) const;

 private:
  struct One {
    std::once_flag once;
    std::unique_ptr<ir::Graph> graph;  // if it is another one than was given
    std::vector<uint32_t> numbers;     // by node of it
    std::unique_ptr<Executable> executable;
  };
  void prepare(One& one, Executable::Views views) const;

  const ir::Graph& graph_;
  const std::vector<c10::IValue>& objects_;
  const bool simplified_;
  const NativeCode native_;
  const std::vector<bool> ending_;
  mutable One called_, direct_;
};

}  // namespace saker::runtime
