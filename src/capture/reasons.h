// Why a recording ends or is of no use: a row of one table (reasons.def), carried as a value with its operands and the
// user's line. Reports, logs, errors, counts and docs/reasons.md take their words from the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace saker {

enum class Why : uint16_t {
#define SAKER_STOP(identifier, kind, text, hint) identifier,
#include "capture/reasons.def"
#undef SAKER_STOP
};

inline constexpr size_t kStopReasons = 0
#define SAKER_STOP(identifier, kind, text, hint) +1
#include "capture/reasons.def"
#undef SAKER_STOP
    ;

// Ends: what came before the stop can be replayed, and the interpreter has to do what stopped it itself. Cannot: the
// call has no form that can be done again. Both run the call eagerly as long as a call is one segment. Instead: the
// call is replayed, but by the recording itself, which autograd follows as it follows eager mode.
enum class StopKind : uint8_t { Ends, Cannot, Instead };

// A row of the table.
struct StopReason {
  Why why;
  std::string name;  // stable, for programs: "calls-unknown"
  StopKind kind;
  const char* text;  // each {} is an operand
  const char* hint;  // what the user can do
};

// By Why.
std::span<const StopReason> stopReasons();
const char* kindName(StopKind kind);

// Why a recording has ended, and where.
struct Stop {
  template <typename... Operands>
  Stop(Why why, Operands&&... given) : why(why), operands{std::string(std::forward<Operands>(given))...} {}

  const StopReason& reason() const;
  // The sentence, with its operands: "bool() of a tensor: its result or its size depends on data (aten::item)". Where
  // code of a library led there, "(in torch/foo.py:3)" follows.
  std::string text() const;
  // The same with a subject: "it prints ...".
  std::string sentence() const;

  Why why;
  std::vector<std::string> operands;
  std::string op = {};       // the operator that it is about
  std::string did = {};      // what the program did that called it, as its user would say: "bool() of a tensor"
  std::string library = {};  // where in the code of a library that the user's line has called
  std::string file = {};     // the user's
  int line = 0;
};

}  // namespace saker
