// An operator's schema in PyTorch's notation, parsed:
//   aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/arg.h"

namespace saker::ir {

struct SchemaType {
  enum class Base : uint8_t {
    Tensor,
    Int,
    SymInt,
    Float,
    SymFloat,
    Bool,
    SymBool,
    Complex,
    Scalar,
    String,
    DType,
    Device,
    Layout,
    MemoryFormat,
    Generator,
    Stream,
    Storage,
    Other,  // a tuple, dictionary, class, type variable, list of lists, ...
  };
  Base base = Base::Tensor;
  bool optional = false;         // T? or T[]?
  bool list = false;             // T[] or T[3]
  bool elementOptional = false;  // T?[]
  int fixedSize = 0;             // T[3]: a single T is accepted for it
  std::string other = {};        // of Base::Other: the name as written
};

struct SchemaArgument {
  SchemaType type;
  std::string name;
  // The alias annotation without the mark of a write: "a", "a|b", "*" (a wildcard), "a -> *".
  std::string alias;
  bool writes = false;
  bool keywordOnly = false;
  bool hasDefault = false;
  std::string defaultText;  // as written: "1", "None", "[0, 1]", "contiguous_format"
  // The default as an argument. Nothing where the text is not one we can express.
  std::optional<Arg> defaultValue;
  std::shared_ptr<const void> defaultStorage;  // what a list or a string in defaultValue points to
};

struct Schema {
  std::string name;      // "aten::add"
  std::string overload;  // "Tensor", or empty
  std::vector<SchemaArgument> arguments;
  std::vector<SchemaArgument> returns;  // names may be empty
  bool variadicArguments = false;
  bool variadicReturns = false;

  std::string qualified() const { return overload.empty() ? name : name + "." + overload; }
  std::optional<size_t> indexOf(std::string_view argument) const;
  bool writesAnything() const;
};

struct SchemaError {
  size_t column;  // from 0
  std::string message;
};

// Parses one schema; fills `error` and returns nothing if the text is not one.
std::optional<Schema> parseSchema(std::string_view text, SchemaError* error = nullptr);

// The schema in the same notation.
std::string toString(const Schema& schema);

}  // namespace saker::ir
