// A subject knows one corner of Python or PyTorch: NumPy arrays, random numbers, hooks. It is asked whether something
// that the program is about to do is its own; then it says what that reads, what it does, or why it stops the
// recording. A subject owns its state. The recorder asks the subjects in the order of their list (subjects.cpp); a new
// subject is a file and a line of that list.
#pragma once

#include <optional>
#include <type_traits>
#include <vector>

#include "frontend/recorder.h"

namespace saker::frontend {

using Values = std::vector<PyObject*>;
// Nothing: it is not this subject's. True: it is, and the recording goes on. False: the recording has ended.
using Answer = std::optional<bool>;

// What subjects are asked and told.
enum class Question : uint8_t {
  Begins,
  Calls,
  Behaves,
  CallsFunction,
  CallsMethod,
  Called,
  ReadsAttribute,
  ReadsDescriptor,
  ReadAttribute,
  Found,
  GoesOn,
  Seal,
};
inline constexpr size_t kQuestions = static_cast<size_t>(Question::Seal) + 1;

class Subject {
 public:
  Subject(Recorder& recorder, uint32_t answers) : recorder_(recorder), answers_(answers) {}
  virtual ~Subject() = default;
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  // Is this one of the questions that it answers?
  bool answers(Question question) const { return (answers_ >> static_cast<unsigned>(question)) & 1u; }

  // A call is about to be made: one that has not ended by now has failed.
  virtual void begins() {}
  // C code or a class is about to be called.
  virtual Answer calls(PyObject* callable, const Values& args, PyObject* names) {
    (void)callable, (void)args, (void)names;
    return std::nullopt;
  }
  // C code that behaves so is about to be called.
  virtual Answer behaves(Behaviour behaviour, PyObject* callable, const Values& args, PyObject* names) {
    (void)behaviour, (void)callable, (void)args, (void)names;
    return std::nullopt;
  }
  // A Python function, or a bound method of one, is about to be called.
  virtual Answer callsFunction(PyObject* function, const watch::Arguments& arguments) {
    (void)function, (void)arguments;
    return std::nullopt;
  }
  virtual Answer callsMethod(PyObject* method, const watch::Arguments& arguments) {
    (void)method, (void)arguments;
    return std::nullopt;
  }
  // A call has ended; `spread`: one of the form f(*args). True: nobody else has to look at the result.
  virtual bool called(PyObject* callable, PyObject* result, bool spread) {
    (void)callable, (void)result, (void)spread;
    return false;
  }
  // An attribute is about to be read, one of them by a descriptor of C; it has been read.
  virtual Answer readsAttribute(PyObject* owner, PyObject* name) {
    (void)owner, (void)name;
    return std::nullopt;
  }
  virtual Answer readsDescriptor(PyObject* owner, PyObject* name, PyObject* descriptor, uint32_t place) {
    (void)owner, (void)name, (void)descriptor, (void)place;
    return std::nullopt;
  }
  virtual void readAttribute(PyObject* owner, PyObject* name, PyObject* value) { (void)owner, (void)name, (void)value; }
  // A tensor or an array from outside is met for the first time.
  virtual void found(uint32_t place, PyObject* object) { (void)place, (void)object; }
  // The program goes on: something that has begun (`expectEnd`) and not ended has failed.
  virtual void goesOn() {}
  // The call is over: nothing, or why it cannot be done again.
  virtual std::optional<Stop> seal() { return std::nullopt; }

 protected:
  // What the recorder offers to subjects.
  Subjects& subjects() const { return *recorder_.subjects_; }
  Provenance& provenance() const { return recorder_.provenance_; }
  Effects& effects() const { return recorder_.effects_; }
  Guards& guards() const { return provenance().guards(); }
  tracing::Tape& tape() const { return recorder_.tape_; }
  const Operations& operations() const { return recorder_.operations_; }
  bool speculative() const { return recorder_.speculative_; }
  bool stopped() const { return recorder_.stopped_.has_value(); }
  bool stop(Stop why, bool quiet = false) { return recorder_.stop(std::move(why), quiet); }
  void check() { recorder_.check(); }
  // Something has begun, and `goesOn` is to be asked if it has not ended by then.
  void expectEnd() { recorder_.begun_ = true; }
  // The inside of this call is not recorded.
  void hide(PyObject* callable) { recorder_.hiding_ = callable; }
  // The same of code of the user's, whose changes are noted.
  void hideUsers(PyObject* callable) {
    hide(callable);
    recorder_.hidesUsers_ = true;
  }
  // What the program calls, where it is called through something else.
  PyObject* calling() const { return recorder_.calling_; }

