// The loops that programs call by PyTorch's names: saker::while, its derivative, and saker::scan (control_flow.h).
#include <algorithm>
#include <string>

#include "ops/control_flow.h"
#include "ops/families.h"
#include "ops/infer.h"
#include "ops/own_size.h"

namespace saker::ops {
namespace {

using Mismatch = std::optional<std::string>;

const Operator* whileOperator() {
  static const Operator* op = find("saker::while");
  return op;
}

const Operator* whileBackwardOperator() {
  static const Operator* op = find("saker::while_backward");
  return op;
}

const Operator* scanOperator() {
  static const Operator* op = find("saker::scan");
  return op;
}

bool areTensors(const Arg& arg) {
  return arg.isList() && std::all_of(arg.toList().begin(), arg.toList().end(),
                                     [](const Arg& item) { return item.isValue() && item.toValue()->tensor(); });
}

// Is a value of type `given` of the dtype, device and sizes of `wanted`? Loops pass memory of any layout.
bool sameSizes(const ir::Type* given, const ir::Type* wanted, bool slice = false, bool stacked = false) {
  const TensorType *a = ir::asTensor(given), *b = ir::asTensor(wanted);
  if (!a || !b || a->dtype != b->dtype || a->device != b->device) return false;
  size_t skipA = slice ? 1 : 0, skipB = stacked ? 1 : 0;
  if (a->rank < skipA || b->rank < skipB || a->rank - skipA != b->rank - skipB) return false;
  for (size_t i = 0; i + skipA < a->rank; ++i) {
    if (!a->size(i + skipA).same(b->size(i + skipB))) return false;
  }
  return true;
}

Mismatch badCount(const char* what, size_t wanted, size_t found) {
  if (wanted == found) return std::nullopt;
  return std::string("expected ") + std::to_string(wanted) + " " + what + ", found " + std::to_string(found);
}

Mismatch badType(const char* what, size_t i, const ir::Type* wanted, const ir::Type* found) {
  return std::string(what) + " " + std::to_string(i) + " does not fit: expected " + ir::toString(wanted) + ", found " +
         ir::toString(found);
}

// `next`: the first parameter that the lists are for.
Mismatch checkParameters(const ir::Region& body, std::span<const Arg> lists, size_t sliced, size_t next = 0) {
  size_t count = next;
  for (const Arg& list : lists) count += list.toList().size();
  if (Mismatch bad = badCount("parameters of a body", count, body.parameters().size())) return bad;
  for (size_t k = 0; k < lists.size(); ++k) {
    for (const Arg& item : lists[k].toList()) {
      const ir::Type* parameter = body.parameters()[next]->type();
      if (!sameSizes(item.toValue()->type(), parameter, k == sliced)) {
        return badType("parameter", next, item.toValue()->type(), parameter);
      }
      ++next;
    }
  }
  return std::nullopt;
}

const ir::Type* typeOf(const Arg& arg) { return arg.isValue() ? arg.toValue()->type() : nullptr; }

// What a body returns are values like the parameters from `first` on, and like the results.
Mismatch checkCarried(const ir::Node& node, const ir::Region& body, size_t count, size_t first = 0) {
  std::span<const Arg> returned = body.terminator()->args();
  for (size_t i = 0; i < count; ++i) {
    const ir::Type *given = typeOf(returned[i]), *parameter = body.parameters()[first + i]->type();
    if (!given || !sameSizes(given, parameter)) {
      return given ? badType("carried value", i, parameter, given) : "a carried value is a constant";
    }
    if (!sameSizes(given, node.result(i)->type())) return badType("result", i, given, node.result(i)->type());
  }
  return std::nullopt;
}

// What a step returns behind what it carries is what the way back is given first.
Mismatch checkKept(const ir::Region& step, const ir::Region& back, size_t carried, size_t kept) {
  std::span<const Arg> returned = step.terminator()->args();
  if (Mismatch bad = badCount("values that are kept", kept, returned.size() - carried)) return bad;
  for (size_t i = 0; i < kept; ++i) {
    const ir::Type *given = typeOf(returned[carried + i]), *parameter = back.parameters()[i]->type();
    if (!given || !sameSizes(given, parameter)) {
      return given ? badType("kept value", i, parameter, given) : "a kept value is a constant";
    }
  }
  return std::nullopt;
}

bool areLists(const ir::Node& node, size_t first, size_t count) {
  std::span<const Arg> args = node.args();
  return args.size() == first + count && std::all_of(args.begin() + static_cast<std::ptrdiff_t>(first), args.end(),
                                                     [](const Arg& arg) { return areTensors(arg); });
}

// `keeps`: a step may return more than is carried.
Mismatch checkWhileBodies(const ir::Node& node, bool keeps) {
  size_t carried = node.arg(kWhileCarried).toList().size();
  for (size_t b = 0; b < 2; ++b) {
    const ir::Region& body = *node.regions()[b];
    if (Mismatch bad = checkParameters(body, node.args().first(2), 2)) return bad;
    if (!body.terminator()) continue;
    size_t wanted = b == 0 ? 1 : carried, found = body.terminator()->args().size();
    if (b == 1 && keeps) wanted = std::max(wanted, found);
    if (Mismatch bad = badCount("values that a body returns", wanted, found)) return bad;
  }
  return std::nullopt;
}

Mismatch checkWhile(const ir::Node& node) {
  if (!areLists(node, 0, 2)) return "expected two lists of tensors: what is carried, and what the bodies use besides";
  if (Mismatch bad = badCount("bodies", 2, node.regions().size())) return bad;
  size_t carried = node.arg(kWhileCarried).toList().size();
  if (node.resultCount() != carried + 1) {  // the last one may be its history
    if (Mismatch bad = badCount("results", carried, node.resultCount())) return bad;
  }
  if (Mismatch bad = checkWhileBodies(node, node.resultCount() > carried)) return bad;
  if (!node.regions()[1]->terminator()) return std::nullopt;
  return checkCarried(node, *node.regions()[1], carried);
}

Mismatch checkWhileBackward(const ir::Node& node) {
  if (!areLists(node, 0, 4)) {
    return "expected four lists of tensors: what is carried, used besides, flows back, and the history";
  }
  if (Mismatch bad = badCount("bodies", 3, node.regions().size())) return bad;
  size_t flowing = node.arg(kWhileFlowing).toList().size();
  if (Mismatch bad = badCount("results", flowing, node.resultCount())) return bad;
  if (Mismatch bad = checkWhileBodies(node, true)) return bad;
  const ir::Region &step = *node.regions()[1], &back = *node.regions()[2];
  const Arg lists[] = {node.arg(kWhileFlowing), node.arg(kWhileCarried), node.arg(kWhileClosed)};
  size_t kept = keptParameters(node);
  if (Mismatch bad = checkParameters(back, lists, 3, kept)) return bad;
  if (kept && step.terminator()) {
    if (Mismatch bad = checkKept(step, back, node.arg(kWhileCarried).toList().size(), kept)) return bad;
  }
  if (!back.terminator()) return std::nullopt;
  if (Mismatch bad = badCount("values that a body returns", flowing, back.terminator()->args().size())) return bad;
  return checkCarried(node, back, flowing, kept);
}

Mismatch checkScan(const ir::Node& node) {
  bool lists = areLists(node, kScanCarried, 3) && node.arg(kScanReverse).kind() == Arg::Kind::Bool;
  if (!lists) return "expected a bool and three lists of tensors: what is carried, sliced, and used besides";
  if (Mismatch bad = badCount("bodies", 1, node.regions().size())) return bad;
  const ir::Region& body = *node.regions()[0];
  size_t carried = node.arg(kScanCarried).toList().size();
  if (Mismatch bad = checkParameters(body, node.args().subspan(kScanCarried), 1)) return bad;
  if (node.arg(kScanSliced).toList().empty()) return "expected a tensor that is sliced";
  if (!body.terminator()) return std::nullopt;
  std::span<const Arg> returned = body.terminator()->args();
  if (Mismatch bad = badCount("values that a body returns", node.resultCount(), returned.size())) return bad;
  if (carried > returned.size()) return "a body returns less than it carries";
  if (Mismatch bad = checkCarried(node, body, carried)) return bad;
  for (size_t i = carried; i < returned.size(); ++i) {
    const ir::Type *row = typeOf(returned[i]), *result = node.result(i)->type();
    if (!row || !sameSizes(row, result, false, true)) return "row " + std::to_string(i) + " does not fit its result";
  }
  return std::nullopt;
}

// What each step of a while loop gave for the values that it carries, one below the other; without a step, what it was
// given.
void loopRows(Infer& in) {
  if (!areTensors(in.arg(2))) refuse("expected a list of tensors");
  Int count = ownSize(in, 1);
  for (const Arg& last : in.arg(2).toList()) {
    const TensorType& type = *last.toValue()->tensor();
    Dims sizes(type.sizes());
    sizes.insert(0, count);
    in.contiguous(sizes, type);
  }
}

void asItsBodies(Infer&) { unsupported("the results are what the bodies return"); }

}  // namespace

bool isWhile(const ir::Node& node) { return node.op() == whileOperator(); }
bool isWhileBackward(const ir::Node& node) { return node.op() == whileBackwardOperator(); }
bool isScan(const ir::Node& node) { return node.op() == scanOperator(); }

size_t keptParameters(const ir::Node& node) {
  size_t others = 0, all = node.regions()[2]->parameters().size();
  for (size_t list : {kWhileFlowing, kWhileCarried, kWhileClosed}) others += node.arg(list).toList().size();
  return std::max(all, others) - others;
}

void addLoopsOfPrograms(Rows& rows) {
  rows.push_back({.schema = "saker::while(...) -> ...",
                  .infer = asItsBodies,
                  .cost = Cost::Library,
                  .traits = kFailsOnData,  // it may never end, which is seen as an error is
                  .bodies = 2,
                  .check = checkWhile});
  rows.push_back({.schema = "saker::while_backward(...) -> ...",
                  .infer = asItsBodies,
                  .cost = Cost::Library,
                  .traits = kFailsOnData,
                  .bodies = 3,
                  .check = checkWhileBackward});
  rows.push_back({"saker::loop_rows(Tensor history, Tensor[] first, Tensor[] last) -> Tensor[]", loopRows,
                  Cost::Indexing, kDynamicShape});
  rows.push_back({.schema = "saker::scan(...) -> ...",
                  .infer = asItsBodies,
                  .cost = Cost::Library,
                  .bodies = 1,
                  .check = checkScan});
}

}  // namespace saker::ops
