// What a back end or compiler of the user's gives when it runs a graph, checked against that graph: a wrong number of
// results, or one that is no tensor of the right kind, raises saker.BackendError with a sentence that says so.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <string>
#include <vector>

#include "ir/graph.h"

namespace saker {

class ForeignResults {
 public:
  // `maker` names who made the callable ("fw_compiler").
  ForeignResults(const ir::Graph& graph, std::string maker);
  // Only results `first` to `last` of the graph are asked for, and behind them `more` tensors of any kind.
  ForeignResults(const ir::Graph& graph, std::string maker, size_t first, size_t last, size_t more = 0);

  // A Python number may stand for a tensor without dimensions.
  void allowNumbers() { numbers_ = true; }

  // The tensors among what was returned; undefined where the graph gives None or a number.
  std::vector<at::Tensor> take(const pybind11::object& returned) const;

 private:
  struct Expected {
    bool tensor = false;
    bool none = false;
    bool any = false;  // whatever tensor it is
    at::ScalarType dtype = at::kFloat;
    c10::Device device = c10::kCPU;
    std::vector<int64_t> sizes;  // -1: any
    std::string text;
  };
  at::Tensor one(size_t index, const pybind11::handle& item) const;
  void check(size_t index, const at::Tensor& tensor) const;
  [[noreturn]] void refuse(const std::string& what) const;

  std::string maker_;
  bool numbers_ = false;
  bool sizesKnown_ = true;  // no operator decides by data how large its result is
  std::vector<Expected> expected_;
};

// Is the error that is set one of these?
bool raisedBackendError();

}  // namespace saker
