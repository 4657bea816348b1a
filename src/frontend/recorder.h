// Watches a call and writes down what it relies on and what it does: reads of outside objects become guards, writes to
// them become effects. What it does to tensors is on the tape.
//
// Objects are told apart by identity. One that has a place is from outside: it was there before the call, and a load
// leads to it. One that has none was made inside; it needs no guards, and is made again if it escapes.
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "capture/reasons.h"
#include "capture/tape.h"
#include "frontend/ambient.h"
#include "frontend/doubles.h"
#include "frontend/guards.h"
#include "frontend/host_call.h"
#include "frontend/operations.h"
#include "frontend/skipped.h"
#include "watch/observer.h"

namespace saker::frontend {

inline constexpr uint32_t kInside = ~0u;

// A call of C code that is done again: list.append(l, x), object.__setattr__(o, "n", v), print("..."). Without a
// callable, a write to a cell.
struct Effect {
  Ref callable;
  std::vector<Ref> arguments;
  Ref names;           // of keyword arguments, or nothing
  bool early = false;  // before the operators: it changes how they see a tensor
  bool inner = false;  // it changes what the call made: where the call fails, nobody sees it
  bool hook = false;   // it puts a hook where an operator has registered a stand-in
};

// An argument, or something in one, that is given as a stand-in of symbolic sizes, and what it stands for. A number
// that is a symbol is the size of a tensor without elements.
struct StandIn {
  size_t index;  // among the values of the call
  Path path;
  at::Tensor real;
  std::vector<size_t> dims;
  bool number = false;
  Ref given;
};

// An array or scalar of numpy's that the call found or made, as a tensor over its memory; or a float that is data.
struct Array {
  at::Tensor tensor;
  bool scalar;
  bool readOnly;
  bool isFloat = false;
};

// What the call did with a generator of Python's random numbers. It is done again before the graph runs, in order: a
// float is an input of the graph then, everything else must come out the same.
struct Draw {
  Ref method;                  // of C, unbound; none: a generator is made, of the class that is the first argument
  uint32_t generator = ~0u;    // its place
  std::vector<Ref> arguments;  // numbers, strings, states
  Ref expected;                // what comes back, unless it is a float
  uint32_t place = ~0u;        // of a float, or of the generator that is made
};

// A question to C code that the call asked, and the answer: a flag of PyTorch's, the limit of recursion, whether a
// tensor is a view. It is asked again before a replay.
struct Asked {
  Ref function, arguments, answer;
  std::vector<uint32_t> places;  // by argument: where it is found; kInside: it is the one in `arguments`
};

// A class that the call made by collections.namedtuple: what it is made of again.
struct NamedClass {
  Ref function, arguments, keywords;
};

class Recorder final : public watch::Observer {
 public:
  // With `raising`, what stops the recording raises: a CaptureError, or, with stand-ins, whatever unwinds the call.
  // A call with stand-ins runs nothing: it is undone by forgetting it, so it must change nothing outside but doubles,
  // or what can be put back. `scalarsAreData`: numbers of numpy's that are arguments are inputs of the graph, not
  // compared.
  Recorder(tracing::Tape& tape, PyObject* callable, const CallArguments& call, bool raising = false,
           std::span<const StandIn> standIns = {}, bool scalarsAreData = false, const Doubles* doubles = nullptr);
  ~Recorder() override { undo(); }

