// Internal to the schema parser: the default of an argument, from its text.
#pragma once

#include "ir/schema.h"

namespace saker::ir::detail {

// Sets defaultValue and defaultStorage from defaultText, as far as the text can be understood.
void resolveDefault(SchemaArgument& argument);

}  // namespace saker::ir::detail
