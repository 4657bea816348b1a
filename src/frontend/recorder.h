// Watches a call and writes down what it relies on and what it does: reads of outside objects become guards
// (frontend/provenance.h), writes to them become effects (frontend/effects.h). What it does to tensors is on the tape.
// The recorder knows Python's own objects: names, attributes, containers, calls. What belongs to a corner of Python or
// PyTorch is for a subject to know (frontend/subject.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "capture/reasons.h"
#include "capture/tape.h"
#include "frontend/ambient.h"
#include "frontend/doubles.h"
#include "frontend/effects.h"
#include "frontend/operations.h"
#include "frontend/provenance.h"
#include "frontend/recorded.h"
#include "frontend/skipped.h"
#include "watch/observer.h"

namespace saker::frontend {

class Subjects;

class Recorder final : public watch::Observer {
 public:
  // With `raising`, what stops the recording raises: a CaptureError, or, with stand-ins, whatever unwinds the call.
  // A call with stand-ins runs nothing: it is undone by forgetting it, so it must change nothing outside but doubles,
  // or what can be put back. `scalarsAreData`: numbers of numpy's that are arguments are inputs of the graph, not
  // compared.
  Recorder(tracing::Tape& tape, PyObject* callable, const CallArguments& call, bool raising = false,
           std::span<const StandIn> standIns = {}, bool scalarsAreData = false, const Doubles* doubles = nullptr);
  ~Recorder() override;

  const std::optional<Stop>& stopped() const { return stopped_; }
  // With stand-ins: the recording is of no use. It goes on until the call is unwound, so that nothing is changed then.
  const std::optional<Stop>& abandoned() const { return abandoned_; }
  const Subjects& subjects() const { return *subjects_; }
  Subjects& subjects() { return *subjects_; }
  const Provenance& provenance() const { return provenance_; }
  Guards takeGuards() { return std::move(provenance_.guards()); }
  Guards& guards() { return provenance_.guards(); }
  const std::vector<Effect>& effects() const { return effects_.list(); }
  // kInside: made during the call.
  uint32_t placeOf(PyObject* object) const { return provenance_.placeOf(object); }
  uint32_t placeOfTensor(const at::Tensor& tensor) const { return provenance_.placeOfTensor(tensor); }
  // The place of a number that is symbolic. The symbol itself is an inside object.
  uint32_t placeOfNumber(PyObject* symbol) const {
    auto found = numbers_.find(symbol);
    return found == numbers_.end() ? kInside : found->second;
  }
  bool madeHere(PyObject* function) const { return madeFunctions_.contains(function); }
  // The exception that the caller of the call handles, or nullptr: what is raised inside has it as its context.
  PyObject* handled() const { return handled_.get(); }
  size_t frames() const { return frames_; }
  // Effects that others could see before the call ends.
  size_t effectsOutside() const;
  // Were there arguments that are numbers of numpy's, as data?
  bool metScalars() const { return metScalars_; }
  bool balanced() const { return contextSets_ == 0; }
  // The recording starts in a live frame: what is in its slots is found there again. nullptr: nothing is bound.
  void meetFrame(std::span<PyObject* const> names, std::span<PyObject* const> locals, std::span<PyObject* const> stack);
  // The call is over: guards that only the whole of it tells. Nothing, or why it cannot be done again.
  std::optional<Stop> seal();
  // How far the call has come, and what may not have happened in a part of it that is done again elsewhere.
  struct Mark {
    size_t effects, draws, flags, operators, hooks;
  };
  Mark mark() const;
  bool changedSince(const Mark& mark, bool tensors = true) const;  // `tensors`: what was written to them counts
  // Forgets writes since then to attributes and keys that hold again what they held: what they held is guarded, as if
  // the program had read it, so that a replay, which does not write, finds it and leaves it there.
  void forgetRestored(const Mark& mark);
  // What it was, in words; something has changed.
  std::string changeSince(const Mark& mark) const;
  tracing::Tape& tape() { return tape_; }
  // No event comes any more; why, if it is for a reason. With stand-ins, events go on to come, and are refused.
  bool stop(Stop why, bool quiet = false);