  const std::optional<Stop>& stopped() const { return stopped_; }
  // With stand-ins: the recording is of no use. It goes on until the call is unwound, so that nothing is changed then.
  const std::optional<Stop>& abandoned() const { return abandoned_; }
  Guards takeGuards() { return std::move(guards_); }
  Guards& guards() { return guards_; }
  const std::vector<Effect>& effects() const { return effects_; }
  const std::vector<Draw>& draws() const { return draws_; }
  const std::vector<Asked>& asked() const { return asked_; }
  const std::vector<Ref>& lockedOutside() const { return locks_; }
  // kInside: made during the call.
  uint32_t placeOf(PyObject* object) const;
  uint32_t placeOfTensor(const at::Tensor& tensor) const;
  // Of an argument that is a symbol: it counts as made inside, but is found where the number is.
  uint32_t placeOfNumber(PyObject* symbol) const {
    auto found = numbers_.find(symbol);
    return found == numbers_.end() ? kInside : found->second;
  }
  bool madeHere(PyObject* function) const { return madeFunctions_.contains(function); }
  const std::vector<PyObject*>& objects() const { return objects_; }
  // nullptr: it is none.
  const Array* arrayOf(PyObject* object) const {
    auto found = arrays_.find(object);
    return found == arrays_.end() ? nullptr : &found->second;
  }
  // Of a generator of random numbers that the call made; kInside: it is none.
  uint32_t placeOfGenerator(PyObject* object) const {
    auto found = generators_.find(object);
    return found == generators_.end() ? kInside : found->second;
  }
  // The exception that the caller of the call handles, or nullptr: what is raised inside has it as its context.
  PyObject* handled() const { return handled_.get(); }
  // The number of a handle, where it removes a hook that the call has registered on a tensor.
  std::optional<uint32_t> handleOf(PyObject* object) const {
    auto found = handles_.find(object);
    return found == handles_.end() ? std::nullopt : std::optional(found->second);
  }
  size_t handleCount() const { return handles_.size(); }
  size_t frames() const { return frames_; }
  // Were there arguments that are numbers of numpy's, as data?
  bool metScalars() const { return metScalars_; }
  bool balanced() const { return contextSets_ == 0; }
  bool holdsLocks() const {
    return std::any_of(held_.begin(), held_.end(), [](const auto& each) { return each.second != 0; });
  }
  // The call is over: the function modes that it leaves, where they are others than it was called with.
  std::optional<std::vector<Ref>> leftModes() const;
  // Was a class made by the call?
  bool madeClass(PyObject* type) const { return madeClasses_.contains(type); }
  // nullptr: the class was not made by collections.namedtuple, or was changed since.
  const NamedClass* namedClass(PyObject* type) const {
    auto found = namedClasses_.find(type);
    return found == namedClasses_.end() ? nullptr : &found->second;
  }
  // Was this torch.nn.Parameter made by the call, so that the graph makes it again?
  bool madeParameter(PyObject* tensor) const { return parameters_.contains(tensor); }
  // Has the call taken something from an iterator that was there before it?
  bool consumes() const { return !consumed_.empty(); }
  // The call is over, and has changed the grad mode, and nothing else around it: that is done again.
  bool leavesGradMode(const Ambient& before);
  // The call is over: guards that only the whole of it tells. Nothing, or why it cannot be done again.
  std::optional<Stop> seal();
  // How far the call has come, and what may not have happened in a part of it that is done again elsewhere.
  struct Mark {
    size_t effects, draws, flags, operators, hooks;
  };
  Mark mark() const { return {effects_.size(), draws_.size(), flagSets_, tape_.operators(), handles_.size()}; }
  bool changedSince(const Mark& mark) const;
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
  void binaryDone(watch::Binary, bool, PyObject*, PyObject*, PyObject* result) override {
    if (hosted_) hosted(result);
    took();
    check();
  }
  bool compares(int op, PyObject* left, PyObject* right) override;
  bool contains(PyObject* container, PyObject* item) override;
  void unaryDone(watch::Unary, PyObject*, PyObject* result) override {
    if (hosted_) hosted(result);
  }
  void compared(PyObject*, PyObject*, PyObject* result) override {
    if (hosted_) hosted(result);
  }
  bool identifies(PyObject* left, PyObject* right) override;
  bool keys(PyObject* key) override;
  bool formats(PyObject* value, int conversion, PyObject* specOrNull) override;
  bool readsItem(PyObject* container, PyObject* key) override;
  void readItem(PyObject* container, PyObject* key, PyObject* value) override {
    if (hosted_) hosted(value);
    if (std::exchange(entering_, {}) == std::pair(container, key)) entered(container, key, value);
    check();
  }
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
  void unseen(watch::Unseen why) override;
  void refused() override {
    if (abandoned_) stop(*abandoned_);
  }
  bool abandons() override { return refusals_ > kMostRefusals; }

