// Rows of the table for families of operators whose schemas follow from one another.
#pragma once

#include <string>
#include <string_view>

#include "ops/families.h"

// The arguments that say what to allocate, as schemas write them.
#define SAKER_OPTIONS "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
#define SAKER_INDEX_OPTIONS "ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None"
#define SAKER_FORMAT ", MemoryFormat? memory_format=None"

namespace saker::ops {

// The out= form that PyTorch derives from a functional schema: f(x) -> Tensor becomes f.out(x, *, Tensor(a!) out),
// f.g becomes f.g_out, and the arguments that only say what to allocate (dtype, layout, device, pin_memory) fall away.
std::string outSchema(std::string_view functional);

// The functional operator and its derived out= form.
void addWithOut(Rows& rows, const std::string& schema, InferFn rule, Cost cost, uint32_t traits = kNone);

}  // namespace saker::ops
