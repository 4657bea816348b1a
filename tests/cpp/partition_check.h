// Does a cut mean what the joint graph means? Graphs are evaluated to terms: what an operator computes is its name and
// the terms of its arguments; equal computations are equal numbers. Effects and random numbers carry their turn, so
// that another order is another term, and writes are followed.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/partition.h"
#include "ir/parse.h"
#include "ops/operator.h"

namespace saker::autograd::testing {

class Terms {
 public:
  using Term = int;
  struct Result {
    std::vector<std::string> returned;
    std::vector<Term> parametersAfter;  // what the memory of each parameter holds at the end
  };

  Term named(const std::string& text) {
    return terms_.try_emplace(text, static_cast<int>(terms_.size())).first->second;
  }
  // `turn` counts effects.
  Result evaluate(const ir::Graph& graph, const std::vector<Term>& parameters, int& turn);
  std::string constant(const ir::Arg& arg);

 private:
  std::map<std::string, Term> terms_;
};

inline std::unique_ptr<ir::Graph> read(std::string_view text) {
  ir::Parsed parsed = ir::parse(text, std::make_shared<ir::Context>(ops::lookup));
  EXPECT_TRUE(parsed.ok()) << parsed.error->line << ": " << parsed.error->message;
  return std::move(parsed.graph);
}

// Cuts and compares; the cut has empty graphs where it fails.
Cut cutAndCompare(const ir::Graph& joint, const JointLayout& layout, const PartitionOptions& options = {});
std::string errorOf(const ir::Graph& joint, const JointLayout& layout, const PartitionOptions& options = {});

size_t count(const ir::Graph& graph, std::string_view op);
// Names of the backward's saved parameters, separated by spaces; primals in brackets.
std::string savedNames(const Cut& cut);

}  // namespace saker::autograd::testing