 private:
  // --- places ---
  uint32_t load(Op op, uint32_t parent, PyObject* key, int64_t number, PyObject* object);
  void checkIs(Op op, uint32_t place, PyObject* object, int64_t number = 0);
  // The object itself, wherever it is found.
  uint32_t fixed(PyObject* object);
  void noteFixed(PyObject* object);
  // What was found in a place of an outside object.
  uint32_t read(Op op, uint32_t parent, PyObject* key, int64_t number, PyObject* object);
  void describe(uint32_t place, PyObject* object);
  bool written(PyObject* owner, PyObject* key) const { return written_.contains({owner, key}); }
  // Has the call written this attribute of a class, or of a base of it?
  bool writtenAlong(PyTypeObject* type, PyObject* name) const;
  // An attribute of a class, looked up along its bases.
  PyObject* lookUp(PyTypeObject* type, PyObject* name);
  // Which object this is decides something: it must be this very one.
  void pin(PyObject* object);
  // Whether it is one of the others that were told apart decides something.
  void distinguish(PyObject* object);
  // The same, and for what is inside of a container: it is compared, or becomes a key.
  void tellApart(PyObject* object, int depth = 0);
  // What a dict held before the call changed it, if it did.
  PyObject* dictBefore(PyObject* dict) const;
  // Would writing this element succeed? Where it would not, the program is told, and nothing is done again.
  bool writable(PyObject* container, PyObject* key, PyObject* valueOrNull) const;

  // --- containers ---
  // What a read-only view shows; anything else is itself.
  PyObject* behindProxy(PyObject* object);
  bool isContainer(PyObject* object) const;
  // All elements of an outside container are read; `deep`: and theirs.
  bool realize(PyObject* object, bool deep, int depth = 0);
  void realizeElements(PyObject* object, uint32_t place);
  bool length(PyObject* object);
  bool lookup(PyObject* container, PyObject* key);
  bool beforeWrite(PyObject* container);
  // A default value entered a dict when its key was looked up.
  void entered(PyObject* dict, PyObject* key, PyObject* value);

  // --- calls ---
  bool behaves(Behaviour behaviour, PyObject* callable, const std::vector<PyObject*>& args, PyObject* names);
  bool makes(PyTypeObject* owner, const std::vector<PyObject*>& args);
  bool callsType(PyTypeObject* type, const std::vector<PyObject*>& args, PyObject* names);
  bool getsAttributes(PyObject* getter, PyObject* object);
  bool callsMethod(PyObject* caller, PyObject* object);
  void gave(PyObject* callable, PyObject* result, size_t arguments);
  bool callsKnown(PyObject* callable, const watch::Arguments& arguments);
  bool prints(PyObject* callable, std::vector<PyObject*> args, PyObject* names);
  bool locks(PyObject* lock, const std::string& method);
  // A function mode is asked by every operator from now on.
  bool meetsMode(PyObject* mode);
  // --- what surrounds operators ---
  bool asks(PyObject* callable, const std::vector<PyObject*>& args);
  bool setsFlag(PyObject* callable, const std::vector<PyObject*>& args, PyObject* names);
  bool packsSaved(const std::vector<PyObject*>& hooks);
  // In place of functions of PyTorch's that call the program's from below; nullptr: as it is.
  PyObject* insteadOf(PyObject* callable);
  // A getset descriptor is called by its __get__ or __set__. No answer: this is no such call.
  std::optional<bool> callsDescriptor(PyObject* callable, const std::vector<PyObject*>& args);
  // An attribute of a threading.local, which lies in a dict of the thread's.
  bool localAttribute(PyObject* local, PyObject* name);
  bool localWrite(PyObject* local, PyObject* name, PyObject* valueOrNull);
  bool takesGradients(const std::vector<PyObject*>& args, PyObject* names);
  bool mutates(PyObject* callable, const std::vector<PyObject*>& args, PyObject* names);
  // `plain`: by object.__getattribute__ itself, whatever the class says.
  bool attribute(PyObject* owner, PyObject* name, bool plain = false);
  // object.__setattr__ and object.__delattr__.
  bool plainWrite(PyObject* owner, PyObject* name, PyObject* valueOrNull);
  bool classAttribute(PyTypeObject* type, PyObject* name);
  bool classWrite(PyObject* type, PyObject* name, PyObject* valueOrNull);
  bool superAttribute(PyObject* object, PyObject* name);
  bool descriptorRead(PyObject* owner, PyObject* name, PyObject* descriptor, uint32_t place);
  bool effect(PyObject* callable, const std::vector<PyObject*>& args, PyObject* names = nullptr);
  bool undoes(PyObject* callable, const std::vector<PyObject*>& args);
  void undo();
  // requires_grad of a tensor is set.
  bool setsRequiresGrad(PyObject* tensor, PyObject* flag);
  bool makesLeaf(PyObject* tensor, PyObject* flag);
  // Forgets effects of calls that raised. False: one may have done a part of what it does.
  bool dropFailed();
  // Does the type define this operator in Python, or is it C code that is known?
  bool slotIsKnown(PyObject* object, const char* const* names);
  bool operand(PyObject* object, bool deep);
  void check();
  Stop stopAt(Stop why) const;

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
  bool asksForException(PyObject* callable);

