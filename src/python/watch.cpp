#include "python/watch.h"

#include <array>
#include <vector>

#include "watch/loop.h"

namespace saker::python {

namespace {

namespace py = pybind11;
using watch::Arguments;
using watch::Binary;
using watch::Unary;

// Every event that an observer is told, in the order of the names below.
enum Event : uint8_t {
  Enters,
  Left,
  Suspended,
  Resumes,
  MadeFunction,
  ReadsGlobal,
  WritesGlobal,
  ReadsCell,
  WritesCell,
  ReadsName,
  ReadsAttribute,
  ReadAttribute,
  WritesAttribute,
  ReadsSpecial,
  Calls,
  Called,
  CallsSpread,
  CalledSpread,
  UnaryOp,
  BinaryOp,
  BinaryDone,
  Compares,
  Contains,
  Formats,
  ReadsItem,
  ReadItem,
  WritesItem,
  Iterates,
  Iterated,
  Advances,
  Advanced,
  Spreads,
  Matches,
  Imports,
  Imported,
  ImportsFrom,
  ImportedFrom,
  Raises,
  Catches,
  Unseen,
  EventCount
};

constexpr std::array<const char*, EventCount> eventNames = {
    "enters",      "left",         "suspended",   "resumes",        "madeFunction",  "readsGlobal",     "writesGlobal",
    "readsCell",   "writesCell",   "readsName",   "readsAttribute", "readAttribute", "writesAttribute", "readsSpecial",
    "calls",       "called",       "callsSpread", "calledSpread",   "unary",         "binary",          "binaryDone",
    "compares",    "contains",     "formats",     "readsItem",      "readItem",      "writesItem",      "iterates",
    "iterated",    "advances",     "advanced",    "spreads",        "matches",       "imports",         "imported",
    "importsFrom", "importedFrom", "raises",      "catches",        "unseen"};

// Counts events; stops at one of those that may be refused.
class Counter final : public watch::Observer {
 public:
  explicit Counter(int64_t limit, int64_t throwAt = 0) : limit_(limit), throwAt_(throwAt) {}

  py::dict counts() const {
    py::dict result;
    for (size_t i = 0; i < EventCount; ++i) {
      if (counts_[i] != 0) result[eventNames[i]] = counts_[i];
    }
    return result;
  }

