// A call with stand-ins sees symbols where a real call sees numbers: whatever would tell the difference ends it.
#include "frontend/kinds.h"
#include "frontend/recorder.h"
#include "frontend/symbol_doors.h"
#include "host/symbol_watch.h"

namespace saker::frontend {

bool Recorder::shows(PyObject* symbol, const char* how) {
  if (!symbol) return false;
  if (SymbolWatch* watch = SymbolWatch::current()) watch->saw(symbol);
  stop({Why::SeesSize, how});
  return true;
}

bool Recorder::showsInCall(Behaviour behaviour, PyObject* callable, const std::vector<PyObject*>& args) {
  if (PyObject* symbol = doors::seenByCall(behaviour, callable, args)) {
    return shows(symbol, ("it is given to " + Operations::name(callable)).c_str());
  }
  if (behaviour != Behaviour::Pure && behaviour != Behaviour::Mutates) return false;
  PyObject* unseen = doors::callsUnseen(args);
  if (unseen) stop({Why::GivesToC, Operations::name(unseen)});
  return unseen != nullptr;
}

std::optional<bool> Recorder::callsStandIn(PyObject* callable, const watch::Arguments& arguments) {
  PyObject* original = doors::standsFor(callable);
  if (!original) return std::nullopt;
  size_t named = arguments.names ? static_cast<size_t>(PyTuple_GET_SIZE(arguments.names)) : 0;
  std::vector<PyObject*> args(arguments.values, arguments.values + arguments.positional + named);
  if (shows(doors::seenInstead(callable, args), "its class is asked for")) return false;
  if (!args.empty() && doors::isSymbol(args[0])) return true;
  return callsKnown(original, arguments);
}

}  // namespace saker::frontend