  watch::Skip skips(PyCodeObject* code, PyCodeObject* passed) override;
  bool enters(PyObject* function, PyCodeObject* code) override;
  void left(PyCodeObject* code, PyObject* value) override;
  void madeFunction(PyObject* function) override;
  bool readsGlobal(PyObject* globals, PyObject* builtins, PyObject* name, PyObject* value) override;
  bool writesGlobal(PyObject* globals, PyObject* name, PyObject* valueOrNull) override;
  bool readsCell(PyObject* cell, PyObject* value) override;
  bool writesCell(PyObject* cell, PyObject* valueOrNull) override;
  bool readsName(PyObject* locals, PyObject* globals, PyObject* builtins, PyObject* name) override;
  bool readsAttribute(PyObject* owner, PyObject* name) override;
  void readAttribute(PyObject* owner, PyObject* name, PyObject* value) override;
  bool writesAttribute(PyObject* owner, PyObject* name, PyObject* valueOrNull) override;
  bool readsSpecial(PyObject* owner, PyObject* name) override;
  PyObject* instead(PyObject* callable) override;
  bool calls(PyObject* callable, const watch::Arguments& arguments) override;
  void called(PyObject* callable, const watch::Arguments& arguments, PyObject* result) override;
  bool hidden(PyObject* callable) override { return std::exchange(hiding_, nullptr) == callable; }
  void hides(bool on) override;
  bool callsSpread(PyObject* callable, PyObject* args, PyObject* kwargsOrNull) override;
  void calledSpread(PyObject* callable, PyObject* args, PyObject* kwargsOrNull, PyObject* result) override;
  bool unary(watch::Unary op, PyObject* operand) override;
  bool binary(watch::Binary op, bool inplace, PyObject* left, PyObject* right) override;
  void binaryDone(watch::Binary, bool, PyObject*, PyObject*, PyObject* result) override;
  bool compares(int op, PyObject* left, PyObject* right) override;
  bool contains(PyObject* container, PyObject* item) override;
  void unaryDone(watch::Unary, PyObject*, PyObject* result) override;
  void compared(PyObject*, PyObject*, PyObject* result) override;
  bool identifies(PyObject* left, PyObject* right) override;
  bool keys(PyObject* key) override;
  bool formats(PyObject* value, int conversion, PyObject* specOrNull) override;
  bool readsItem(PyObject* container, PyObject* key) override;
  void readItem(PyObject* container, PyObject* key, PyObject* value) override;
  bool writesItem(PyObject* container, PyObject* key, PyObject* valueOrNull) override;
  bool iterates(PyObject* iterable) override;
  void iterated(PyObject*, PyObject*) override {}
  bool advances(PyObject* iterator) override;
  void advanced(PyObject*, PyObject*) override { check(); }
  bool spreads(PyObject* iterable, PyObject* intoOrNull) override;
  bool matches(PyObject* subject, PyObject* classOrNull, PyObject* names) override;
  bool imports(PyObject* name, PyObject* fromlist, PyObject* level) override;
  void imported(PyObject*, PyObject*) override {}
  bool importsFrom(PyObject* module, PyObject* name) override;
  void importedFrom(PyObject*, PyObject*, PyObject*) override {}
  bool raises(PyObject* exceptionOrNull, PyObject* causeOrNull) override;
  bool catches(PyObject* exception, PyObject* classes) override;
  void constant(PyObject* object) override { identified_.insert(object); }
  void unseen(watch::Unseen why) override;
  void failed(const char* what) override;
  void refused() override {
    if (abandoned_) stop(*abandoned_);
  }
  bool abandons() override { return refusals_ > kMostRefusals; }

 private:
  friend class Subject;

