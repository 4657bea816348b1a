// What inference and the operator table give, as plain Python objects.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <string>

#include "aten/sym_node.h"
#include "ir/type.h"
#include "ops/infer.h"

namespace saker::python {

// A tensor: ("tensor", dtype, sizes, strides, offset, device, layout, conj, neg). Anything else: (kind,).
py::tuple toPython(const aten::SharedContext& context, const ir::Type* type);

// {"name", "schema", "cost", "variant", "traits", "writes"} for each operator of the table.
py::list operatorTable();

}  // namespace saker::python
