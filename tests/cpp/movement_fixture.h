// Helpers for the tests of views, factories and movement.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "ops/infer.h"

namespace saker::ops {

class Movement : public ::testing::Test {
 protected:
  ir::Context context{lookup};
  std::deque<std::vector<Arg>> lists;

  Int size(std::string_view name, int64_t example) {
    return context.symbols().symbol(name, sym::Range::size(), example);
  }
  Arg tensor(std::initializer_list<Int> sizes, DType dtype = DType::Float32) {
    return strided(sizes, ir::contiguousStrides(Dims(sizes)), dtype);
  }
  Arg strided(std::initializer_list<Int> sizes, const Dims& strides, DType dtype = DType::Float32) {
    TensorSpec spec;
    spec.dtype = dtype;
    spec.sizes = Dims(sizes);
    spec.strides = strides;
    return Arg::type(context.types().tensor(spec));
  }
  Arg ints(std::initializer_list<Int> values) {
    std::vector<Arg>& list = lists.emplace_back();
    for (Int value : values) list.push_back(Arg::symInt(value));
    return Arg::list(list);
  }
  Arg list(std::initializer_list<Arg> values) { return Arg::list(lists.emplace_back(values)); }
  static Arg i(int64_t value) { return Arg::integer(value); }
  static Arg sym(Int value) { return Arg::symInt(value); }

  Inferred run(std::string_view name, std::initializer_list<Arg> args) {
    const Operator* op = find(name);
    if (!op) {
      ADD_FAILURE() << name << " is not in the table";
      return {};
    }
    return infer(*op, context, std::span<const Arg>(args.begin(), args.size()));
  }
  // All results, or why there are none.
  std::string one(std::string_view name, std::initializer_list<Arg> args) {
    Inferred out = run(name, args);
    if (!out.ok()) return "refused: " + out.refusal->message;
    std::string text;
    for (const ir::Type* type : out.results) text += (text.empty() ? "" : "; ") + ir::toString(type);
    return text;
  }
  Reason refusal(std::string_view name, std::initializer_list<Arg> args) {
    Inferred out = run(name, args);
    EXPECT_FALSE(out.ok()) << name << " gave " << (out.ok() ? ir::toString(out.results[0]) : "");
    return out.ok() ? Reason::Overflow : out.refusal->reason;
  }
  size_t guards() { return context.symbols().guards().size(); }
};

}  // namespace saker::ops
