// The executables of one graph, each prepared when it is first asked for: the graph does not change from then on.
#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "runtime/executable.h"

namespace saker::runtime {

class Prepared {
 public:
  // Both live as long as this does.
  Prepared(const ir::Graph& graph, const std::vector<c10::IValue>& objects) : graph_(graph), objects_(objects) {}

  const Executable& get(Executable::Views views) const {
    One& one = views == Executable::Views::Direct ? direct_ : called_;
    std::call_once(one.once, [&] { one.executable = std::make_unique<Executable>(graph_, objects_, views); });
    return *one.executable;
  }
  // For a run below autograd on such inputs. Where operators are recorded, views are to be recorded too.
  const Executable& get(std::span<const at::Tensor> inputs) const;

 private:
  struct One {
    std::once_flag once;
    std::unique_ptr<Executable> executable;
  };
  const ir::Graph& graph_;
  const std::vector<c10::IValue>& objects_;
  mutable One called_, direct_;
};

}  // namespace saker::runtime