  // --- functools.lru_cache ---
  bool callsCached(PyObject* callable, const std::vector<PyObject*>& args, PyObject* names);
  void cached(PyObject* result);

  // --- numbers that are symbols, in a call with stand-ins ---
  // Would an operation see this symbol for what it is? Then the recording ends. nullptr: it sees none.
  bool shows(PyObject* symbol, const char* how);
  bool showsInCall(Behaviour behaviour, PyObject* callable, const std::vector<PyObject*>& args);
  // A function that stands for isinstance, type, int or float; no answer: `callable` is something else.
  std::optional<bool> callsStandIn(PyObject* callable, const watch::Arguments& arguments);

  // --- what a call with stand-ins may not do, since nothing takes it back ---
  bool mayMake(PyTypeObject* type);
  bool mayCall(Behaviour behaviour, PyObject* callable, const std::vector<PyObject*>& args);
  bool mayAskCache(PyObject* cached, const std::vector<PyObject*>& args, PyObject* names);
  bool mayImport(PyObject* name, PyObject* fromlist, PyObject* level);

  // --- warnings ---
  bool warns(PyObject* callable, const std::vector<PyObject*>& args, PyObject* names);
  bool guardFilters();
  void rememberCaller();

  // --- random numbers of Python's, and the seed of PyTorch's ---
  std::optional<bool> callsRandom(PyObject* callable, const std::vector<PyObject*>& args);
  std::optional<bool> makesGenerator(PyTypeObject* type, const std::vector<PyObject*>& args);
  // Of any that is used: one that was not there before is being made.
  uint32_t generatorPlace(PyObject* generator);
  void drew(PyObject* result);
  // Is this one of PyTorch's functions on the state of its generator? Its inside is not recorded, but an operator.
  bool changesSeed(PyObject* function, const watch::Arguments& arguments);
  void changedSeed(PyObject* result);
  // A tensor and a number that is data meet in an operator.
  std::optional<bool> meets(watch::Binary op, PyObject* left, PyObject* right);
  bool expects(const Array& data);
  void took() {
    if (std::exchange(expects_, false) && !tape_.took()) tape_.spoil(Why::UsesData);
  }

  // --- parameters and named tuples that the call makes ---
  // Is this torch.Tensor._make_subclass for a class of parameters? No answer: it is another call.
  std::optional<bool> makesParameter(PyObject* callable, const std::vector<PyObject*>& args, PyObject* names);
  void becomesParameter(PyObject* tensor);
  // Is this collections.namedtuple with arguments that can be given again? Its inside is not recorded then.
  bool makesNamedTuple(PyObject* function, const watch::Arguments& arguments);
  void namedTuple(PyObject* type);

  // --- iterators that were made before the call ---
  // The call is about to take something from one: what it will read is guarded.
  bool consumes(PyObject* iterator);
  bool consumesGenerator(PyObject* generator, uint32_t place);
  bool consumesBuiltin(PyObject* iterator, uint32_t place);
  // The call is over: how it leaves them is done again. Nothing, or why that cannot be.
  std::optional<Stop> leaveIterators();

  // The storage of a tensor, and how many bytes it has. No answer: it is another call.
  std::optional<bool> callsStorage(PyObject* callable, const std::vector<PyObject*>& args);

  // Logger._log, bound to a logger: the record is emitted again by a replay. Its inside is not recorded.
  bool emits(PyObject* method, const watch::Arguments& arguments);
  class Handlers;  // those that a record reaches

  // Is this the call that initialises a lazy module? It is not recorded.
  bool initialises(PyObject* function, const watch::Arguments& arguments);
  void initialised(PyObject* module);

