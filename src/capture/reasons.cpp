#include "capture/reasons.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace saker {

namespace {

// Hints that several rows share.
constexpr const char* kMoveOut = "move this out of the function";
constexpr const char* kOutside = "do this outside of the function";
constexpr const char* kCallOutside = "call this outside of the function";
constexpr const char* kAllow =
    "call this outside of the function; or, if it changes nothing and depends on its arguments alone, declare it by "
    "saker.allow()";
constexpr const char* kReadNoData = "use torch.where or a mask in place of reading data; or read it outside";
constexpr const char* kDense = "pass plain dense tensors";
constexpr const char* kFixedSizes =
    "nothing has to be done: the call is recorded with the sizes that it has; move this out of the function to have "
    "one "
    "recording for all sizes";
constexpr const char* kMakeIterator = "pass a list, or make the iterator inside of the function";
constexpr const char* kRequiresGrad = "call requires_grad_() outside of the function";
constexpr const char* kClasses = "set attributes of classes outside of the function";
constexpr const char* kFormats = "format numbers and strings, or do it after the call";
constexpr const char* kLocks = "take the lock around the call";
constexpr const char* kPutBack = "put the state back before the function returns, as a with statement does";
constexpr const char* kNothing = "nothing has to be done: results and gradients are eager mode's";
constexpr const char* kGradOutside = "read and set .grad outside of the function";
constexpr const char* kNoSet = "use operators on the tensor, not .data or set_";
constexpr const char* kOneResult = "return results that do not depend on each other, or detach one of them";
constexpr const char* kShare = "pass tensors with memory of their own";
constexpr const char* kNoResize = "give memory another length outside of the function";
constexpr const char* kReturnPlain = "return tensors, numbers, containers and plain objects";

// CallsUnknown is told as calls-unknown.
std::string stableName(std::string_view identifier) {
  std::string out;
  for (char each : identifier) {
    if (std::isupper(static_cast<unsigned char>(each)) && !out.empty()) out += '-';
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  }
  return out;
}

const std::vector<StopReason>& table() {
  static const std::vector<StopReason>& rows = *new std::vector<StopReason>{
#define SAKER_STOP(identifier, kind, text, hint) {Why::identifier, stableName(#identifier), StopKind::kind, text, hint},
#include "capture/reasons.def"
#undef SAKER_STOP
  };
  return rows;
}

}  // namespace

std::span<const StopReason> stopReasons() { return table(); }

const char* kindName(StopKind kind) {
  switch (kind) {
    case StopKind::Ends:
      return "a segment ends here";
    case StopKind::Cannot:
      return "cannot be replayed";
    case StopKind::Instead:
      return "the recording itself runs";
  }
  return "";
}

const StopReason& Stop::reason() const { return table()[static_cast<size_t>(why)]; }

std::string Stop::text() const {
  std::string out = op.empty() ? "" : (did.empty() ? op : did) + ": ";
  std::string_view left = reason().text;
  for (const std::string& operand : operands) {
    size_t hole = left.find("{}");
    if (hole == std::string_view::npos) break;
    out += left.substr(0, hole);
    out += operand;
    left.remove_prefix(hole + 2);
  }
  out += left;
  // Of bool(), .item() and the like, what the program did says all.
  if (!op.empty() && !did.empty() && op != "aten::_local_scalar_dense") out += " (" + op + ")";
  return library.empty() ? out : out + " (in " + library + ")";
}

std::string Stop::sentence() const {
  static constexpr std::array kSubjects = {"a",         "an",        "it",      "its",       "the",      "which",
                                           "memory",    "gradients", "drawing", "setting",   "anomaly",  "hooks",
                                           "torch.jit", "numpy",     "results", "arguments", "argument", "autograd"};
  std::string_view row = reason().text;
  std::string_view first = row.substr(0, row.find(' '));
  bool subject =
      !op.empty() || first == "{}" || std::find(kSubjects.begin(), kSubjects.end(), first) != kSubjects.end();
  return subject ? text() : "it " + text();
}

}  // namespace saker
