// What a replay may do when an operator fails on data: begin again in eager mode, or leave all as eager mode does.
#pragma once

#include <cstddef>
#include <string>

#include "capture/tape.h"

namespace saker::frontend {

// Would the watched program notice an error of an operator here? `any`: whatever the error may be.
bool noticesErrors(bool any);

}  // namespace saker::frontend