  // --- places ---
  // The object itself, wherever it is found.
  uint32_t fixed(PyObject* object);
  void noteFixed(PyObject* object);
  // What was found in a place of an outside object.
  uint32_t read(GuardOp op, uint32_t parent, PyObject* key, int64_t number, PyObject* object);
  // An object that is data: an input of the graph, not compared. False: it is none.
  bool readData(GuardOp op, uint32_t place, PyObject* object);
  void describe(uint32_t place, PyObject* object);
  void checkIs(GuardOp op, uint32_t place, PyObject* object, int64_t number = 0) {
    provenance_.check(op, place, object, number);
  }
  PyObject* keep(Ref object) { return provenance_.keep(std::move(object)); }
  void pin(PyObject* object) { provenance_.pin(object); }
  bool written(PyObject* owner, PyObject* key) const { return effects_.written(owner, key); }
  // Is it a class, a function, a module, of which the recording relies on which one it is?
  bool named(PyObject* object);
  // A fresh function is relied on: its code, what it sees, its defaults and the cells of its closure.
  void guardFresh(PyObject* function);
  // A fresh function is handed on as it is: nothing is relied on.
  void handOn(PyObject* function) { handedOn_.insert(function); }
  // An attribute of a class, looked up along its bases.
  PyObject* lookUp(PyTypeObject* type, PyObject* name);
  // Whether it is one of the others that were told apart decides something; so for what is inside of a container: it
  // is compared, or becomes a key.
  void tellApart(PyObject* object, int depth = 0);
  // Would writing this element succeed? Where it would not, the program is told, and nothing is done again.
  bool writable(PyObject* container, PyObject* key, PyObject* valueOrNull) const;

  // --- containers ---
  // What a read-only view shows; anything else is itself.
  PyObject* behindProxy(PyObject* object);
  bool isContainer(PyObject* object) const;
  // All elements of an outside container are read; `deep`: and theirs.
  bool realize(PyObject* object, bool deep, int depth = 0);
  void realizeElements(PyObject* object, uint32_t place);
  bool realizeOnce(PyObject* object, uint32_t place);
  // What has lost its place is read again.
  void forgetRealized();
  bool length(PyObject* object);
  bool lookup(PyObject* container, PyObject* key);
  bool beforeWrite(PyObject* container);
  // A default value entered a dict when its key was looked up.
  void entered(PyObject* dict, PyObject* key, PyObject* value);

  // --- calls ---
  bool behaves(Behaviour behaviour, PyObject* callable, const std::vector<PyObject*>& args, PyObject* names);
  // The same where a call behaves in a way that only C code of some kind has.
  bool makes(PyTypeObject* owner, const std::vector<PyObject*>& args);
  bool callsType(PyTypeObject* type, const std::vector<PyObject*>& args, PyObject* names);
  bool getsAttributes(PyObject* getter, PyObject* object);
  bool callsMethod(PyObject* caller, PyObject* object);
  void gave(PyObject* callable, PyObject* result, size_t arguments);
  bool callsKnown(PyObject* callable, const watch::Arguments& arguments);
  bool mayHandData(PyObject* function, const std::vector<PyObject*>& args);
  bool callsObject(PyObject* callable, std::vector<PyObject*> args, const watch::Arguments& arguments);
  // In place of functions of PyTorch's that call the program's from below; nullptr: as it is.
  PyObject* insteadOf(PyObject* callable);
  // A getset descriptor is called by its __get__ or __set__. No answer: this is no such call.
  std::optional<bool> callsDescriptor(PyObject* callable, const std::vector<PyObject*>& args);
  // A function that stands for torch.tensor or torch.as_tensor. No answer: `callable` is something else.
  std::optional<bool> makesTensor(PyObject* callable, const watch::Arguments& arguments);
  // One that stands for these, or for isinstance, type, int or float; likewise.
  std::optional<bool> callsStandIn(PyObject* callable, const watch::Arguments& arguments);
  bool mutates(PyObject* callable, const std::vector<PyObject*>& args, PyObject* names);
  bool effect(PyObject* callable, const std::vector<PyObject*>& args, PyObject* names = nullptr);