  uint32_t placeOf(PyObject* object) const { return provenance().placeOf(object); }
  PyObject* keep(Ref object) { return provenance().keep(std::move(object)); }
  uint32_t read(GuardOp op, uint32_t parent, PyObject* key, int64_t number, PyObject* object) {
    return recorder_.read(op, parent, key, number, object);
  }
  void checkIs(GuardOp op, uint32_t place, PyObject* object, int64_t number = 0) {
    provenance().check(op, place, object, number);
  }
  uint32_t fixed(PyObject* object) { return recorder_.fixed(object); }
  void noteFixed(PyObject* object) { recorder_.noteFixed(object); }
  void pin(PyObject* object) { provenance().pin(object); }
  PyObject* lookUp(PyTypeObject* type, PyObject* name) { return recorder_.lookUp(type, name); }
  void handOn(PyObject* function) { recorder_.handOn(function); }
  bool named(PyObject* object) { return recorder_.named(object); }
  bool written(PyObject* owner, PyObject* key) const { return effects().written(owner, key); }
  bool realize(PyObject* object, bool deep) { return recorder_.realize(object, deep); }
  bool isContainer(PyObject* object) const { return recorder_.isContainer(object); }
  bool attribute(PyObject* owner, PyObject* name, bool plain = false) {
    return recorder_.attribute(owner, name, plain);
  }
  void guardSpecials(PyTypeObject* type) { recorder_.guardSpecials(type); }
  bool tells(PyObject* object) { return recorder_.tells(object); }
  bool effect(PyObject* callable, const Values& args, PyObject* names = nullptr) {
    return recorder_.effect(callable, args, names);
  }
  bool beforeWrite(PyObject* container) { return recorder_.beforeWrite(container); }
  bool realizeOnce(PyObject* object, uint32_t place) { return recorder_.realizeOnce(object, place); }
  void forgetRealized() { recorder_.forgetRealized(); }

  Recorder& recorder_;

 private:
  uint32_t answers_;
};

// The base of the subject T, which knows what T answers: the functions that it defines itself.
template <typename T>
class SubjectOf : public Subject {
 public:
  explicit SubjectOf(Recorder& recorder) : Subject(recorder, answersOf()) {}

 private:
  template <typename Own, typename Default>
  static constexpr uint32_t bit(Question question, Own, Default) {
    return std::is_same_v<Own, Default> ? 0 : 1u << static_cast<unsigned>(question);
  }
  static constexpr uint32_t answersOf() {
    return bit(Question::Begins, &T::begins, &Subject::begins) | bit(Question::Calls, &T::calls, &Subject::calls) |
           bit(Question::Behaves, &T::behaves, &Subject::behaves) |
           bit(Question::CallsFunction, &T::callsFunction, &Subject::callsFunction) |
           bit(Question::CallsMethod, &T::callsMethod, &Subject::callsMethod) |
           bit(Question::Called, &T::called, &Subject::called) |
           bit(Question::ReadsAttribute, &T::readsAttribute, &Subject::readsAttribute) |
           bit(Question::ReadsDescriptor, &T::readsDescriptor, &Subject::readsDescriptor) |
           bit(Question::ReadAttribute, &T::readAttribute, &Subject::readAttribute) |
           bit(Question::Found, &T::found, &Subject::found) | bit(Question::GoesOn, &T::goesOn, &Subject::goesOn) |
           bit(Question::Seal, &T::seal, &Subject::seal);
  }
};

}  // namespace saker::frontend
