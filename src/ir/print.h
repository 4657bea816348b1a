// The text form of a graph; src/ir/README.md has its grammar. parse(print(graph)) prints the same text again.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "ir/graph.h"

namespace saker::ir {

struct PrintOptions {
  bool locations = false;
  bool guards = false;  // facts that were decided by example values are told apart, so that they are guards again
};

std::string print(const Graph& graph, PrintOptions options = {});

// What the values of a graph are called in its text: by their name, else by a number in the order of the text. One has
// a number, too, where another one of its name can be read.
class ValueNames {
 public:
  explicit ValueNames(const Graph& graph);
  void append(std::string& out, const Value* value) const;
  std::string of(const Value* value) const;
  // "%3 = aten::mm" or "saker::store", for messages.
  std::string of(const Node* node) const;

 private:
  void number(const Region* region);
  void number(const Value* value, std::vector<std::string_view>& names);

  static constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> numbers_;               // by value id
  std::unordered_set<std::string_view> known_;  // of the regions that are being numbered
  uint32_t next_ = 0;
};

}  // namespace saker::ir
