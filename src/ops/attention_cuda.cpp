// The attention kernels of CUDA: what they return beside the result (logsumexp, the state of the random generator), in
// the sizes and strides that the kernels allocate. Checked against recordings of an H200 with torch 2.11.
#include "ops/accept.h"
#include "ops/attention_layout.h"
#include "ops/families.h"
#include "ops/windows.h"

namespace saker::ops {

namespace {

// What empty_like gives for the (B, S, H, D) view of `like`, seen as (B, H, S, D) again.
void likeTransposed(Infer& in, const TensorType& like) {
  TensorSpec spec = in.viewOf(like);
  std::swap(spec.sizes[1], spec.sizes[2]);
  std::swap(spec.strides[1], spec.strides[2]);
  spec.offset = 0;
  spec.strides = denseStridesLike(*in.context().types().tensor(spec));
  std::swap(spec.sizes[1], spec.sizes[2]);
  std::swap(spec.strides[1], spec.strides[2]);
  in.result(spec);
}

struct Heads {
  const TensorType &query, &key, &value;
  Int batch() const { return query.size(0); }
  Int count() const { return query.size(1); }
  Int lengthQ() const { return query.size(2); }
  Int lengthK() const { return key.size(2); }
};

Heads heads(Infer& in, size_t first) {
  Heads h{in.tensor(first), in.tensor(first + 1), in.tensor(first + 2)};
  for (const TensorType* t : {&h.query, &h.key, &h.value}) {
    if (t->rank != 4) refuse("attention takes tensors of four dimensions");
    if (t->dtype != h.query.dtype) refuse("query, key and value are of different dtypes");
    if (t->device != h.query.device) refuse("query, key and value are on different devices");
  }
  if (h.query.device.type != DeviceType::CUDA) refuse("these kernels exist on CUDA only");
  require(in, kFloats, h.query.dtype);
  return h;
}

void integerResult(Infer& in, Int value) {
  const sym::Node* node = value.in(in.context().symbols());
  in.result(in.context().types().scalar(ir::TypeKind::Int, node));
}

void requireHalf(const TensorType& t) {
  if (t.dtype != DType::Float16 && t.dtype != DType::BFloat16) refuse("the kernel computes in f16 or bf16");
}

// query, key, value, dropout_p, is_causal, return_debug_mask, scale
void flash(Infer& in) {
  Heads h = heads(in, 0);
  requireHalf(h.query);
  if (in.boolean(5)) unsupported("the debug mask of attention");
  if (h.query.size(3) % Int(8) != Int(0)) unsupported("a head size that is no multiple of 8");
  likeTransposed(in, h.query);
  in.contiguous(Dims{h.batch(), h.count(), h.lengthQ()}, DType::Float32, h.query.device);
  noResult(in);
  noResult(in);
  integerResult(in, h.lengthQ());
  integerResult(in, h.lengthK());
  in.contiguous(Dims{Int(2)}, DType::UInt64, h.query.device);
  in.contiguous({}, DType::UInt64, h.query.device);
  in.contiguous(Dims{Int(0)}, h.query);
}

// grad_out, query, key, value, ...: gradients in the memory order of what they are for
void flashBackward(Infer& in) {
  Heads h = heads(in, 1);
  requireHalf(h.query);
  for (const TensorType* t : {&h.query, &h.key, &h.value}) likeTransposed(in, *t);
}

// query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, scale
void efficient(Infer& in) {
  Heads h = heads(in, 0);
  Int aligned = Int(16 / ir::byteSize(h.query.dtype));
  if (h.query.size(3) % aligned != Int(0) || h.value.size(3) % aligned != Int(0))
    refuse("the head size is not aligned");
  Dims sizes{h.batch(), h.count(), h.lengthQ(), h.value.size(3)};
  in.result(headsInside(sizes, h.query.dtype, h.query.device));
  // Rounded up to the kernel's blocks of 32 queries; empty when it is not asked for.
  Int rows = in.boolean(4) ? ceilDiv(h.lengthQ(), Int(32)) * Int(32) : Int(0);
  in.contiguous(Dims{h.batch(), h.count(), rows}, DType::Float32, h.query.device);
  // Outside of the capture of a CUDA graph, seed and offset stay on the host.
  for (int i = 0; i < 2; ++i) in.contiguous({}, DType::Int64, Device{});
}

// grad_out_, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, dropout_p, grad_input_mask, ...
void efficientBackward(Infer& in) {
  Heads h = heads(in, 1);
  Dims mask = in.ints(10);
  if (mask.size() != 4) refuse("grad_input_mask must have four elements");
  const TensorType* bias = in.optionalTensor(4);
  if (!bias && mask[3].guard()) refuse("the gradient of a bias that is not there");
  for (const TensorType* t : {&h.query, &h.key, &h.value}) in.result(headsInside(t->sizes(), t->dtype, t->device));
  if (!bias || !mask[3].guard()) return noResult(in);
  if (bias->rank != 4) unsupported("an attention bias of other than four dimensions");
  // Rows are aligned to sixteen elements.
  TensorSpec spec;
  spec.dtype = bias->dtype;
  spec.device = bias->device;
  spec.sizes = Dims(bias->sizes());
  Dims padded = spec.sizes;
  padded[3] = ceilDiv(padded[3], Int(16)) * Int(16);
  spec.strides = ir::contiguousStrides(padded);
  in.result(spec);
}

void denseLike(Infer& in, const TensorType& like) {
  TensorSpec spec = in.viewOf(like);
  spec.offset = 0;
  spec.strides = denseStridesLike(like);
  in.result(spec);
}

// query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, return_debug_mask, scale
void cudnn(Infer& in) {
  Heads h = heads(in, 0);
  if (h.query.size(3) % Int(8) != Int(0)) refuse("a head size that is no multiple of 8");
  if (h.value.size(3) != h.query.size(3)) unsupported("values of another width");
  denseLike(in, h.query);
  if (in.boolean(4)) {
    in.contiguous(Dims{h.batch(), h.count(), h.lengthQ(), Int(1)}, DType::Float32, h.query.device);
  } else {
    noResult(in);
  }
  noResult(in);
  noResult(in);
  integerResult(in, h.lengthQ());
  integerResult(in, h.lengthK());
  for (int i = 0; i < 2; ++i) in.contiguous({}, DType::Int64, h.query.device);
  noResult(in);
}

void cudnnBackward(Infer& in) {
  Heads h = heads(in, 1);
  for (const TensorType* t : {&h.query, &h.key, &h.value}) denseLike(in, *t);
}

}  // namespace

void addCudaAttention(Rows& rows) {
  const std::string inputs = "Tensor query, Tensor key, Tensor value, ";
  const std::string results =
      " -> (Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, ";
  rows.push_back({"aten::_scaled_dot_product_flash_attention(" + inputs +
                      "float dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, float? scale=None)" +
                      results + "Tensor rng_state, Tensor unused, Tensor debug_attn_mask)",
                  flash, Cost::Attention, kRandom});
  rows.push_back(
      {"aten::_scaled_dot_product_flash_attention_backward(Tensor grad_out, " + inputs +
           "Tensor out, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, "
           "float dropout_p, bool is_causal, Tensor philox_seed, Tensor philox_offset, *, float? scale=None) -> "
           "(Tensor grad_query, Tensor grad_key, Tensor grad_value)",
       flashBackward, Cost::Attention, kNondeterministic});
  rows.push_back(
      {"aten::_scaled_dot_product_efficient_attention(" + inputs +
           "Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0., bool is_causal=False, *, "
           "float? scale=None) -> (Tensor output, Tensor log_sumexp, Tensor philox_seed, Tensor philox_offset)",
       efficient, Cost::Attention, kRandom});
  rows.push_back(
      {"aten::_scaled_dot_product_efficient_attention_backward(Tensor grad_out_, " + inputs +
           "Tensor attn_bias, Tensor out, Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, "
           "float dropout_p, bool[4] grad_input_mask, bool is_causal=False, *, float? scale=None) -> (Tensor, "
           "Tensor, Tensor, Tensor)",
       efficientBackward, Cost::Attention, kNondeterministic});
  rows.push_back({"aten::_scaled_dot_product_cudnn_attention(" + inputs +
                      "Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0., bool is_causal=False, "
                      "bool return_debug_mask=False, *, float? scale=None)" +
                      results + "Tensor philox_seed, Tensor philox_offset, Tensor debug_attn_mask)",
                  cudnn, Cost::Attention, kRandom});
  rows.push_back(
      {"aten::_scaled_dot_product_cudnn_attention_backward(Tensor grad_out, " + inputs +
           "Tensor out, Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, Tensor attn_bias, "
           "Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, *, "
           "float? scale=None) -> (Tensor, Tensor, Tensor)",
       cudnnBackward, Cost::Attention, kNondeterministic});
}

}  // namespace saker::ops
