// Products of matrices of f32 by oneDNN, in the place of the library that eager mode calls (MKL, which takes half of what
// processors of others than its maker have). The sums are those of eager mode in another order.
#pragma once

#include "aten/kept_call.h"

namespace saker::aten {

// Is oneDNN the faster one on this processor? The answer does not depend on a measurement: results must not either.
bool multipliesFaster();

// mm, bmm, addmm and baddbmm. nullptr: eager mode's own kernel is to be called.
std::unique_ptr<KeptCall> prepareProduct(const KeptArguments& arguments);

}  // namespace saker::aten
