#include "symbolic/flat.h"

#include "symbolic/builder.h"
#include "symbolic/context.h"

namespace saker::sym {

namespace {

using Wide = __int128;
constexpr uint32_t kNoStep = ~0u;

Cell whole(Wide value) { return {value, 0, true}; }
Cell truth(bool value) { return {value, 0, true}; }
Cell real(std::optional<double> value) { return value ? Cell{0, *value, true} : Cell(); }

Cell divide(Kind kind, const Cell& a, const Cell& b) {
  if (!a.known || !b.known || b.whole == 0) return {};
  if (b.whole == -1) return whole(kind == Kind::Mod ? 0 : -a.whole);
  Wide quotient = a.whole / b.whole, rest = a.whole % b.whole;
  bool down = rest != 0 && (rest < 0) != (b.whole < 0);
  return whole(kind == Kind::Mod ? (down ? rest + b.whole : rest) : (down ? quotient - 1 : quotient));
}

template <typename T>
Cell compare(Kind kind, T a, T b) {
  return truth(kind == Kind::Eq ? a == b : kind == Kind::Ne ? a != b : kind == Kind::Le ? a <= b : a < b);
}

bool isComparison(Kind kind) { return kind == Kind::Eq || kind == Kind::Ne || kind == Kind::Le || kind == Kind::Lt; }

}  // namespace

std::optional<uint32_t> Flat::find(const Node* expression) const {
  auto known = known_.find(expression);
  return known == known_.end() ? std::nullopt : std::optional(known->second);
}

uint32_t Flat::add(const Node* expression) {
  if (std::optional<uint32_t> known = find(expression)) return *known;
  std::vector<uint32_t> operands;
  for (const Node* operand : expression->args()) operands.push_back(add(operand));
  uint32_t out = addCell();
  known_.emplace(expression, out);
  if (expression->isSymbol()) return out;  // whoever runs the list fills it
  stepOf_[out] = static_cast<uint32_t>(steps_.size());
  steps_.push_back({expression, out, static_cast<uint32_t>(operands_.size())});
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  return out;
}

uint32_t Flat::addCell() {
  stepOf_.push_back(kNoStep);
  return cells_++;
}

void Flat::compute(std::vector<Cell>& cells, uint32_t cell) const {
  if (stepOf_[cell] == kNoStep) return;  // a symbol without a value
  const Step& step = steps_[stepOf_[cell]];
  const uint32_t* operands = operands_.data() + step.first;
  for (uint32_t i = 0; i < step.node->count; ++i) value(cells, operands[i]);
  cells[cell] = apply(*step.node, operands, cells);
}

std::vector<uint32_t> Flat::dependents(const std::vector<uint32_t>& on) const {
  std::vector<bool> depends(cells_);
  for (uint32_t cell : on) depends[cell] = true;
  for (const Step& step : steps_) {
    for (uint32_t i = 0; i < step.node->count; ++i) {
      if (depends[operands_[step.first + i]]) depends[step.out] = true;
    }
  }
  std::vector<uint32_t> out;
  for (uint32_t cell = 0; cell < cells_; ++cell) {
    if (depends[cell]) out.push_back(cell);
  }
  return out;
}

Cell Flat::apply(const Node& node, const uint32_t* operands, const std::vector<Cell>& cells) {
  auto at = [&](size_t i) -> const Cell& { return cells[operands[i]]; };
  switch (node.kind) {
    case Kind::Const:
      return whole(node.value);
    case Kind::BoolConst:
      return truth(node.value != 0);
    case Kind::FloatConst:
      return real(node.number);
    case Kind::Add:
    case Kind::Mul: {
      Wide total = node.value;
      for (uint32_t i = 0; i < node.count; ++i) {
        bool overflow = node.kind == Kind::Add ? __builtin_add_overflow(total, at(i).whole, &total)
                                               : __builtin_mul_overflow(total, at(i).whole, &total);
        if (overflow || !at(i).known) return {};
      }
      return whole(total);
    }
    case Kind::FloorDiv:
    case Kind::Mod:
      return divide(node.kind, at(0), at(1));
    case Kind::Min:
    case Kind::Max: {
      Cell best = at(0);
      for (uint32_t i = 0; i < node.count; ++i) {
        if (!at(i).known) return {};
        if (node.kind == Kind::Min ? at(i).whole < best.whole : at(i).whole > best.whole) best = at(i);
      }
      return best;
    }
    case Kind::ToInt: {
      if (!at(0).known) return {};
      std::optional<int64_t> value = applyToInt(static_cast<FloatOp>(node.value), at(0).number);
      return value ? whole(*value) : Cell();
    }
    case Kind::And:
    case Kind::Or: {
      // One operand can settle it, whatever the others are.
      bool unknown = false;
      for (uint32_t i = 0; i < node.count; ++i) {
        if (!at(i).known) {
          unknown = true;
        } else if ((at(i).whole != 0) != (node.kind == Kind::And)) {
          return at(i);
        }
      }
      return unknown ? Cell() : truth(node.kind == Kind::And);
    }
    case Kind::Not:
      return at(0).known ? truth(at(0).whole == 0) : Cell();
    default:
      break;
  }
  if (isComparison(node.kind)) {
    if (node.count == 1) return at(0).known ? compare<Wide>(node.kind, at(0).whole, 0) : Cell();
    return at(0).known && at(1).known ? compare(node.kind, at(0).number, at(1).number) : Cell();
  }
  // A function of floats.
  auto op = static_cast<FloatOp>(node.value);
  std::optional<int64_t> a = at(0).integer();
  if (op == FloatOp::FromInt) return a ? real(static_cast<double>(*a)) : Cell();
  if (op == FloatOp::IntDiv) {
    std::optional<int64_t> b = at(1).integer();
    return a && b ? real(divideInts(*a, *b)) : Cell();
  }
  bool known = at(0).known && (node.count == 1 || at(1).known);
  return known ? real(applyFloat(op, at(0).number, node.count > 1 ? at(1).number : 0.0)) : Cell();
}

}  // namespace saker::sym