  // --- attributes ---
  // An attribute of a threading.local, which lies in a dict of the thread's.
  bool localAttribute(PyObject* local, PyObject* name);
  bool localWrite(PyObject* local, PyObject* name, PyObject* valueOrNull);
  // `plain`: by object.__getattribute__ itself, whatever the class says.
  bool attribute(PyObject* owner, PyObject* name, bool plain = false);
  bool moduleAttribute(PyObject* module, PyObject* name);
  // object.__setattr__ and object.__delattr__.
  bool plainWrite(PyObject* owner, PyObject* name, PyObject* valueOrNull);
  bool classAttribute(PyTypeObject* type, PyObject* name);
  bool classWrite(PyObject* type, PyObject* name, PyObject* valueOrNull);
  bool superAttribute(PyObject* object, PyObject* name);
  bool descriptorRead(PyObject* owner, PyObject* name, PyObject* descriptor, uint32_t place);
  // Does the type define this operator in Python, or is it C code that is known?
  bool slotIsKnown(PyObject* object, const char* const* names);
  bool operand(PyObject* object, bool deep);
  void check();
  Stop stopAt(Stop why) const;
  // The program is about to do this; what it calls is named by what lives as long as the process.
  void does(const char* what) { doing_ = what, doingCall_ = nullptr; }
  void doesCall(PyObject* callable);
  std::string doing() const;

  // --- what C code reads of objects, besides what containers hold ---
  // Operators and builtin functions look special methods up on the type: each that there may be, or its absence.
  void guardSpecials(PyTypeObject* type);
  // The order in which the bases of a class are looked through, and which they are.
  void guardOrder(PyTypeObject* type);
  // isinstance and issubclass: is `object`, or the class that it is, one of `kinds`?
  bool belongs(PyObject* object, PyObject* kinds, bool isClass, int depth = 0);
  // The text of an object is made: what it shows.
  bool tells(PyObject* object, int depth = 0);
  bool exceptionPart(PyObject* exception, PyObject* name, uint32_t place);
  // A C attribute of a class: its name, bases, documentation.
  bool classPart(PyTypeObject* type, PyObject* name, PyObject* descriptor);
  void checkGives(PyObject* descriptor, PyObject* owner, uint32_t place);

  tracing::Tape& tape_;
  const Operations& operations_;
  Provenance provenance_;
  Effects effects_;
  std::unique_ptr<Subjects> subjects_;
  std::unordered_map<PyObject*, const StandIn*> standIns_;
  std::unordered_map<PyObject*, uint32_t> numbers_;  // stand-ins that are symbols
  Skipped skipped_;
  std::unordered_set<PyObject*> madeFunctions_, realized_, entered_, handedOn_;
  PyObject* calling_ = nullptr;               // what the program calls, where it is called through something else
  std::pair<PyObject*, PyObject*> entering_;  // a dict and a key that a default value may enter
  std::unordered_set<PyObject*> identified_;  // numbers and strings that `is` found to be one object
  std::unordered_set<PyTypeObject*> specials_, orders_;
  Ref handled_;  // the exception that the caller handles
  std::optional<Stop> stopped_, abandoned_;
  static constexpr size_t kMostRefusals = 100;  // of a call that catches everything, and tries again
  size_t refusals_ = 0;
  size_t frames_ = 0;
  int contextSets_ = 0;
  bool begun_ = false;  // a subject waits for the end of something
  bool raising_;
  bool speculative_;
  const Doubles* doubles_;
  bool scalarsAreData_;
  bool writesClasses_ = false;
  bool metScalars_ = false;
  PyObject* hiding_ = nullptr;       // a call whose inside is not recorded
  bool hidesUsers_ = false;          // it is code of the user's
  const char* doing_ = "";           // what the program does, where an operator alone does not tell: static text
  const char* doingCall_ = nullptr;  // the name of a function of C
  bool doesMethod_ = false;          // it is a method of a tensor
  std::optional<tracing::TapeScope> untaped_;
};

// Is this the function that emits a log record again?
bool isEmission(PyObject* callable);
// Is this a function under functools.lru_cache?
bool isCached(PyObject* callable);

// Of a call of C code that the table of operations does not know.
Stop unknownCall(PyObject* callable);

// Sets the error that a call which must be captured whole ends with.
void raiseStop(const Stop& stop);

}  // namespace saker::frontend
