// Which arguments of a call see each other's writes, and how autograd relates them.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "aten/memory.h"
#include "aten/version_counter.h"

namespace saker::aot {

struct SharedArguments {
  std::vector<size_t> memories;               // by argument: equal numbers share memory (as Capture takes it)
  std::vector<size_t> bases;                  // by base: an argument whose base it is
  std::vector<std::optional<size_t>> baseOf;  // by argument: the base it is given as a view of
};

// Arguments whose elements lie in the same places are grouped; those of one storage that lie apart are not. A group
// whose members are views of one tensor is given as that tensor. Throws NotAheadOfTime for groups that cannot be.
SharedArguments findShared(std::span<const at::Tensor> arguments);
// Where nothing is written, nobody sees who shares memory.
SharedArguments eachAlone(std::span<const at::Tensor> arguments);

// The tensor that autograd sees this one as a view of, or itself.
at::Tensor autogradBase(const at::Tensor& tensor);

using aten::liesApart;
using aten::overlap;
using aten::sameStorage;
using aten::shareMemory;
using aten::sharesVersion;

// Would autograd refuse an in-place operator that it follows?
bool refusesWrites(const at::Tensor& tensor);

}  // namespace saker::aot
