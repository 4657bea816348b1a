// What the arguments of a captured program are called in the text of its graph: parameters of modules by their names.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/program.h"

namespace saker::runtime {

// By argument; an empty text leaves a parameter its number.
void nameArguments(Program& program, std::span<const std::string> names);
inline std::unique_ptr<Program> named(std::unique_ptr<Program> program, std::span<const std::string> names) {
  nameArguments(*program, names);
  return program;
}

// By argument: the name it has, or an empty text.
std::vector<std::string> argumentNames(const Program& program);

}  // namespace saker::runtime
