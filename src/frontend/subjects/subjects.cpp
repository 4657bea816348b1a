#include "frontend/subjects/subjects.h"

namespace saker::frontend {

// Subjects that nobody else talks to, each made in a file of its own.
std::unique_ptr<Subject> makeAllows(Recorder& recorder);
std::unique_ptr<Subject> makeCaches(Recorder& recorder);
std::unique_ptr<Subject> makeLazyModules(Recorder& recorder);
std::unique_ptr<Subject> makeLogging(Recorder& recorder);
std::unique_ptr<Subject> makeNodes(Recorder& recorder);
std::unique_ptr<Subject> makeStorages(Recorder& recorder);
std::unique_ptr<Subject> makeWarnings(Recorder& recorder);
std::unique_ptr<Subject> makeWrappers(Recorder& recorder);

Subjects::Subjects(Recorder& recorder)
    : arrays(recorder),
      attempt(recorder),
      flags(recorder),
      hooks(recorder),
      iterators(recorder),
      made(recorder),
      random(recorder),
      world(recorder) {
  auto add = [&](std::unique_ptr<Subject> (*make)(Recorder&)) {
    others_.push_back(make(recorder));
    return others_.back().get();
  };
  Subject* const all[] = {add(makeAllows),  // the first: what the user says comes before what is known
                          &flags,
                          &random,
                          add(makeStorages),
                          &made,
                          add(makeWrappers),
                          &arrays,  // behind those whose calls may be given arrays
                          &hooks,
                          add(makeLazyModules),
                          add(makeLogging),
                          add(makeNodes),
                          add(makeWarnings),
                          &world,
                          &iterators,
                          add(makeCaches)};  // the last: a function under a cache may be anything
  for (Subject* each : all) {
    for (size_t i = 0; i < kQuestions; ++i) {
      if (each->answers(static_cast<Question>(i))) asked_[i].push_back(each);
    }
  }
}

}  // namespace saker::frontend
