#include "ir/type.h"

#include <gtest/gtest.h>

#include <limits>

#include "ir/arg.h"
#include "ir/context.h"
#include "ir/text.h"

namespace saker::ir {
namespace {

const TensorType* tensor(Context& context, Dims sizes, Dims strides = {}) {
  TensorSpec spec;
  spec.sizes = sizes;
  spec.strides = strides;
  return context.types().tensor(spec);
}

TEST(Type, EqualTypesAreOneObject) {
  Context context;
  EXPECT_EQ(tensor(context, {2, 3}), tensor(context, {2, 3}, {3, 1}));
  EXPECT_NE(tensor(context, {2, 3}), tensor(context, {2, 3}, {1, 2}));
  Int s0 = context.symbols().symbol("s0");
  EXPECT_EQ(tensor(context, {s0 * Int(2), 3}), tensor(context, {Int(2) * s0, 3}));
  EXPECT_NE(tensor(context, {s0, 3}), tensor(context, {3, s0}));
  const Type* i = context.types().plain(TypeKind::Int);
  EXPECT_EQ(i, context.types().plain(TypeKind::Int));
  EXPECT_NE(i, context.types().scalar(TypeKind::Int, s0.node()));
  EXPECT_EQ(context.types().list(i), context.types().list(i));
  EXPECT_NE(context.types().list(i), context.types().optional(i));
  EXPECT_EQ(context.types().opaque("a.B"), context.types().opaque("a.B"));
}

TEST(Type, RowMajorStrides) {
  EXPECT_EQ(contiguousStrides(Dims{2, 0, 3})[0].constant(), 3);
  EXPECT_EQ(contiguousStrides(Dims{}).size(), 0u);
  Context context;
  Int s0 = context.symbols().symbol("s0");
  EXPECT_TRUE(contiguousStrides(Dims{4, s0, 3})[0].same(s0 * Int(3)));
  EXPECT_THROW(contiguousStrides(Dims{1, int64_t{1} << 40, int64_t{1} << 40}), sym::Overflow);
}

TEST(Type, Prints) {
  Context context;
  Int s0 = context.symbols().symbol("s0");
  TensorSpec spec;
  spec.sizes = {64, s0};
  EXPECT_EQ(toString(context.types().tensor(spec)), "f32[64, s0]");
  spec.strides = {1, 64};
  spec.offset = 4;
  spec.device = {DeviceType::CUDA, 0};
  spec.flags.requiresGrad = true;
  EXPECT_EQ(toString(context.types().tensor(spec)),
            "f32[64, s0]{strides: [1, 64], offset: 4, device: cuda:0, requires_grad}");
  EXPECT_EQ(toString(tensor(context, {})), "f32[]");
  EXPECT_EQ(toString(context.types().scalar(TypeKind::Int, s0.node())), "int(s0)");
  EXPECT_EQ(toString(context.types().list(context.types().optional(context.types().opaque("a.B")))),
            "list<optional<opaque<\"a.B\">>>");
}

TEST(Type, NamesReadBack) {
  for (int i = 0; i < kDTypes; ++i) EXPECT_EQ(dtypeFromName(name(static_cast<DType>(i))), static_cast<DType>(i));
  EXPECT_EQ(deviceFromName("cuda:3"), (Device{DeviceType::CUDA, 3}));
  EXPECT_EQ(toString(Device{DeviceType::CUDA, 3}), "cuda:3");
  for (std::string_view bad : {"", "cuda:", "cuda:-1", "cuda:128", "cuda:1x", "cuda:01", "gpu"}) {
    EXPECT_FALSE(deviceFromName(bad)) << bad;
  }
  EXPECT_EQ(layoutFromName("sparse_csr"), Layout::SparseCsr);
  EXPECT_EQ(memoryFormatFromName("channels_last"), MemoryFormat::ChannelsLast);
}

TEST(Text, FloatsLookLikeFloats) {
  auto text = [](double number) {
    std::string out;
    appendFloat(out, number);
    return out;
  };
  EXPECT_EQ(text(1), "1.0");
  EXPECT_EQ(text(-0.0), "-0.0");
  EXPECT_EQ(text(0.1), "0.1");
  EXPECT_EQ(text(1e300), "1e+300");
  EXPECT_EQ(text(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(text(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(text(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(text(-std::numeric_limits<double>::quiet_NaN()), "nan(0xfff8000000000000)");
}

TEST(Arg, SameComparesContents) {
  std::complex<double> a(1, 2), b(1, 2);
  EXPECT_TRUE(sameArg(Arg::complex(&a), Arg::complex(&b)));
  EXPECT_FALSE(sameArg(Arg::number(0.0), Arg::number(-0.0)));
  double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(sameArg(Arg::number(nan), Arg::number(nan)));
  EXPECT_FALSE(sameArg(Arg::integer(1), Arg::boolean(true)));
  Arg x[] = {Arg::integer(1), Arg::string("s")}, y[] = {Arg::integer(1), Arg::string(std::string("s"))};
  EXPECT_TRUE(sameArg(Arg::list(x), Arg::list(x)));
  EXPECT_EQ(hashArg(0, Arg::list(x)), hashArg(0, Arg::list(x)));
  EXPECT_FALSE(sameArg(Arg::list(x), Arg::list({y, 1})));
  EXPECT_EQ(Arg::device({DeviceType::CUDA, -1}).toDevice(), (Device{DeviceType::CUDA, -1}));
}

}  // namespace
}  // namespace saker::ir
