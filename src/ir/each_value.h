// The values that an argument is, or has in its lists.
#pragma once

#include "ir/arg.h"

namespace saker::ir {

// F: void(Value*).
template <typename F>
void eachValue(const Arg& arg, F&& f) {
  if (arg.isValue()) {
    f(arg.toValue());
  } else if (arg.isList()) {
    for (const Arg& element : arg.toList()) eachValue(element, f);
  }
}

}  // namespace saker::ir
