// Numbers of Python that are others in each run: floats that are found outside or read from data (`.item()`), and what
// Python's arithmetic makes of them. In the graph they are symbols, bound by the operator that reads a tensor, and
// expressions of these: arguments of operators name them. Operators are given plain numbers, so which argument is which
// number is told by its value, and only where nothing else can be meant.
#include <ATen/ScalarOps.h>

#include <algorithm>
#include <bit>

#include "aten/trace_key.h"
#include "capture/plain.h"
#include "capture/tape.h"
#include "ops/operator.h"

namespace saker::tracing {

namespace {

using GivenNumber = Tape::GivenNumber;

bool sameBits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

bool isFloat(const ir::Arg& arg, double value) {
  return arg.kind() == ir::Arg::Kind::Float && sameBits(arg.toFloat(), value);
}

// A constant of a list may be an integer.
bool isNumber(const ir::Arg& arg, double value) {
  return isFloat(arg, value) || (arg.kind() == ir::Arg::Kind::Int && static_cast<double>(arg.toInt()) == value);
}

bool isList(const ir::Arg& arg, const GivenNumber& given) {
  if (!arg.isList() || arg.toList().size() != given.values.size()) return false;
  for (size_t i = 0; i < given.values.size(); ++i) {
    const ir::Arg& item = arg.toList()[i];
    if (!(given.numbers[i] ? isFloat(item, given.values[i]) : isNumber(item, given.values[i]))) return false;
  }
  return true;
}

bool sameValues(const GivenNumber& a, const GivenNumber& b) {
  return a.list == b.list && a.values.size() == b.values.size() &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), sameBits);
}

bool takesTensor(const c10::FunctionSchema& schema, size_t argument) {
  if (argument >= schema.arguments().size()) return false;
  const c10::Type* type = schema.arguments()[argument].type().get();
  if (type->kind() == c10::TypeKind::OptionalType) type = type->expectRef<c10::OptionalType>().getElementType().get();
  return type->kind() == c10::TypeKind::TensorType;
}

}  // namespace

const sym::Node* Tape::appendItem(const at::Tensor& tensor, ir::Value* value, double number) {
  static const ops::Operator* item = ops::find("aten::_local_scalar_dense");
  sym::Float symbol = context()->symbols().floatSymbol("f" + std::to_string(items_++), number);
  const ir::Arg args[] = {ir::Arg::value(value)};
  const ir::Type* results[] = {context()->types().scalar(ir::TypeKind::Float, symbol.node())};
  const ir::Node* node = append(item, args, results, {here(), {.noGrad = true}});
  ++recorded_;
  auto memory = storages_.find(tensor.storage().unsafeGetStorageImpl());
  itemOf_.emplace(symbol.node(), Item{tensor, node, memory == storages_.end() ? 0 : memory->second.writes, number});
  return symbol.node();
}

const sym::Node* Tape::numberIn(const at::Tensor& source) {
  const sym::Node*& known = numbers_[source.unsafeGetTensorImpl()];
  if (!known) known = appendItem(source, valueOf(source), *static_cast<const double*>(source.const_data_ptr()));
  return known;
}

bool Tape::recordItem(const Call& call) {
  if (!permitsItem_ || spoiled_ || call.op.operator_name().name != "aten::_local_scalar_dense") return false;
  const at::Tensor asked = call.values[0].toTensor();
  if (!isReadableNumber(asked) || readsLiteral(call)) return false;
  permitsItem_ = false;
  auto memory = storages_.find(asked.storage().unsafeGetStorageImpl());
  if (memory != storages_.end() && !memory->second.filled) spoil(Why::MemoryUnwritten);
  ir::Value* value = valueOf(asked);
  runBelow(call);
  if (!spoiled_) item_ = appendItem(asked, value, call.stack->back().toDouble());
  return true;
}

const sym::Node* Tape::takeItem() {
  permitsItem_ = false;
  return std::exchange(item_, nullptr);
}

