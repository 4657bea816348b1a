// Reading expressions, and refusing what is none.
#include <gtest/gtest.h>

#include "symbolic/context.h"
#include "symbolic/parse.h"

namespace saker::sym {
namespace {

class SymbolicParse : public ::testing::Test {
 protected:
  SymbolicParse() {
    context.symbol("s0");
    context.symbol("s1", Range::all());
    context.boolSymbol("b0");
    context.floatSymbol("f0");
  }

  const Node* parse(std::string_view text) {
    position = 0;
    error.clear();
    return parseExpression(context, text, position, error);
  }

  Context context;
  size_t position = 0;
  std::string error;
};

TEST_F(SymbolicParse, StopsWhereTheExpressionEnds) {
  struct Case {
    const char* text;
    const char* read;
    const char* rest;
  };
  for (const Case& c :
       {Case{"s0, s1", "s0", ", s1"}, Case{"2*s0 + 1]", "2*s0 + 1", "]"}, Case{"s0 -> x", "s0", " -> x"},
        Case{"s0 = 3", "s0", " = 3"}, Case{"s0  # note", "s0", "  # note"}, Case{"b0 android", "b0", " android"},
        Case{"s0)", "s0", ")"}, Case{"s0 s1", "s0", " s1"}, Case{"1.5}", "1.5", "}"},
        Case{"s1 == 2 == 3", "s1 == 2", " == 3"}}) {
    const Node* node = parse(c.text);
    ASSERT_NE(node, nullptr) << c.text << ": " << error;
    EXPECT_EQ(toString(node), c.read);
    EXPECT_EQ(std::string(c.text).substr(position), c.rest);
  }
}

TEST_F(SymbolicParse, StartsAtThePosition) {
  position = 4;
  const Node* node = parseExpression(context, "x = s0*2; s1", position, error);
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(toString(node), "2*s0");
  EXPECT_EQ(position, 8u);
}

TEST_F(SymbolicParse, SaysWhatIsWrongAndWhere) {
  struct Case {
    std::string text;
    size_t position;
    const char* message;
  };
  for (const Case& c :
       {Case{"", 0, "expected an expression"}, Case{"s0 + ", 5, "expected an expression"},
        Case{"(s0 + 1", 7, "expected ')'"}, Case{"2*t7", 2, "unknown symbol 't7'"},
        Case{"foo(s0)", 0, "unknown function 'foo'"}, Case{"s0//0", 2, "zero"}, Case{"s0 % (s1 - s1)", 3, "zero"},
        Case{"1 / 0", 2, "zero"}, Case{"9223372036854775808", 0, "64 bits"},
        Case{"9223372036854775807 + 1", 0, "overflow"}, Case{"s0*9223372036854775807*2", 0, "overflow"},
        Case{"b0 + 1", 4, "expected an integer"}, Case{"s0 and b0", 0, "expected a condition"},
        Case{"not s0", 3, "expected a condition"}, Case{"sqrt(1.0, 2.0)", 0, "wrong number of operands"},
        Case{"min(b0, 1)", 4, "expected a number"}, Case{"s0 == b0", 3, "expected an integer"},
        Case{"1e999", 0, "64 bits"}, Case{std::string("s0 + \0", 6), 5, "expected an expression"}}) {
    EXPECT_EQ(parse(c.text), nullptr) << c.text;
    EXPECT_EQ(position, c.position) << c.text << ": " << error;
    EXPECT_NE(error.find(c.message), std::string::npos) << c.text << ": " << error;
  }
}

TEST_F(SymbolicParse, NestingHasALimit) {
  for (const char* open : {"(", "-", "not ", "min(1, ", "2.0**", "((("}) {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += open;
    EXPECT_EQ(parse(text + "s0"), nullptr);
    EXPECT_NE(error.find("nested too deeply"), std::string::npos) << error;
  }
  std::string fine;
  for (int i = 0; i < 200; ++i) fine += "(";
  fine += "s0";
  for (int i = 0; i < 200; ++i) fine += ")";
  EXPECT_NE(parse(fine), nullptr) << error;
}

TEST_F(SymbolicParse, LongTextsTakeLinearTime) {
  std::string sum = "s0", product = "s0", both = "b0";
  for (int i = 0; i < 100000; ++i) {
    sum += " + s0";
    product += "*s0";
    both += " and b0";
  }
  ASSERT_NE(parse(sum), nullptr);
  EXPECT_EQ(toString(parse(sum)), "100001*s0");
  EXPECT_EQ(parse(product), nullptr);  // too large
  EXPECT_EQ(toString(parse(both)), "b0");
}

TEST_F(SymbolicParse, ExtremeNumbersReadBack) {
  for (const char* text :
       {"-9223372036854775808", "9223372036854775807", "-9223372036854775808*s1", "s1 - 9223372036854775808",
        "s1 - 9223372036854775808 <= 0", "s1 <= 9223372036854775807", "-9223372036854775808*s1 + s0 <= 0", "5e-324",
        "1.7976931348623157e+308", "-0.0", "inf", "nan", "-inf", "s1 == -9223372036854775807"}) {
    const Node* node = parse(text);
    ASSERT_NE(node, nullptr) << text << ": " << error;
    std::string printed = toString(node);
    EXPECT_EQ(parse(printed), node) << text << " printed as " << printed;
  }
  EXPECT_EQ(parse("5 - 9223372036854775808//2"), nullptr);
}

TEST_F(SymbolicParse, FloatExpressionsReadBack) {
  for (const char* text : {"f0 - (f0 - f0)",
                           "f0 - f0 - f0",
                           "f0*(f0*f0)",
                           "f0 / (f0 / 2.0)",
                           "-f0",
                           "-(f0*2.0)",
                           "-f0*2.0",
                           "(-f0)**2.0",
                           "-(f0**2.0)",
                           "f0**-f0",
                           "(f0**2.0)**3.0",
                           "f0**(2.0**f0)",
                           "float(s0)*f0",
                           "s0 / s1",
                           "(s0 + 1) / (2*s1)",
                           "abs(f0) % 3.0",
                           "f0 // 2.0",
                           "floor(f0)",
                           "floorf(f0)",
                           "round(f0) + trunc(f0)",
                           "roundf(f0)",
                           "min(f0, 2.0)",
                           "max(f0, float(s0))",
                           "sqrt(exp(log(sin(cos(tanh(log2(f0)))))))",
                           "f0 < 2.0 and not f0 <= 1.0",
                           "1.0 / 0.0",
                           "float(floor(f0)) == f0",
                           "-1.5*f0",
                           "f0 - 1.5",
                           "f0 + -1.5",
                           "0.1*f0",
                           "1e-07 + f0",
                           "s1 / 2 + f0"}) {
    const Node* node = parse(text);
    ASSERT_NE(node, nullptr) << text << ": " << error;
    std::string printed = toString(node);
    EXPECT_EQ(parse(printed), node) << text << " printed as " << printed << " " << error;
  }
}

}  // namespace
}  // namespace saker::sym