  // --- numpy; what is no business of it has no answer ---
  std::optional<bool> callsNumpy(PyObject* callable, const std::vector<PyObject*>& args, PyObject* names);
  std::optional<bool> arrayAttribute(PyObject* owner, PyObject* name);
  std::optional<bool> arrayOperator(watch::Binary op, bool inplace, PyObject* left, PyObject* right);
  std::optional<bool> arrayUnary(watch::Unary op, PyObject* operand);
  std::optional<bool> arrayComparison(int op, PyObject* left, PyObject* right);
  std::optional<bool> arrayItem(PyObject* array, PyObject* key, PyObject* valueOrNull, bool writes);
  bool holdsArrays(PyObject* object, int depth = 0) const;
  // A key, an index, an element that is looked for: is it data? Then the recording ends.
  bool findsByData(PyObject* key);
  void foundArray(uint32_t place, PyObject* object);
  // `asIs`: an object from outside that is no value is given as it is, and must be this very one.
  std::optional<HostPart> hostPart(PyObject* object, std::vector<at::Tensor>& tensors, bool asIs = false);
  // A call of the host begins; hosted() has what it gave.
  bool hosts(PyObject* callable, const std::vector<PyObject*>& args, PyObject* names, bool asIs = false);
  void hosted(PyObject* result);

  // --- tensors made of others ---
  bool doesEffectsFirst();
  std::optional<bool> wraps(PyObject* callable, const std::vector<PyObject*>& args, PyObject* names);
  // An attribute of one that was made here.
  std::optional<bool> wrappedAttribute(PyObject* owner, PyObject* name);
  // What one from outside is made of.
  void foundWrapper(uint32_t place, PyObject* object);

  // --- the node of a torch.autograd.Function, which the call was given ---
  std::optional<bool> nodeAttribute(PyObject* owner, PyObject* name, PyObject* descriptor, uint32_t place);
  void readSaved(PyObject* node, PyObject* saved);

  // --- hooks on the backward of modules ---
  // Is this the part of a module's call that sets them?
  bool setsHooks(PyObject* function, const watch::Arguments& arguments);
  // Or the function that registers one on a tensor?
  bool registersHook(PyObject* function, const watch::Arguments& arguments);
  // Or the one that removes such a one?
  bool removesHook(PyObject* function, const watch::Arguments& arguments);
  void setHooks(PyObject* result);
  void registered(PyObject* handle);
  // Where the call takes gradients itself: the tensors it was given have no hooks. Nothing, or why it cannot be done.
  std::optional<Stop> guardHooks();
  std::optional<HostPart> pinned(PyObject* object);
  HostPart tensorsOf(PyObject* values, std::vector<at::Tensor>& tensors);

