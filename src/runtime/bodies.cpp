// Bodies of branches and loops in a run: ranges of instructions that are run none, one or many times.
#include <ATen/ops/copy.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/select.h>
#include <ATen/ops/stack.h>

#include "aten/enums.h"
#include "aten/on_copies.h"
#include "ops/control_flow.h"
#include "runtime/executable.h"
#include "runtime/loop_values.h"

namespace saker::runtime {

bool Run::truthOf(const ir::Arg& arg) {
  c10::IValue value = valueOf(arg);
  return value.isTensor() ? value.toTensor().item().toBool() : value.toBool();
}

void Run::setValue(const ir::Value* value, c10::IValue given) {
  if (value->tensor()) {
    slots_[value->id()] = given.isTensor() ? std::move(given).toTensor() : at::Tensor();
    return;
  }
  uint32_t index = executable_.cellOf_[value->id()];
  if (index == kNone) return;
  sym::Cell& cell = sizes_.cell(index);
  if (given.isDouble()) {
    cell.setReal(given.toDouble());
  } else if (given.isInt() || given.isBool()) {
    cell.set(given.isBool() ? given.toBool() : given.toInt());
  }
}

void Run::enter(const Body& body, size_t first, std::vector<c10::IValue>& given) {
  for (uint32_t cell : body.stale) sizes_.cell(cell).known = false;
  for (size_t i = 0; i < given.size(); ++i) setValue(body.parameters[first + i], std::move(given[i]));
}

std::vector<c10::IValue> Run::leave(const Body& body) {
  std::vector<c10::IValue> out;
  out.reserve(body.returned.size());
  for (const ir::Arg& arg : body.returned) out.push_back(valueOf(arg));
  // Branches that are not taken again for a while would keep what they gave.
  for (uint32_t slot : body.own) slots_[slot].reset();
  return out;
}

void Run::setResults(const Instruction& at, std::vector<c10::IValue>& values) {
  for (uint32_t slot : at.freed) slots_[slot].reset();
  for (size_t i = 0; i < at.results.size(); ++i) {
    if (at.results[i].value->hasUses()) setValue(at.results[i].value, std::move(values[i]));
  }
}

void Run::branch(const Instruction& at) {
  bool taken = ops::isCall(*at.node) || truthOf(at.node->arg(ops::kIfCondition));
  const Body& body = at.bodies[taken ? 0 : 1];
  std::vector<c10::IValue> values;
  for (const ir::Arg& arg : ops::passedArguments(*at.node)) values.push_back(valueOf(arg));
  enter(body, 0, values);
  aten::WriteMeter unmeasured;  // what a body writes is its own
  runRange(body.begin, body.end);
  values = leave(body);
  setResults(at, values);
}

void Run::loop(const Instruction& at) {
  const Body& body = at.bodies[0];
  c10::IValue trips = valueOf(at.node->arg(ops::kLoopTrips));
  bool goesOn = truthOf(at.node->arg(ops::kLoopCondition));
  std::vector<c10::IValue> values;
  for (const ir::Arg& arg : ops::passedArguments(*at.node)) values.push_back(valueOf(arg));
  aten::WriteMeter unmeasured;
  for (int64_t i = 0; goesOn && (trips.isNone() || i < trips.toInt()); ++i) {
    setValue(body.parameters[0], i);
    enter(body, 1, values);
    runRange(body.begin, body.end);
    goesOn = truthOf(body.returned[0]);
    values = leave(body);
    values.erase(values.begin());
  }
  setResults(at, values);
}

// --- loops of programs: their results are memory of their own ---

namespace {

// Puts rows together along a new first dimension.
class Stacked {
 public:
  // `followed`: autograd follows the run, and sees one operator in place of many writes.
  Stacked(int64_t rows, bool followed) : count_(rows), followed_(followed) {
    if (followed_) rows_.resize(static_cast<size_t>(rows));
  }

  void put(int64_t i, const at::Tensor& row) {
    if (followed_) {
      rows_[static_cast<size_t>(i)] = row;
      return;
    }
    if (!whole_.defined()) {
      std::vector<int64_t> sizes{count_};
      sizes.insert(sizes.end(), row.sizes().begin(), row.sizes().end());
      whole_ = at::empty(sizes, row.options());
    }
    at::select(whole_, 0, i).copy_(row);
  }
  at::Tensor take() { return followed_ ? at::stack(rows_) : std::move(whole_); }

 private:
  int64_t count_;
  bool followed_;
  std::vector<at::Tensor> rows_;
  at::Tensor whole_;
};

}  // namespace

std::vector<c10::IValue> Run::valuesOf(const ir::Arg& list) {
  Values values;
  values.reserve(list.toList().size());
  for (const ir::Arg& item : list.toList()) values.push_back(valueOf(item));
  return values;
}

// What a loop of no steps stacks: no row tells how large one is, and the graph does.
at::Tensor Run::withoutRows(const Result& result) {
  const ir::TensorType& type = *result.value->tensor();
  at::TensorOptions options = at::TensorOptions(aten::fromDType(type.dtype)).device(aten::fromDevice(type.device));
  return at::empty(sizes_.geometry(result.told).sizes, options);
}

void Run::scan(const Instruction& at) {
  const Body& body = at.bodies[0];
  bool reverse = at.node->arg(ops::kScanReverse).toBool();
  const Values initial = valuesOf(at.node->arg(ops::kScanCarried)), xs = valuesOf(at.node->arg(ops::kScanSliced)),
               closed = valuesOf(at.node->arg(ops::kScanClosed));
  const int64_t trips = xs[0].toTensor().size(0);
  Values values = initial;
  aten::WriteMeter unmeasured;
  std::vector<Stacked> rows(at.results.size() - initial.size(), Stacked(trips, conduct_ != nullptr));
  for (int64_t n = 0; n < trips; ++n) {
    const int64_t i = reverse ? trips - 1 - n : n;
    Values given = std::move(values);
    for (const c10::IValue& x : xs) given.emplace_back(at::select(x.toTensor(), 0, i));
    given.insert(given.end(), closed.begin(), closed.end());
    enter(body, 0, given);
    runRange(body.begin, body.end);
    values = leave(body);
    for (size_t k = 0; k < rows.size(); ++k) rows[k].put(i, values[initial.size() + k].toTensor());
    values.resize(initial.size());
  }
  Values given = initial;
  given.insert(given.end(), xs.begin(), xs.end());
  given.insert(given.end(), closed.begin(), closed.end());
  copyShared(values, given);
  for (size_t k = 0; k < rows.size(); ++k) {
    values.emplace_back(trips ? rows[k].take() : withoutRows(at.results[initial.size() + k]));
  }
  setResults(at, values);
}

}  // namespace saker::runtime
