// The subjects of a recorder. Those that others talk to are members; the rest is known to the list alone.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "frontend/subjects/arrays.h"
#include "frontend/subjects/attempt.h"
#include "frontend/subjects/flags.h"
#include "frontend/subjects/hooks.h"
#include "frontend/subjects/iterators_outside.h"
#include "frontend/subjects/made.h"
#include "frontend/subjects/random.h"
#include "frontend/subjects/world.h"

namespace saker::frontend {

class Subjects {
 public:
  explicit Subjects(Recorder& recorder);

  Arrays arrays;
  Attempt attempt;
  FlagsAround flags;
  Hooks hooks;
  OutsideIterators iterators;
  MadeObjects made;
  Random random;
  World world;

  // Those that answer a question, in the order in which they are asked.
  const std::vector<Subject*>& asked(Question question) const { return asked_[static_cast<size_t>(question)]; }
  // The first answer.
  template <typename Ask>
  Answer first(Question question, Ask ask) const {
    for (Subject* each : asked(question)) {
      if (Answer answer = ask(*each)) return answer;
    }
    return std::nullopt;
  }

 private:
  std::vector<std::unique_ptr<Subject>> others_;
  std::array<std::vector<Subject*>, kQuestions> asked_;
};

}  // namespace saker::frontend
