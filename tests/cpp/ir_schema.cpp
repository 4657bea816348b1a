#include "ir/schema.h"

#include <gtest/gtest.h>

namespace saker::ir {
namespace {

using Base = SchemaType::Base;

Schema parsed(std::string_view text) {
  SchemaError error;
  std::optional<Schema> schema = parseSchema(text, &error);
  EXPECT_TRUE(schema) << text << ": " << error.column << ": " << error.message;
  return schema.value_or(Schema());
}

TEST(Schema, NamesArgumentsAndKeywords) {
  Schema s = parsed("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
  EXPECT_EQ(s.name, "aten::add");
  EXPECT_EQ(s.overload, "Tensor");
  EXPECT_EQ(s.qualified(), "aten::add.Tensor");
  ASSERT_EQ(s.arguments.size(), 3u);
  EXPECT_FALSE(s.arguments[1].keywordOnly);
  EXPECT_TRUE(s.arguments[2].keywordOnly);
  EXPECT_EQ(s.arguments[2].defaultText, "1");
  ASSERT_TRUE(s.arguments[2].defaultValue);
  EXPECT_EQ(s.arguments[2].defaultValue->toInt(), 1);
  EXPECT_EQ(s.indexOf("alpha"), 2u);
  EXPECT_FALSE(s.indexOf("beta"));
  EXPECT_FALSE(s.writesAnything());
}

TEST(Schema, AliasesAndWrites) {
  Schema s = parsed("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)");
  EXPECT_TRUE(s.arguments[0].writes);
  EXPECT_EQ(s.arguments[0].alias, "a");
  EXPECT_EQ(s.returns[0].alias, "a");
  EXPECT_TRUE(s.writesAnything());
  EXPECT_EQ(parsed("a::b(Tensor(a -> *) x) -> Tensor(a)[]").arguments[0].alias, "a -> *");
  EXPECT_TRUE(parsed("a::b(Tensor(a!)[] out) -> ()").arguments[0].writes);
}

TEST(Schema, TypesOfEveryShape) {
  Schema s = parsed(
      "a::b(Tensor?[] i, SymInt[2]? n, float[]? f, Dict(str, t)(a!) d, (int, t)[] p, int[][] m) -> (Tensor x, int)");
  EXPECT_TRUE(s.arguments[0].type.list && s.arguments[0].type.elementOptional && !s.arguments[0].type.optional);
  EXPECT_TRUE(s.arguments[1].type.list && s.arguments[1].type.optional);
  EXPECT_EQ(s.arguments[1].type.fixedSize, 2);
  EXPECT_EQ(s.arguments[1].type.base, Base::SymInt);
  EXPECT_EQ(s.arguments[3].type.base, Base::Other);
  EXPECT_TRUE(s.arguments[3].writes);
  EXPECT_TRUE(s.arguments[4].type.list);
  EXPECT_EQ(s.arguments[5].type.other, "int[][]");
  ASSERT_EQ(s.returns.size(), 2u);
  EXPECT_EQ(s.returns[0].name, "x");
  EXPECT_TRUE(parsed("prim::f(...) -> ...").variadicReturns);
  EXPECT_TRUE(parsed("a::b() -> ()").returns.empty());
}

TEST(Schema, Defaults) {
  Schema s = parsed(
      "a::b(int[2] d=[0, 1], int[2] e=1, float f=1, str s=\"a\\n\\\"b\", ScalarType? t=4, MemoryFormat m=0, "
      "MemoryFormat c=contiguous_format, Tensor? n=None, bool q=True, Scalar z=1e-05, int r=Mean) -> Tensor");
  auto value = [&](std::string_view name) { return *s.arguments[*s.indexOf(name)].defaultValue; };
  EXPECT_EQ(value("d").toList()[1].toInt(), 1);
  ASSERT_EQ(value("e").toList().size(), 2u);
  EXPECT_EQ(value("f").toFloat(), 1.0);
  EXPECT_EQ(value("s").toString(), "a\n\"b");
  EXPECT_EQ(value("t").toDType(), DType::Int64);
  EXPECT_EQ(value("m").toMemoryFormat(), MemoryFormat::Contiguous);
  EXPECT_EQ(value("c").toMemoryFormat(), MemoryFormat::Contiguous);
  EXPECT_TRUE(value("n").isNone());
  EXPECT_TRUE(value("q").toBool());
  EXPECT_EQ(value("z").toFloat(), 1e-05);
  EXPECT_EQ(value("r").toInt(), 1);
}

TEST(Schema, DefaultsSurviveCopies) {
  Schema copy;
  {
    Schema s = parsed("a::b(int[3] d=[7, 8, 9], str s=\"some text that is long enough to be on the heap\") -> ()");
    copy = s;
  }
  EXPECT_EQ(copy.arguments[0].defaultValue->toList()[2].toInt(), 9);
  EXPECT_EQ(copy.arguments[1].defaultValue->toString(), "some text that is long enough to be on the heap");
}

TEST(Schema, PrintsWhatItReads) {
  for (std::string_view text : {
           "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
           "aten::sort.values(Tensor self, int dim=-1, bool descending=False, *, Tensor(a!) values, Tensor(b!) "
           "indices) "
           "-> (Tensor(a!) values, Tensor(b!) indices)",
           "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
           "aten::items.str(Dict(str, t) self) -> ((str, t)[])",
           "aten::percentFormat(str self, ...) -> str",
           "aten::_foreach_zero_(Tensor(a!)[] self) -> ()",
           "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
       }) {
    EXPECT_EQ(toString(parsed(text)), text);
  }
}

TEST(Schema, RefusesWithAPlace) {
  struct Case {
    std::string_view text;
    size_t column;
    std::string_view message;
  };
  for (const Case& c :
       {Case{"", 0, "name of an operator"}, Case{"a::b", 4, "expected '('"},
        Case{"a::b(Tensor", 11, "name of an argument"}, Case{"a::b(Tensor x -> y", 14, "expected ')'"},
        Case{"a::b() - Tensor", 7, "expected '->'"}, Case{"a::b() -> Tensor) ", 16, "end of the schema"},
        Case{"a::b(Tensor x=\"a\\", 17, "expected '\"'"}, Case{"a::b(int[x] y) -> ()", 10, "size of a list"},
        Case{"a::b(Tensor() y) -> ()", 12, "alias set"}}) {
    SchemaError error;
    EXPECT_FALSE(parseSchema(c.text, &error)) << c.text;
    EXPECT_EQ(error.column, c.column) << c.text << ": " << error.message;
    EXPECT_NE(error.message.find(c.message), std::string::npos) << error.message;
  }
  std::string deep(10000, '(');
  EXPECT_FALSE(parseSchema("a::b(" + deep));
}

}  // namespace
}  // namespace saker::ir