  bool enters(PyObject*, PyCodeObject*) override { return ask(Enters); }
  void left(PyCodeObject*, PyObject*) override { tell(Left); }
  void suspended(PyCodeObject*, PyObject*) override { tell(Suspended); }
  bool resumes(PyCodeObject*) override { return ask(Resumes); }
  void madeFunction(PyObject*) override { tell(MadeFunction); }
  bool readsGlobal(PyObject*, PyObject*, PyObject*, PyObject*) override { return ask(ReadsGlobal); }
  bool writesGlobal(PyObject*, PyObject*, PyObject*) override { return ask(WritesGlobal); }
  bool readsCell(PyObject*, PyObject*) override { return ask(ReadsCell); }
  bool writesCell(PyObject*, PyObject*) override { return ask(WritesCell); }
  bool readsName(PyObject*, PyObject*, PyObject*, PyObject*) override { return ask(ReadsName); }
  bool readsAttribute(PyObject*, PyObject*) override { return ask(ReadsAttribute); }
  void readAttribute(PyObject*, PyObject*, PyObject*) override { tell(ReadAttribute); }
  bool writesAttribute(PyObject*, PyObject*, PyObject*) override { return ask(WritesAttribute); }
  bool readsSpecial(PyObject*, PyObject*) override { return ask(ReadsSpecial); }
  bool calls(PyObject*, const Arguments&) override { return ask(Calls); }
  void called(PyObject*, const Arguments&, PyObject*) override { tell(Called); }
  bool callsSpread(PyObject*, PyObject*, PyObject*) override { return ask(CallsSpread); }
  void calledSpread(PyObject*, PyObject*, PyObject*, PyObject*) override { tell(CalledSpread); }
  bool unary(Unary, PyObject*) override { return ask(UnaryOp); }
  bool binary(Binary, bool, PyObject*, PyObject*) override { return ask(BinaryOp); }
  void binaryDone(Binary, bool, PyObject*, PyObject*, PyObject*) override { tell(BinaryDone); }
  bool compares(int, PyObject*, PyObject*) override { return ask(Compares); }
  bool contains(PyObject*, PyObject*) override { return ask(Contains); }
  bool formats(PyObject*, int, PyObject*) override { return ask(Formats); }
  bool readsItem(PyObject*, PyObject*) override { return ask(ReadsItem); }
  void readItem(PyObject*, PyObject*, PyObject*) override { tell(ReadItem); }
  bool writesItem(PyObject*, PyObject*, PyObject*) override { return ask(WritesItem); }
  bool iterates(PyObject*) override { return ask(Iterates); }
  void iterated(PyObject*, PyObject*) override { tell(Iterated); }
  bool advances(PyObject*) override { return ask(Advances); }
  void advanced(PyObject*, PyObject*) override { tell(Advanced); }
  bool spreads(PyObject*, PyObject*) override { return ask(Spreads); }
  bool matches(PyObject*, PyObject*, PyObject*) override { return ask(Matches); }
  bool imports(PyObject*, PyObject*, PyObject*) override { return ask(Imports); }
  void imported(PyObject*, PyObject*) override { tell(Imported); }
  bool importsFrom(PyObject*, PyObject*) override { return ask(ImportsFrom); }
  void importedFrom(PyObject*, PyObject*, PyObject*) override { tell(ImportedFrom); }
  bool raises(PyObject*, PyObject*) override { return ask(Raises); }
  bool catches(PyObject*, PyObject*) override { return ask(Catches); }
  void unseen(saker::watch::Unseen) override { tell(Unseen); }

 private:
  bool ask(Event event) {
    tell(event);
    return ++asked_ != limit_;
  }
  void tell(Event event) {
    ++counts_[event];
    if (++events_ == throwAt_) throw std::runtime_error("asked to throw");
  }

  std::array<int64_t, EventCount> counts_{};
  int64_t asked_ = 0;
  int64_t events_ = 0;
  int64_t limit_;    // stop at this event; 0: never
  int64_t throwAt_;  // the same
};

py::tuple runCounter(Counter counter, const py::object& callable, const py::args& args, const py::kwargs& kwargs) {
  std::vector<PyObject*> values{nullptr};  // a callee may use the place before the arguments
  for (const auto& value : args) values.push_back(value.ptr());
  py::tuple names(kwargs.size());
  size_t count = 0;
  for (const auto& [name, value] : kwargs) {
    names[count++] = name;
    values.push_back(value.ptr());
  }
  PyObject* result = watch::run(counter, callable.ptr(), values.data() + 1,
                                args.size() | PY_VECTORCALL_ARGUMENTS_OFFSET, count == 0 ? nullptr : names.ptr());
  if (result == nullptr) throw py::error_already_set();
  return py::make_tuple(py::reinterpret_steal<py::object>(result), counter.counts());
}

py::tuple runCounted(int64_t limit, const py::object& callable, const py::args& args, const py::kwargs& kwargs) {
  return runCounter(Counter(limit), callable, args, kwargs);
}

}  // namespace

void bindWatch(py::module_& module) {
  module.def(
      "watch_run",
      [](const py::object& callable, const py::args& args, const py::kwargs& kwargs) {
        return runCounted(0, callable, args, kwargs);
      },
      "Calls `callable` in the watched loop; gives its result and how often each event came.");
  module.def(
      "watch_throw_at",
      [](int64_t event, const py::object& callable, const py::args& args, const py::kwargs& kwargs) {
        return runCounter(Counter(0, event), callable, args, kwargs);
      },
      "As watch_run, but the observer throws a C++ exception at the n-th event.");
  module.def("watch_stop_at", runCounted, "As watch_run, but stops watching at the n-th event that can be refused.");
}

}  // namespace saker::python
