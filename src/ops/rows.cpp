#include "ops/rows.h"

#include "support/check.h"

namespace saker::ops {

namespace {

void removeAll(std::string& text, std::string_view part) {
  for (size_t at; (at = text.find(part)) != std::string::npos;) text.erase(at, part.size());
}

}  // namespace

std::string outSchema(std::string_view functional) {
  size_t open = functional.find('('), close = functional.rfind(')');
  SAKER_CHECK(open != std::string_view::npos && close != std::string_view::npos && close > open, "no schema");
  std::string name(functional.substr(0, open));
  name += name.find('.') == std::string::npos ? ".out" : "_out";
  size_t end = functional.find(") -> ");
  std::string arguments(functional.substr(open + 1, end - open - 1));
  for (std::string_view option : {"ScalarType? dtype=None", "ScalarType? dtype=4", "Layout? layout=None",
                                  "Device? device=None", "bool? pin_memory=None"}) {
    removeAll(arguments, std::string(", ") + std::string(option));
  }
  if (arguments.ends_with(", *")) arguments.resize(arguments.size() - 3);
  bool keywords = arguments.find("*, ") != std::string::npos || arguments.ends_with("*");
  return name + "(" + arguments + (keywords ? ", " : ", *, ") + "Tensor(a!) out) -> Tensor(a!)";
}

void addWithOut(Rows& rows, const std::string& schema, InferFn rule, Cost cost, uint32_t traits) {
  rows.push_back({schema, rule, cost, traits});
  rows.push_back({outSchema(schema), rule, cost, traits | kCopiedOut});
}

}  // namespace saker::ops
