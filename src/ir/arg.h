// One argument of a node: a value of the graph, or a constant standing in the argument itself, or a list of these.
// Sixteen bytes, trivially copyable; text, lists and complex numbers live in the graph's arena.
#pragma once

#include <complex>
#include <cstdint>
#include <span>
#include <string_view>

#include "ir/dtype.h"
#include "support/check.h"
#include "symbolic/int.h"

namespace saker::ir {

class Value;
struct Type;

// An object that is not ours (a generator, a script object, the data of a constant tensor): a class name and a number
// by which the owner of the graph finds it again.
struct OpaqueRef {
  std::string_view className;
  uint64_t number;
};

class Arg {
 public:
  enum class Kind : uint8_t {
    None,
    Bool,
    Int,
    Float,
    Complex,
    String,
    DType,
    Device,
    Layout,
    MemoryFormat,
    SymInt,
    SymBool,
    SymFloat,
    Opaque,
    Value,
    List,
    Type,  // a stand-in for a value of which only the type is known; never part of a graph
  };

  Arg() : kind_(Kind::None), size_(0), int_(0) {}
  static Arg none() { return Arg(); }
  static Arg boolean(bool v) { return Arg(Kind::Bool, int64_t{v}); }
  static Arg integer(int64_t v) { return Arg(Kind::Int, v); }
  static Arg number(double v) {
    Arg a;
    a.kind_ = Kind::Float;
    a.float_ = v;
    return a;
  }
  static Arg complex(const std::complex<double>* v) { return pointer(Kind::Complex, v); }
  static Arg string(std::string_view v) {
    Arg a = pointer(Kind::String, v.data());
    a.size_ = static_cast<uint32_t>(v.size());
    return a;
  }
  static Arg dtype(DType v) { return Arg(Kind::DType, static_cast<int64_t>(v)); }
  static Arg device(Device v) {
    return Arg(Kind::Device, static_cast<int64_t>(v.type) | int64_t{static_cast<uint8_t>(v.index)} << 8);
  }
  static Arg layout(Layout v) { return Arg(Kind::Layout, static_cast<int64_t>(v)); }
  static Arg memoryFormat(MemoryFormat v) { return Arg(Kind::MemoryFormat, static_cast<int64_t>(v)); }
  static Arg symInt(sym::Int v) { return v.isConst() ? integer(v.constant()) : pointer(Kind::SymInt, v.node()); }
  static Arg symBool(sym::Bool v) { return v.isConst() ? boolean(v.constant()) : pointer(Kind::SymBool, v.node()); }
  static Arg symFloat(sym::Float v) { return v.isConst() ? number(v.constant()) : pointer(Kind::SymFloat, v.node()); }
  static Arg opaque(const OpaqueRef* v) { return pointer(Kind::Opaque, v); }
  static Arg value(Value* v) { return pointer(Kind::Value, v); }
  static Arg list(std::span<const Arg> v) {
    Arg a = pointer(Kind::List, v.data());
    a.size_ = static_cast<uint32_t>(v.size());
    return a;
  }
  static Arg type(const Type* v) { return pointer(Kind::Type, v); }

  Kind kind() const { return kind_; }
  bool isNone() const { return kind_ == Kind::None; }
  bool isValue() const { return kind_ == Kind::Value; }
  bool isList() const { return kind_ == Kind::List; }

  bool toBool() const { return expect(Kind::Bool), int_ != 0; }
  int64_t toInt() const { return expect(Kind::Int), int_; }
  double toFloat() const { return expect(Kind::Float), float_; }
  std::complex<double> toComplex() const {
    expect(Kind::Complex);
    return *static_cast<const std::complex<double>*>(pointer_);
  }
  std::string_view toString() const {
    expect(Kind::String);
    return {static_cast<const char*>(pointer_), size_};
  }
  DType toDType() const { return expect(Kind::DType), static_cast<DType>(int_); }
  Device toDevice() const {
    return expect(Kind::Device), Device{static_cast<DeviceType>(int_ & 0xff), static_cast<int8_t>(int_ >> 8 & 0xff)};
  }
  Layout toLayout() const { return expect(Kind::Layout), static_cast<Layout>(int_); }
  MemoryFormat toMemoryFormat() const { return expect(Kind::MemoryFormat), static_cast<MemoryFormat>(int_); }
  const sym::Node* toSym() const {
    SAKER_CHECK(kind_ >= Kind::SymInt && kind_ <= Kind::SymFloat, "argument is not symbolic");
    return static_cast<const sym::Node*>(pointer_);
  }
  const OpaqueRef* toOpaque() const { return expect(Kind::Opaque), static_cast<const OpaqueRef*>(pointer_); }
  Value* toValue() const { return expect(Kind::Value), static_cast<Value*>(const_cast<void*>(pointer_)); }
  const Type* toType() const { return expect(Kind::Type), static_cast<const Type*>(pointer_); }
  std::span<const Arg> toList() const {
    expect(Kind::List);
    return {static_cast<const Arg*>(pointer_), size_};
  }

 private:
  Arg(Kind kind, int64_t v) : kind_(kind), size_(0), int_(v) {}
  static Arg pointer(Kind kind, const void* v) {
    Arg a;
    a.kind_ = kind;
    a.pointer_ = v;
    return a;
  }
  void expect(Kind kind) const { SAKER_CHECK(kind_ == kind, "argument is of another kind"); }

  Kind kind_;
  uint32_t size_;
  union {
    int64_t int_;
    double float_;
    const void* pointer_;
  };
};
static_assert(sizeof(Arg) == 16);

// Same constants, same values (by identity), element by element. Floats compare by their bits.
bool sameArg(const Arg& a, const Arg& b);
uint64_t hashArg(uint64_t seed, const Arg& arg);

}  // namespace saker::ir
