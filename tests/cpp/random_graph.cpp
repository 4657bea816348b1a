#include "random_graph.h"

namespace saker::ir::testing {
namespace {

// Construction may refuse: too large, past 64 bits, a zero divisor. Then something simpler will do.
template <typename F>
const sym::Node* attempt(const sym::Node* otherwise, F&& build) {
  try {
    return build();
  } catch (const std::runtime_error&) {
    return otherwise;
  }
}

}  // namespace

std::string RandomGraph::text(Random& random) {
  static const std::vector<std::string> kTexts = {"",       "a",     "x.y",  "0",      "12",    "a b",  "\"", "\\",
                                                  "\n\t\r", "%x",    "# no", "return", "graph", "None", "é",  "}{",
                                                  "\x7f",   "\x01z", "loc",  "s0",     "f32",   "inf"};
  std::string out = random.pick(kTexts);
  while (random.chance(30))
    out += random.chance(50) ? random.pick(kTexts) : std::string(1, static_cast<char>(random.next()));
  return out;
}

std::unique_ptr<Graph> RandomGraph::make() {
  auto graph =
      std::make_unique<Graph>(std::make_shared<Context>(ops::lookup), random_.chance(80) ? "main" : text(random_));
  graph_ = graph.get();
  symbols();
  std::vector<Value*> visible;
  for (size_t i = random_.below(6); i > 0; --i) visible.push_back(graph->addParameter(graph->top(), type(), name()));
  body(graph->top(), std::move(visible), nodes_, 0);
  return graph;
}

void RandomGraph::symbols() {
  sym::Context& symbols = graph_->context().symbols();
  static const std::vector<std::string> kNames = {"s0", "s1", "s2", "u0", "u8", "f16", "cuda", "batch", "dtype", "min"};
  size_t count = random_.below(5);
  for (size_t i = 0; i < count; ++i) {
    std::string name = random_.pick(kNames);
    if (symbols.find(name)) continue;
    int64_t low = random_.chance(70) ? 2 : static_cast<int64_t>(random_.below(10)) - 5;
    int64_t high = random_.chance(50) ? sym::Range::kInf : low + static_cast<int64_t>(random_.below(1000));
    if (random_.chance(5)) low = sym::Range::kNegInf;
    std::optional<int64_t> example;
    if (random_.chance(50)) example = std::min(std::max(low, int64_t{4}), high);
    symbols.symbol(name, {low, high}, example);
  }
  if (random_.chance(30)) {
    symbols.boolSymbol("b0", random_.chance(50) ? std::optional(random_.chance(50)) : std::nullopt);
  }
  if (random_.chance(30)) {
    symbols.floatSymbol("x0", random_.chance(50) ? std::optional(std::bit_cast<double>(random_.next())) : std::nullopt);
  }
  for (size_t i = random_.below(3); i > 0; --i) {
    const sym::Node* fact = condition(2);
    try {
      symbols.facts().assume(fact);
    } catch (const std::runtime_error&) {  // could not be decided
    }
  }
}

const sym::Node* RandomGraph::number(int depth) {
  sym::Context& symbols = graph_->context().symbols();
  std::vector<const sym::Node*> known;
  for (const sym::Symbol& symbol : symbols.symbols()) {
    if (symbol.node->isInt()) known.push_back(symbol.node);
  }
  if (depth == 0 || random_.chance(30)) {
    if (!known.empty() && random_.chance(70)) return random_.pick(known);
    return symbols.intConst(static_cast<int64_t>(random_.below(20)) - 4);
  }
  const sym::Node* a = number(depth - 1);
  const sym::Node* b = number(depth - 1);
  return attempt(a, [&] {
    switch (random_.below(6)) {
      case 0:
        return symbols.add(a, b);
      case 1:
        return symbols.mul(a, b);
      case 2:
        return symbols.floorDiv(a, b);
      case 3:
        return symbols.mod(a, b);
      case 4:
        return symbols.minMax(random_.chance(50) ? sym::Kind::Min : sym::Kind::Max, a, b);
      default:
        return symbols.toInt(random_.chance(50) ? sym::FloatOp::Floor : sym::FloatOp::Ceil, real(depth - 1));
    }
  });
}

const sym::Node* RandomGraph::real(int depth) {
  sym::Context& symbols = graph_->context().symbols();
  if (depth == 0 || random_.chance(40)) {
    const sym::Symbol* symbol = symbols.find("x0");
    if (symbol && random_.chance(60)) return symbol->node;
    return symbols.floatConst(static_cast<double>(random_.below(40)) / 8 - 1);
  }
  const sym::Node* a = real(depth - 1);
  const sym::Node* operands[] = {a, real(depth - 1)};
  const sym::Node* integers[] = {number(depth - 1)};
  return attempt(a, [&] {
    switch (random_.below(5)) {
      case 0:
        return symbols.floatOp(sym::FloatOp::Add, operands);
      case 1:
        return symbols.floatOp(sym::FloatOp::Sub, operands);
      case 2:
        return symbols.floatOp(sym::FloatOp::Div, operands);
      case 3:
        return symbols.floatOp(sym::FloatOp::Sqrt, {operands, 1});
      default:
        return symbols.floatOp(sym::FloatOp::FromInt, integers);
    }
  });
}

const sym::Node* RandomGraph::condition(int depth) {
  sym::Context& symbols = graph_->context().symbols();
  const sym::Symbol* symbol = symbols.find("b0");
  if (symbol && random_.chance(20)) return symbol->node;
  if (depth == 0 || random_.chance(60)) {
    const sym::Node* a = number(2);
    const sym::Node* b = number(1);
    return attempt(symbols.boolConst(true), [&] { return random_.chance(50) ? symbols.eq(a, b) : symbols.le(a, b); });
  }
  const sym::Node* a = condition(depth - 1);
  const sym::Node* b = condition(depth - 1);
  return attempt(a, [&] {
    switch (random_.below(3)) {
      case 0:
        return symbols.logical(sym::Kind::And, a, b);
      case 1:
        return symbols.logical(sym::Kind::Or, a, b);
      default:
        return symbols.logicalNot(a);
    }
  });
}

Int RandomGraph::size() {
  if (random_.chance(60)) return static_cast<int64_t>(random_.below(random_.chance(5) ? int64_t{1} << 40 : 9));
  const sym::Node* node = number(random_.chance(70) ? 0 : 2);
  // A number that may turn out negative is no size.
  Int size(node);
  return (size >= Int(0)).provablyTrue() ? size : Int(3);
}

const Type* RandomGraph::tensor() {
  TensorSpec spec;
  spec.dtype = random_.chance(60) ? DType::Float32 : static_cast<DType>(random_.below(kDTypes));
  for (size_t rank = random_.below(random_.chance(5) ? 12 : 5); rank > 0; --rank) spec.sizes.push_back(size());
  if (random_.chance(20)) {
    for (size_t i = 0; i < spec.sizes.size(); ++i) spec.strides.push_back(size());
  }
  if (random_.chance(15)) spec.offset = size();
  if (random_.chance(15)) {
    spec.device = {static_cast<DeviceType>(random_.below(21)),
                   static_cast<int8_t>(static_cast<int>(random_.below(4)) - 1)};
  }
  if (random_.chance(5)) spec.layout = static_cast<Layout>(random_.below(8));
  spec.flags = {random_.chance(10), random_.chance(5), random_.chance(5), random_.chance(5)};
  try {
    return graph_->context().types().tensor(spec);
  } catch (const std::runtime_error&) {  // row-major strides past 64 bits
    return graph_->context().types().tensor({});
  }
}

const Type* RandomGraph::type(int depth) {
  TypeTable& types = graph_->context().types();
  if (random_.chance(75)) return tensor();
  TypeKind kind = static_cast<TypeKind>(random_.below(15));
  switch (kind) {
    case TypeKind::Tensor:
      return tensor();
    case TypeKind::Int:
      return types.scalar(kind, random_.chance(60) ? number(2) : nullptr);
    case TypeKind::Bool:
      return types.scalar(kind, random_.chance(60) ? condition(1) : nullptr);
    case TypeKind::Float:
      return types.scalar(kind, random_.chance(60) ? real(2) : nullptr);
    case TypeKind::List:
      return depth > 3 ? tensor() : types.list(type(depth + 1));
    case TypeKind::Optional:
      return depth > 3 ? tensor() : types.optional(type(depth + 1));
    case TypeKind::Opaque:
      return types.opaque(text(random_));
    default:
      return types.plain(kind);
  }
}

Arg RandomGraph::list(std::vector<Arg> elements) { return Arg::list(arena_.copy(std::span<const Arg>(elements))); }

Arg RandomGraph::valueOf(TypeKind kind, const std::vector<Value*>& visible) {
  std::vector<Value*> fitting;
  for (Value* value : visible) {
    if (value->type()->kind == kind) fitting.push_back(value);
  }
  return fitting.empty() ? Arg::none() : Arg::value(random_.pick(fitting));
}

Arg RandomGraph::arg(const std::vector<Value*>& visible, int depth) {
  switch (random_.below(18)) {
    case 0:
      return Arg::none();
    case 1:
      return Arg::boolean(random_.chance(50));
    case 2:
      return Arg::integer(static_cast<int64_t>(random_.chance(50) ? random_.next() : random_.below(10)));
    case 3:
      return Arg::number(random_.chance(50) ? std::bit_cast<double>(random_.next())
                                            : static_cast<double>(random_.below(9)));
    case 4:
      return Arg::complex(arena_.make<std::complex<double>>(std::bit_cast<double>(random_.next()), 1.5));
    case 5:
      return Arg::string(arena_.copy(std::string_view(text(random_))));
    case 6:
      return Arg::dtype(static_cast<DType>(random_.below(kDTypes)));
    case 7:
      return Arg::device(
          {static_cast<DeviceType>(random_.below(21)), static_cast<int8_t>(static_cast<int>(random_.below(4)) - 1)});
    case 8:
      return Arg::layout(static_cast<Layout>(random_.below(8)));
    case 9:
      return Arg::memoryFormat(static_cast<MemoryFormat>(random_.below(4)));
    case 10:
      return Arg::symInt(Int(number(3)));
    case 11:
      return Arg::symBool(Bool(condition(2)));
    case 12:
      return Arg::symFloat(Float(real(3)));
    case 13:
      return Arg::opaque(graph_->context().opaque(text(random_), random_.next()));
    case 14: {
      std::vector<Arg> elements;
      for (size_t i = depth > 4 ? 0 : random_.below(4); i > 0; --i) elements.push_back(arg(visible, depth + 1));
      return list(std::move(elements));
    }
    default:
      return visible.empty() ? Arg::none() : Arg::value(random_.pick(visible));
  }
}

// None where nothing fits; the caller then takes another operator.
Arg RandomGraph::argFor(const SchemaType& type, const std::vector<Value*>& visible, bool element) {
  using Base = SchemaType::Base;
  if (type.list && !element) {
    std::vector<Arg> elements;
    for (size_t i = random_.below(4); i > 0; --i) {
      Arg item = argFor(type, visible, true);
      if (!item.isNone() || type.elementOptional) elements.push_back(item);
    }
    return list(std::move(elements));
  }
  switch (type.base) {
    case Base::Tensor:
      return valueOf(TypeKind::Tensor, visible);
    case Base::Int:
    case Base::SymInt:
      return random_.chance(50) ? Arg::integer(static_cast<int64_t>(random_.below(4))) : Arg::symInt(Int(number(1)));
    case Base::Float:
    case Base::SymFloat:
      return random_.chance(50) ? Arg::number(static_cast<double>(random_.below(4)) / 2) : Arg::integer(1);
    case Base::Bool:
    case Base::SymBool:
      return Arg::boolean(random_.chance(50));
    case Base::Complex:
    case Base::Scalar:
      return random_.chance(50) ? Arg::integer(1) : Arg::number(1);
    case Base::String:
      return Arg::string(arena_.copy(std::string_view(text(random_))));
    case Base::DType:
      return Arg::dtype(static_cast<DType>(random_.below(kDTypes)));
    case Base::Device:
      return Arg::device({DeviceType::CUDA, 1});
    case Base::Layout:
      return Arg::layout(static_cast<Layout>(random_.below(8)));
    case Base::MemoryFormat:
      return Arg::memoryFormat(static_cast<MemoryFormat>(random_.below(4)));
    default:
      return Arg::opaque(graph_->context().opaque("torch.Generator", random_.below(3)));
  }
}

const Location* RandomGraph::location() {
  const Location* at = nullptr;
  for (size_t depth = random_.chance(40) ? 1 + random_.below(3) : 0; depth > 0; --depth) {
    at = graph_->context().location(text(random_), static_cast<int>(random_.below(500)), text(random_), text(random_),
                                    at);
  }
  return at;
}

Attributes RandomGraph::attributes() {
  Attributes known;
  if (random_.chance(70)) return known;
  known.noGrad = random_.chance(50);
  known.inferenceToggled = random_.chance(20);
  known.shown = random_.chance(20);
  known.ownVersion = random_.chance(20);
  if (random_.chance(30)) {
    known.checkpoint = static_cast<Attributes::Checkpoint>(1 + random_.below(3));
    known.region = static_cast<uint16_t>(1 + random_.below(Attributes::kMaxRegion));
  }
  return known;
}

std::string RandomGraph::name() {
  if (random_.chance(60)) return {};
  return text(random_) + "." + std::to_string(names_++);
}

Node* RandomGraph::node(Region* region, Node* before, const std::vector<Value*>& visible) {
  std::vector<Arg> args;
  std::vector<const Type*> results;
  std::span<const ops::Operator* const> table = ops::all();
  const OpDef* op = nullptr;
  if (random_.chance(60)) {
    const ops::Operator* known = table[random_.below(table.size())];
    op = known;
    for (const SchemaArgument& wanted : known->parsed.arguments) {
      bool keepDefault = wanted.defaultValue && random_.chance(60);
      Arg given = keepDefault ? *wanted.defaultValue : argFor(wanted.type, visible, false);
      if (wanted.type.optional && random_.chance(30)) given = Arg::none();
      if (given.isNone() && !wanted.type.optional) op = nullptr;
      args.push_back(given);
    }
    for (const SchemaArgument& result : known->parsed.returns) {
      size_t count = result.type.list ? random_.below(4) : 1;
      using Base = SchemaType::Base;
      for (; count > 0; --count) {
        TypeTable& types = graph_->context().types();
        results.push_back(
            result.type.base == Base::Tensor                                      ? tensor()
            : result.type.base == Base::Bool || result.type.base == Base::SymBool ? types.plain(TypeKind::Bool)
            : result.type.base == Base::Int || result.type.base == Base::SymInt   ? types.plain(TypeKind::Int)
            : result.type.base == Base::Scalar                                    ? types.plain(TypeKind::Scalar)
            : result.type.base == Base::Float                                     ? types.plain(TypeKind::Float)
                                                                                  : nullptr);
        if (!results.back()) op = nullptr;
      }
    }
    if (known->parsed.variadicArguments || known->parsed.variadicReturns) op = nullptr;
  }
  if (!op) {
    static const std::vector<std::string> kOps = {"custom::f", "a.b::c.d", "f", "odd name", "return", "x::\"y\""};
    op = graph_->context().op(random_.pick(kOps));
    args.clear();
    results.clear();
    for (size_t i = random_.below(6); i > 0; --i) args.push_back(arg(visible, 0));
    for (size_t i = random_.below(4); i > 0; --i) results.push_back(type());
  }
  Node* made = graph_->create(op, args, results, 0, {location(), attributes()});
  for (size_t i = 0; i < made->resultCount(); ++i) {
    if (std::string given = name(); !given.empty()) graph_->setName(made->result(i), given);
  }
  graph_->insertBefore(region, before, made);
  return made;
}

void RandomGraph::body(Region* region, std::vector<Value*> visible, size_t nodes, int depth) {
  for (size_t i = 0; i < nodes; ++i) {
    Node* made = node(region, nullptr, visible);
    if (!made->op()->schema && depth < 3 && random_.chance(15)) {
      for (size_t bodies = 1 + random_.below(2); bodies > 0; --bodies) {
        Region* inner = graph_->addRegion(made);
        std::vector<Value*> inside = visible;
        for (size_t p = random_.below(3); p > 0; --p) inside.push_back(graph_->addParameter(inner, type(), name()));
        body(inner, std::move(inside), random_.below(nodes), depth + 1);
      }
    }
    for (size_t r = 0; r < made->resultCount(); ++r) visible.push_back(made->result(r));
  }
  std::vector<Arg> returned;
  for (size_t i = random_.below(4); i > 0; --i) returned.push_back(arg(visible, 0));
  graph_->appendReturn(region, returned, location());
}

}  // namespace saker::ir::testing