void Tape::mayRaise(const sym::Node* number) {
  static const ops::Operator* expect = ops::find("saker::expect.number");
  Around around = around_ ? around_(/*any=*/true) : Around{true, 0};
  risk_.any = true;
  risk_.goesOnAnywhere |= around.handled;
  risk_.goesOn |= around.handled && risk_.firstDone;
  risk_.op = "arithmetic on a number that changes";
  const ir::Arg args[] = {ir::Arg::symFloat(sym::Float(number))};
  const ir::Node* node = append(expect, args, {}, {here(), {.noGrad = true}});
  ++recorded_;
  const Risk::Before before{node->id(), around.effects, around.draws};
  risk_.beforeAnywhere.push_back(before);
  if (risk_.firstDone) risk_.before.push_back(before);
}

at::Tensor Tape::tensorOf(const sym::Node* number, double value) {
  static const ops::Operator* make = ops::find("aten::scalar_tensor");
  at::Tensor tensor = c10::scalar_to_tensor(value);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  // With a layout and without a device, as programs do not call it: the number keeps all of its bits there.
  const ir::Arg args[] = {ir::Arg::symFloat(sym::Float(number)), ir::Arg::dtype(ir::DType::Float64),
                          ir::Arg::layout(ir::Layout::Strided), ir::Arg::none(), ir::Arg::none()};
  const ir::Type* results[] = {typeOf(tensor)};
  know(tensor, append(make, args, results, {here(), {.noGrad = true}})->result());
  ++recorded_;
  return tensor;
}

void Tape::expectNumbers(std::string function, std::vector<GivenNumber> given) {
  expectedNumbers_ = ExpectedNumbers{std::move(function), std::move(given)};
}

bool Tape::tookNumbers() {
  if (!expectedNumbers_) return true;
  std::vector<GivenNumber> given = std::move(expectedNumbers_->given);
  expectedNumbers_.reset();
  return std::all_of(given.begin(), given.end(), [](const GivenNumber& each) { return each.taken; });
}

// An operator of another name is a part of the function that the program calls, which computes with its arguments: only
// operands are what they were.
std::span<const ir::Arg> Tape::withNumbers(const Call& call, std::span<const ir::Arg> args) {
  if (expectedNumbers_->given.empty()) return args;
  const c10::FunctionSchema& schema = call.op.schema();
  std::string_view name = call.op.operator_name().name;
  bool itself = name.substr(name.find("::") + 2) == expectedNumbers_->function;
  ir::Arg* made = scratch().makeArray<ir::Arg>(args.size());
  std::copy(args.begin(), args.end(), made);
  for (GivenNumber& given : expectedNumbers_->given) {
    std::vector<size_t> places;
    for (size_t i = 0; i < args.size(); ++i) {
      if (given.list ? isList(args[i], given) : isFloat(args[i], given.values[0])) places.push_back(i);
    }
    if (places.empty()) continue;
    size_t alike = 0;
    bool same = true;
    for (const GivenNumber& other : expectedNumbers_->given) {
      if (!sameValues(given, other)) continue;
      ++alike;
      same &= given.numbers == other.numbers && given.source.is_same(other.source);
    }
    if (!same || (itself && places.size() != alike)) {
      spoil(Why::NumbersAlike, nameOf(call.op));
      return args;
    }
    given.taken = true;
    for (size_t place : places) {
      // Some functions make the tensor of a number themselves, as it is.
      bool operand = takesTensor(schema, place), made0d = name == "aten::scalar_tensor" && place == 0;
      if (!itself && !operand && !made0d) {
        spoil(Why::UsesData, nameOf(call.op));
        return args;
      }
      if (given.list) {
        ir::Arg* items = scratch().makeArray<ir::Arg>(given.values.size());
        for (size_t i = 0; i < given.values.size(); ++i) {
          items[i] = given.numbers[i] ? ir::Arg::symFloat(sym::Float(given.numbers[i])) : args[place].toList()[i];
        }
        made[place] = ir::Arg::list({items, given.values.size()});
      } else if (operand && given.source.defined()) {
        made[place] = ir::Arg::value(valueOf(given.source));
      } else {
        const sym::Node* number = given.numbers[0] ? given.numbers[0] : numberIn(given.source);
        made[place] = ir::Arg::symFloat(sym::Float(number));
      }
    }
  }
  return {made, args.size()};
}

}  // namespace saker::tracing
