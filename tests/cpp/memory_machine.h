// Runs small graphs on memory that tensors share, as eager mode does: for tests that compare a program before and after
// a pass. Tensors have one dimension; elements are whole numbers modulo a prime, so that results are exact.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "ops/control_flow.h"
#include "ops/operator.h"

namespace saker::testing {

class MemoryMachine {
 public:
  struct Tensor {
    std::shared_ptr<std::vector<int64_t>> memory;
    int64_t offset = 0, size = 0;
    int64_t& at(int64_t i) const { return (*memory)[static_cast<size_t>(offset + i)]; }
  };
  struct Thing {  // a tensor or a number
    Tensor tensor;
    int64_t number = 0;
    bool isTensor() const { return tensor.memory != nullptr; }
  };

  static Thing fresh(int64_t size, int64_t first) {
    Thing made{{std::make_shared<std::vector<int64_t>>(static_cast<size_t>(size)), 0, size}};
    for (int64_t i = 0; i < size; ++i) made.tensor.at(i) = first + i;
    return made;
  }

  std::vector<Thing> run(const ir::Graph& graph, const std::vector<Thing>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) values_[graph.top()->parameters()[i]] = inputs[i];
    return run(*graph.top());
  }

 private:
  static constexpr int64_t kPrime = 10007;

  std::vector<Thing> run(const ir::Region& region) {
    for (const ir::Node* node = region.first(); node; node = node->next()) {
      if (node->isReturn()) return things(node->args());
      run(*node);
    }
    return {};
  }

  Thing thing(const ir::Arg& arg) {
    if (arg.isValue()) return values_.at(arg.toValue());
    Thing made;
    if (arg.kind() == ir::Arg::Kind::Int) made.number = arg.toInt();
    if (arg.kind() == ir::Arg::Kind::Bool) made.number = arg.toBool();
    return made;
  }
  std::vector<Thing> things(std::span<const ir::Arg> args) {
    std::vector<Thing> out;
    for (const ir::Arg& arg : args) out.push_back(thing(arg));
    return out;
  }
  void set(std::span<ir::Value* const> values, std::span<const Thing> to) {
    ASSERT_EQ(values.size(), to.size());
    for (size_t i = 0; i < values.size(); ++i) values_[values[i]] = to[i];
  }

  void run(const ir::Node& node) {
    if (ops::isIf(node)) return branch(node);
    if (ops::isLoop(node)) return loop(node);
    std::vector<Thing> args = things(node.args());
    const std::string& name = node.op()->qualified;
    Thing& result = values_[node.result()];
    if (name == "aten::slice.Tensor") {
      result = slice(args);
    } else if (name == "aten::slice_scatter") {
      result = copyOf(args[0]);
      write(slice({result, args[2], args[3], args[4]}).tensor, args[1].tensor);
    } else if (name == "aten::copy_") {
      write(args[0].tensor, args[1].tensor);
      result = args[0];
    } else if (name == "aten::copy") {
      result = copyOf(args[0]);
      write(result.tensor, args[1].tensor);
    } else if (name == "aten::clone") {
      result = copyOf(args[0]);
    } else {
      bool inplace = ops::of(&node)->writes;
      Thing computed = pointwise(name, args);
      if (inplace) write(args[0].tensor, computed.tensor);
      result = inplace ? args[0] : computed;
    }
  }

  void branch(const ir::Node& node) {
    std::vector<Thing> args = things(node.args());
    const ir::Region& body = *node.regions()[args[0].number ? 0 : 1];
    set(body.parameters(), std::span(args).subspan(1));
    std::vector<Thing> returned = run(body);
    ASSERT_EQ(returned.size(), node.resultCount());
    for (size_t i = 0; i < returned.size(); ++i) values_[node.result(i)] = returned[i];
  }

  void loop(const ir::Node& node) {
    std::vector<Thing> args = things(node.args());
    int64_t trips = args[0].number;
    std::vector<Thing> carried(args.begin() + 1, args.end());
    for (int64_t i = 0; i < trips && carried[0].number; ++i) {
      std::vector<Thing> given = carried;
      given[0].number = i;
      set(node.regions()[0]->parameters(), given);
      carried = run(*node.regions()[0]);
    }
    ASSERT_EQ(carried.size(), node.resultCount() + 1);
    for (size_t i = 0; i < node.resultCount(); ++i) values_[node.result(i)] = carried[i + 1];
  }

  static Thing slice(const std::vector<Thing>& args) {
    Thing made = args[0];
    made.tensor.offset += args[2].number;
    made.tensor.size = args[3].number - args[2].number;
    return made;
  }
  static Thing copyOf(const Thing& from) {
    Thing made = fresh(from.tensor.size, 0);
    write(made.tensor, from.tensor);
    return made;
  }
  static void write(const Tensor& to, const Tensor& from) {
    std::vector<int64_t> read;  // they may overlap
    for (int64_t i = 0; i < to.size; ++i) read.push_back(from.at(from.size == 1 ? 0 : i));
    for (int64_t i = 0; i < to.size; ++i) to.at(i) = read[static_cast<size_t>(i)];
  }
  // Any function of the operator's name (the same for `add` and `add_`) and of the elements.
  static Thing pointwise(std::string name, const std::vector<Thing>& args) {
    size_t underscore = name.find("_.");
    if (underscore != std::string::npos) name.erase(underscore, 1);
    if (name.ends_with('_')) name.pop_back();
    int64_t seed = 7;
    for (char c : name) seed = (seed * 31 + c) % kPrime;
    Thing made = fresh(args[0].tensor.size, 0);
    for (int64_t i = 0; i < made.tensor.size; ++i) {
      int64_t value = seed;
      for (const Thing& arg : args) value = (value * 101 + (arg.isTensor() ? arg.tensor.at(i) : arg.number)) % kPrime;
      made.tensor.at(i) = value;
    }
    return made;
  }

  std::unordered_map<const ir::Value*, Thing> values_;
};

// The elements of each thing, then who shares memory with whom, as text.
inline std::string textOf(const std::vector<MemoryMachine::Thing>& things) {
  std::string out;
  std::map<const void*, size_t> first;
  for (size_t i = 0; i < things.size(); ++i) {
    const MemoryMachine::Thing& thing = things[i];
    if (!thing.isTensor()) {
      out += std::to_string(thing.number) + "; ";
      continue;
    }
    for (int64_t k = 0; k < thing.tensor.size; ++k) out += std::to_string(thing.tensor.at(k)) + ' ';
    out += "in " + std::to_string(first.emplace(thing.tensor.memory.get(), i).first->second) + " at " +
           std::to_string(thing.tensor.offset) + "; ";
  }
  return out;
}

}  // namespace saker::testing
