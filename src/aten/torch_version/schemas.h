// Where the operator table, which has the schemas of the newest torch, and an older torch name an argument differently.
#pragma once

#include <array>
#include <string_view>

namespace saker::aten {

struct RenamedArgument {
  std::string_view op;  // and its overloads
  std::string_view now;
  std::string_view before;
};

inline constexpr std::array kRenamedArguments = {
    RenamedArgument{"aten::_cdist_backward", "grad_output", "grad"},  // 2.14
    RenamedArgument{"aten::_pdist_backward", "grad_output", "grad"},  // 2.14
};

// What older versions call this argument; empty if they call it the same.
constexpr std::string_view formerName(std::string_view op, std::string_view argument) {
  for (const RenamedArgument& each : kRenamedArguments) {
    if (each.op == op && each.now == argument) return each.before;
  }
  return {};
}

}  // namespace saker::aten