  tracing::Tape& tape_;
  const Operations& operations_;
  Guards guards_;
  std::vector<PyObject*> objects_;  // by place, borrowed
  std::vector<Ref> kept_;           // outside objects keep their addresses while the table stands
  std::unordered_map<PyObject*, uint32_t> places_;
  std::unordered_map<PyObject*, const StandIn*> standIns_;
  std::unordered_map<PyObject*, uint32_t> numbers_;  // stand-ins that are symbols
  std::unordered_map<const c10::TensorImpl*, uint32_t> tensors_;
  std::unordered_map<uint64_t, uint32_t> reads_;  // by parent, step and key
  std::unordered_map<PyTypeObject*, size_t> types_;
  std::unordered_set<uint64_t> lookups_;
  Skipped skipped_;
  std::unordered_set<PyObject*> leaves_;  // tensors that the call made leaves
  std::unordered_set<PyObject*> parameters_;
  std::optional<NamedClass> naming_;  // a call of collections.namedtuple
  std::unordered_map<PyObject*, NamedClass> namedClasses_;
  struct Consumed {
    Ref iterator;
    std::vector<PyObject*> held;  // by slot of a builtin iterator: what was there
  };
  std::vector<Consumed> consumed_;
  std::unordered_set<PyObject*> consuming_;
  std::unordered_multiset<PyObject*> generatorFunctions_;  // of generators from outside, until their body is entered
  std::unordered_set<PyObject*> madeFunctions_, madeClasses_, realized_, entered_;
  // Calls of C code that change outside objects, until they have succeeded.
  struct Pending {
    PyObject* callable;
    size_t effect;      // of a change
    Py_ssize_t length;  // of the list that an iterator extends; -1: none does
  };
  std::vector<Pending> pending_;
  PyObject* calling_ = nullptr;  // what the program calls, where it is called through something else
  std::set<std::pair<PyObject*, PyObject*>> written_;
  std::set<std::pair<uint32_t, PyObject*>> absent_;  // attributes that an object lacks
  std::unordered_map<PyObject*, Ref> before_;        // containers that were written: as they were
  std::pair<PyObject*, PyObject*> entering_;         // a dict and a key that a default value may enter
  std::vector<uint32_t> distinct_;
  std::unordered_set<PyObject*> identified_;  // numbers and strings that `is` found to be one object
  struct Hosted {
    c10::intrusive_ptr<HostCall> call;
    std::vector<at::Tensor> tensors;
  };
  std::optional<Hosted> hosted_;
  struct Hooking {
    Ref hook, given;  // without a hook: one is registered on a tensor, or removed
    c10::intrusive_ptr<HostCall> call;
    std::vector<at::Tensor> tensors;
    bool registers = false;
    Ref put = {};  // the hook that is registered, where a replay has to make or find it
  };
  std::optional<Hooking> hooking_;
  std::unordered_map<PyObject*, at::Tensor> hookTokens_;
  std::unordered_map<PyObject*, uint32_t> handles_;
  bool hooksOutside_ = false;    // a hook was registered on a tensor from outside
  bool takesGradients_ = false;  // the call takes gradients itself
  Ref caller_;                   // the frame that made the call
  std::vector<Ref> modes_;       // of functions, around the call
  std::vector<Asked> asked_;
  std::set<std::string> setFlags_;
  size_t flagSets_ = 0;
  struct CachedCall {
    Ref callable, names;
    std::vector<Ref> arguments;
  };
  std::optional<CachedCall> caching_;
  std::vector<Ref> locks_;  // from outside, that the call takes
  std::unordered_map<PyObject*, int> held_;
  Ref handled_;  // the exception that the caller handles
  std::unordered_set<PyTypeObject*> specials_, orders_;
  std::optional<Draw> drawing_;
  std::vector<Draw> draws_;
  std::vector<std::vector<Ref>> making_;  // classes of generators that are called, and their arguments
  std::unordered_map<PyObject*, uint32_t> generators_;
  enum class SeedCall : uint8_t { None, Seed, GetState, SetState };
  SeedCall seedCall_ = SeedCall::None;
  Ref seed_;              // or state, that is set
  bool expects_ = false;  // an operator that is to take a number
  std::unordered_map<PyObject*, Array> arrays_;
  std::vector<Effect> effects_;
  std::optional<Stop> stopped_, abandoned_;
  static constexpr size_t kMostRefusals = 100;  // of a call that catches everything, and tries again
  size_t refusals_ = 0;
  size_t frames_ = 0;
  int contextSets_ = 0;
  bool raising_;
  bool speculative_;
  const Doubles* doubles_;
  struct Undo {
    Ref dict, key, before;
  };
  std::vector<Undo> undo_;
  bool scalarsAreData_;
  bool writesClasses_ = false;
  bool metScalars_ = false;
  PyObject* initialising_ = nullptr;
  PyObject* hiding_ = nullptr;  // a call whose inside is not recorded
  std::optional<tracing::TapeScope> untaped_;
};

// Is this torch.Tensor._make_subclass?
bool makesSubclass(PyObject* callable);
// Is this Logger._log? Or the function that emits a record again?
bool isLogCall(PyObject* function);
bool isEmission(PyObject* callable);

// Asks, with `found` by place. Nothing where that raises; no error is left set.
Ref askAgain(const Asked& asked, const std::vector<PyObject*>& found);
// Equal numbers and texts, the same classes and functions, or lists and tuples of such.
bool sameAnswer(PyObject* left, PyObject* right);

// Of a call of C code that the table of operations does not know.
Stop unknownCall(PyObject* callable);

// Sets the error that a call which must be captured whole ends with.
void raiseStop(const Stop& stop);

// What kind of object this is to a guard.
bool isAtom(PyObject* object);   // a number, a string: its value is all there is
bool isNamed(PyObject* object);  // a class, a function, a module: which one it is is all there is

}  // namespace saker::frontend
