#include "ir/parameter_names.h"

#include <algorithm>
#include <unordered_set>

namespace saker::ir {

namespace {

using Names = std::unordered_set<std::string>;

void collectNames(const Region& region, Names& into) {
  auto add = [&](const Value& value) {
    if (!value.name().empty()) into.emplace(value.name());
  };
  for (const Value* parameter : region.parameters()) add(*parameter);
  for (const Node* node = region.first(); node; node = node->next()) {
    for (size_t i = 0; i < node->resultCount(); ++i) add(*node->result(i));
    for (const Region* body : node->regions()) collectNames(*body, into);
  }
}

}  // namespace

void nameParameters(Graph& graph, std::span<const std::string> names) {
  if (std::ranges::all_of(names, &std::string::empty)) return;
  Names taken;
  collectNames(*graph.top(), taken);
  std::span<Value* const> parameters = graph.top()->parameters();
  for (size_t i = 0; i < std::min(names.size(), parameters.size()); ++i) {
    if (names[i].empty() || parameters[i]->name() == names[i]) continue;
    taken.erase(std::string(parameters[i]->name()));
    std::string name = names[i];
    for (size_t number = 2; !taken.insert(name).second; ++number) name = names[i] + "#" + std::to_string(number);
    graph.setName(parameters[i], name);
  }
}

}  // namespace saker::ir
