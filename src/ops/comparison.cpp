// Comparisons, logic and bits, element by element.
#include <string>

#include "ops/pointwise.h"

namespace saker::ops {

namespace {

void addComparison(Rows& rows, const std::string& name, InferFn rule) {
  addForms(rows, name + ".Tensor(Tensor self, Tensor other)", rule, {.out = "Tensor_out"});
  addForms(rows, name + ".Scalar(Tensor self, Scalar other)", rule, {.out = "Scalar_out"});
}

void addBits(Rows& rows, const std::string& name) {
  constexpr uint8_t kBits = kDiscrete | kWideInts;
  addForms(rows, name + ".Tensor(Tensor self, Tensor other)", binary<kBits>, {.out = "Tensor_out"});
  addForms(rows, name + ".Scalar(Tensor self, Scalar other)", binary<kBits>, {.out = "Scalar_out"});
  addForms(rows, name + ".Scalar_Tensor(Scalar self, Tensor other)", binary<kBits>,
           {.inplace = false, .out = "Scalar_Tensor_out", .outTraits = kCopiedOut});
}

void addShift(Rows& rows, const std::string& direction) {
  std::string name = "bitwise_" + direction + "_shift";
  addForms(rows, name + ".Tensor(Tensor self, Tensor other)", binary<kInts>, {.out = "Tensor_out"});
  addForms(rows, name + ".Tensor_Scalar(Tensor self, Scalar other)", binary<kInts>, {.out = "Tensor_Scalar_out"});
  addForms(rows, name + ".Scalar_Tensor(Scalar self, Tensor other)", binary<kInts>,
           {.inplace = false, .out = "Scalar_Tensor_out", .outTraits = kCopiedOut});
}

// The same under Python's names.
void addShiftOperator(Rows& rows, const std::string& letter) {
  for (std::string other : {"Tensor", "Scalar"}) {
    std::string overload = "shift__." + other;
    addForms(rows, "__" + letter + overload + "(Tensor self, " + other + " other)", binary<kInts>,
             {.inplace = false, .out = other == "Tensor" ? "Tensor_out" : "Scalar_out", .outTraits = kCopiedOut});
    rows.push_back({"aten::__i" + letter + overload + "(Tensor(a!) self, " + other + " other) -> Tensor(a!)",
                    binary<kInts>, Cost::Pointwise});
  }
}

}  // namespace

void addComparisons(Rows& rows) {
  for (const char* name : {"eq", "ne"}) addComparison(rows, name, binary<kEvery, Gives::Bool>);
  for (const char* name : {"ge", "gt", "le", "lt"}) addComparison(rows, name, binary < kBool | kReal, Gives::Bool >);
  for (std::string name : {"logical_and", "logical_or", "logical_xor"}) {
    addForms(rows, name + "(Tensor self, Tensor other)", binary<kAll, Gives::Bool>);
  }
  for (const char* name : {"bitwise_and", "bitwise_or", "bitwise_xor"}) addBits(rows, name);
  for (const char* direction : {"left", "right"}) addShift(rows, direction);
  for (const char* letter : {"l", "r"}) addShiftOperator(rows, letter);
}

}  // namespace saker::ops
