// Why no recording fits a call: the guards that do not hold of the nearest one, each with what it expected and what it
// found, in the words of the user's program.
#pragma once

#include <string>
#include <vector>

#include "frontend/guards.h"

namespace saker::frontend {

struct Differences {
  size_t distance = 0;  // how far the recording is: guards that do not hold, or more for another form of call
  size_t more = 0;      // guards that are not told of
  std::vector<std::string> texts;  // of the first ones: "x.size(1): expected 16, found 32"

  // In one line.
  std::string text() const;
};

// Looks at all guards, also behind one that does not hold, unless they are about what it is about.
Differences differencesOf(const Guards& guards, const CallArguments& call);

}  // namespace saker::frontend
