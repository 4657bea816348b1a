// Attention as one library call: the flash kernels of CPU and CUDA, and what surrounds them.
#include "ops/accept.h"
#include "ops/attention_layout.h"
#include "ops/families.h"
#include "ops/windows.h"

namespace saker::ops {

namespace {

void denseLike(Infer& in, const TensorType& like) {
  TensorSpec spec = in.viewOf(like);
  spec.offset = 0;
  spec.strides = denseStridesLike(like);
  in.result(spec);
}

DType accumulation(DType dtype) { return dtype == DType::Float64 ? dtype : DType::Float32; }

struct Heads {
  const TensorType &query, &key, &value;
};

// query, key and value of sizes (B, H, S, D), alike in D.
Heads heads(Infer& in, size_t first) {
  Heads h{in.tensor(first), in.tensor(first + 1), in.tensor(first + 2)};
  for (const TensorType* t : {&h.query, &h.key, &h.value}) {
    if (t->rank != 4) refuse("attention takes tensors of four dimensions");
    if (t->dtype != h.query.dtype) refuse("query, key and value are of different dtypes");
    if (t->device != h.query.device) refuse("query, key and value are on different devices");
  }
  require(in, kFloats, h.query.dtype);
  return h;
}

void requireMask(const TensorType* mask, const TensorType& query) {
  if (!mask) return;
  if (mask->dtype != query.dtype) refuse("the mask must be of the query's dtype");
  if (mask->rank != 2 && mask->rank != 4) refuse("the mask must have two or four dimensions");
}

// query, key, value, dropout_p, is_causal, attn_mask, scale
void flashCpu(Infer& in) {
  Heads h = heads(in, 0);
  if (in.number(3) != 0) refuse("the CPU kernel has no dropout");
  if (h.query.size(3) != h.key.size(3) || h.query.size(3) != h.value.size(3)) refuse("the head sizes differ");
  requireMask(in.optionalTensor(5), h.query);
  denseLike(in, h.query);
  in.result(headsInside(h.query.sizes().first(3), accumulation(h.query.dtype), h.query.device));
}

// grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale
void flashCpuBackward(Infer& in) {
  Heads h = heads(in, 1);
  requireMask(in.optionalTensor(8), h.query);
  for (const TensorType* t : {&h.query, &h.key, &h.value}) in.result(headsInside(t->sizes(), t->dtype, t->device));
}

// qkv, qkv_bias, num_heads: three tensors of sizes (B, heads, S, D / heads) in one storage
void rescaleQkv(Infer& in) {
  const TensorType &qkv = in.tensor(0), &bias = in.tensor(1);
  Int count = in.integer(2);
  if (qkv.rank != 3 || bias.rank != 1) refuse("_transform_bias_rescale_qkv: the ranks do not fit");
  if (qkv.dtype != bias.dtype || !accepts(kFloats, qkv.dtype))
    refuse("_transform_bias_rescale_qkv: the dtypes do not fit");
  Int width = bias.size(0) / Int(3);
  if (bias.size(0) % Int(3) != Int(0) || width % count != Int(0)) refuse("the width does not divide into heads");
  if (qkv.size(2) != bias.size(0)) refuse("the bias does not fit");
  Dims sizes{qkv.size(0), count, qkv.size(1), width / count};
  TensorSpec spec;
  spec.dtype = qkv.dtype;
  spec.device = qkv.device;
  spec.sizes = sizes;
  spec.strides = ir::contiguousStrides(sizes);
  for (int i = 0; i < 3; ++i) {
    spec.offset = Int(i) * ir::numel(sizes);
    in.result(spec);
  }
}

// The fused forward of a whole layer, for inference: query, key, value, embed_dim, num_head, qkv_weight, qkv_bias,
// proj_weight, proj_bias, mask, need_weights, average_attn_weights, mask_type
void multiHead(Infer& in) {
  const TensorType &query = in.tensor(0), &key = in.tensor(1), &value = in.tensor(2), &weight = in.tensor(5);
  Int width = in.integer(3), count = in.integer(4);
  if (query.rank != 3) refuse("attention takes tensors of three dimensions");
  if (query.size(2) != width) refuse("embed_dim is not the width of the query");
  if (!sameSizes(query.sizes(), key.sizes()) || !sameSizes(query.sizes(), value.sizes())) {
    refuse("query, key and value differ in size");
  }
  if (query.dtype != weight.dtype || !accepts(kFloats, query.dtype)) refuse("the weights are of another dtype");
  if (weight.rank != 2 || weight.size(0) != Int(3) * width || weight.size(1) != width)
    refuse("qkv_weight does not fit");
  if (in.tensor(6).rank != 1 || in.tensor(6).size(0) != weight.size(0)) refuse("qkv_bias does not fit");
  if (width % count != Int(0)) refuse("embed_dim does not divide into heads");
  in.contiguous(query.sizes(), query);
  Int batch = query.size(0), length = query.size(1);
  if (!in.boolean(10)) return noResult(in);
  if (in.boolean(11)) return in.contiguous(Dims{batch, length, length}, query);
  in.contiguous(Dims{batch, count, length, length}, query);
}

// src, embed_dim, num_heads, weights ...
void encoderLayer(Infer& in) {
  const TensorType &source = in.tensor(0), &weight = in.tensor(3);
  if (source.rank != 3 || source.size(2) != in.integer(1)) refuse("the source does not fit embed_dim");
  if (in.integer(1) % in.integer(2) != Int(0)) refuse("embed_dim does not divide into heads");
  if (source.dtype != weight.dtype || !accepts(kFloats, source.dtype)) refuse("the weights are of another dtype");
  in.contiguous(source.sizes(), source);
}

}  // namespace

void addAttention(Rows& rows) {
  rows.push_back(
      {"aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, "
       "float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> "
       "(Tensor output, Tensor logsumexp)",
       flashCpu, Cost::Attention});
  rows.push_back(
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, "
       "Tensor key, Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, "
       "Tensor? attn_mask=None, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)",
       flashCpuBackward, Cost::Attention});
  rows.push_back(
      {"aten::_transform_bias_rescale_qkv(Tensor qkv, Tensor qkv_bias, int num_heads) -> "
       "(Tensor, Tensor, Tensor)",
       rescaleQkv, Cost::Indexing});
  rows.push_back(
      {"aten::_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, "
       "Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? mask=None, "
       "bool need_weights=True, bool average_attn_weights=True, int? mask_type=None) -> (Tensor, Tensor)",
       multiHead, Cost::Attention});
  rows.push_back(
      {"aten::_transformer_encoder_layer_fwd(Tensor src, int embed_dim, int num_heads, Tensor qkv_weight, "
       "Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, bool use_gelu, bool norm_first, float eps, "
       "Tensor norm_weight_1, Tensor norm_bias_1, Tensor norm_weight_2, Tensor norm_bias_2, "
       "Tensor ffn_weight_1, Tensor ffn_bias_1, Tensor ffn_weight_2, Tensor ffn_bias_2, Tensor? mask=None, "
       "int? mask_type=None) -> Tensor",
       encoderLayer, Cost::Attention});
}

}  // namespace saker::ops
