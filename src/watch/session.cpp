#include "watch/session.h"

#include <pthread.h>

#include "watch/hook.h"
#include "watch/loop.h"
#include "watch/machine.h"
#include "watch/nested.h"

namespace saker::watch {

namespace {

// Hears nothing and refuses everything: what a stopped session has instead of its observer, so that no instruction has
// to ask whether it is still watched.
class Deaf final : public Observer {
 public:
  bool enters(PyObject*, PyCodeObject*) override { return false; }
  void left(PyCodeObject*, PyObject*) override {}
  bool resumes(PyCodeObject*) override { return false; }
  void madeFunction(PyObject*) override {}
  bool readsGlobal(PyObject*, PyObject*, PyObject*, PyObject*) override { return false; }
  bool writesGlobal(PyObject*, PyObject*, PyObject*) override { return false; }
  bool readsCell(PyObject*, PyObject*) override { return false; }
  bool writesCell(PyObject*, PyObject*) override { return false; }
  bool readsName(PyObject*, PyObject*, PyObject*, PyObject*) override { return false; }
  bool readsAttribute(PyObject*, PyObject*) override { return false; }
  void readAttribute(PyObject*, PyObject*, PyObject*) override {}
  bool writesAttribute(PyObject*, PyObject*, PyObject*) override { return false; }
  bool readsSpecial(PyObject*, PyObject*) override { return false; }
  bool calls(PyObject*, const Arguments&) override { return false; }
  void called(PyObject*, const Arguments&, PyObject*) override {}
  bool callsSpread(PyObject*, PyObject*, PyObject*) override { return false; }
  void calledSpread(PyObject*, PyObject*, PyObject*, PyObject*) override {}
  bool unary(Unary, PyObject*) override { return false; }
  bool binary(Binary, bool, PyObject*, PyObject*) override { return false; }
  void binaryDone(Binary, bool, PyObject*, PyObject*, PyObject*) override {}
  bool compares(int, PyObject*, PyObject*) override { return false; }
  bool contains(PyObject*, PyObject*) override { return false; }
  bool formats(PyObject*, int, PyObject*) override { return false; }
  bool readsItem(PyObject*, PyObject*) override { return false; }
  void readItem(PyObject*, PyObject*, PyObject*) override {}
  bool writesItem(PyObject*, PyObject*, PyObject*) override { return false; }
  bool iterates(PyObject*) override { return false; }
  void iterated(PyObject*, PyObject*) override {}
  bool advances(PyObject*) override { return false; }
  void advanced(PyObject*, PyObject*) override {}
  bool spreads(PyObject*, PyObject*) override { return false; }
  bool matches(PyObject*, PyObject*, PyObject*) override { return false; }
  bool imports(PyObject*, PyObject*, PyObject*) override { return false; }
  void imported(PyObject*, PyObject*) override {}
  bool importsFrom(PyObject*, PyObject*) override { return false; }
  void importedFrom(PyObject*, PyObject*, PyObject*) override {}
  bool raises(PyObject*, PyObject*) override { return false; }
  bool catches(PyObject*, PyObject*) override { return false; }
  void unseen(Unseen) override {}
};

Observer& deaf() {
  static Deaf observer;
  return observer;
}

// C stack that must be left for what runs below a frame.
constexpr size_t spareStack = size_t{256} << 10;

// Where this thread's C stack ends, with something to spare.
const char* stackLimit() {
  static thread_local const char* const limit = [] {
    pthread_attr_t attributes;
    void* lowest = nullptr;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
      pthread_attr_getstack(&attributes, &lowest, &size);
      pthread_attr_destroy(&attributes);
    }
    return static_cast<const char*>(lowest) + spareStack;
  }();
  return limit;
}

// For the time of a watched call.
class Scope {
 public:
  explicit Scope(Session& session) : session_(session), before_(currentSession()) {
    currentSession() = &session;
    useHook();
    session.hooked = true;
  }
  ~Scope() {
    currentSession() = before_;
    if (session_.hooked) releaseHook();
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Session& session_;
  Session* before_;
};

}  // namespace

Session*& currentSession() {
  static thread_local Session* session = nullptr;
  return session;
}

Session*& skippingSession() {
  static thread_local Session* session = nullptr;
  return session;
}

void Session::stop() {
  if (stopped) return;
  stopped = true;
  observer = &deaf();
  hooked = false;
  releaseHook();
}

PyObject* run(Observer& observer, PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* names) {
  Session session(observer);
  session.stackLimit = stackLimit();
  const Scope scope(session);
  return PyObject_Vectorcall(callable, args, nargsf, names);
}

struct Nested::Watched {
  explicit Watched(Observer& observer) : session(observer), scope(session) { session.stackLimit = stackLimit(); }
  Session session;
  Scope scope;
};

Nested::Nested(Observer& observer) : watched_(std::make_unique<Watched>(observer)) {}

Nested::~Nested() = default;

bool watching() {
  const Session* session = currentSession();
  return session != nullptr && !session->stopped;
}

void stop() {
  Session* session = currentSession();
  if (session != nullptr) session->stop();
}

Pause::Pause() : before_(currentSession()) { currentSession() = nullptr; }

Pause::~Pause() { currentSession() = static_cast<Session*>(before_); }

Resume::Resume(const Pause& pause) : before_(currentSession()) {
  currentSession() = static_cast<Session*>(pause.before_);
}

Resume::~Resume() { currentSession() = static_cast<Session*>(before_); }

namespace {

Place placeOf(const Machine& machine) {
  const auto index = static_cast<int>(*machine.frame.position - machine.frame.units);
  return {.code = machine.frame.code, .line = PyCode_Addr2Line(machine.frame.code, 2 * index)};
}

const Machine* innermost() {
  const Session* session = currentSession();
  return session == nullptr ? nullptr : session->innermost;
}

}  // namespace

Place place() {
  const Machine* machine = innermost();
  return machine == nullptr ? Place{} : placeOf(*machine);
}

std::vector<Place> places() {
  std::vector<Place> out;
  for (const Machine* machine = innermost(); machine != nullptr; machine = machine->outer) {
    out.push_back(placeOf(*machine));
  }
  return out;
}

bool supported() { return PY_VERSION_HEX < 0x030d0000; }

}  // namespace saker::watch
