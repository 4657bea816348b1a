// Recurrent layers and cells as library calls.
#include "ops/accept.h"
#include "ops/families.h"
#include "ops/own_size.h"
#include "ops/windows.h"

namespace saker::ops {

namespace {

// The library decides how much it keeps for the backward, by the machine it runs on.
void ownWorkspace(Infer&) { refuse(Reason::DataDependent, "the size of the library's workspace is its own"); }

// input, four weights, hx, cx, reverse, batch_sizes, mode, hidden_size, ...: the workspace is for the backward.
void onednnLayer(Infer& in) {
  const TensorType &input = in.tensor(0), &hx = in.tensor(5), &cx = in.tensor(6);
  if (input.dtype != DType::Float32) unsupported("mkldnn_rnn_layer beyond f32");
  if (input.rank != 3) refuse("mkldnn_rnn_layer: the ranks do not fit");
  in.contiguous(Dims{input.size(0), input.size(1), in.integer(10)}, input);
  in.contiguous(hx.sizes(), hx);
  in.contiguous(cx.sizes(), cx);
  if (!in.context().ambient().gradEnabled) return noResult(in);
  in.contiguous(Dims{ownSize(in)}, DType::UInt8, input.device);
}

// How many steps there are depends on the lengths.
void packedSequence(Infer&) { refuse(Reason::DataDependent, "the number of packed steps depends on the lengths"); }

// Gradients of input, the two weights, the two biases, and both states; each row-major in the sizes of what it is for.
void onednnBackward(Infer& in) {
  const TensorType &input = in.tensor(0), &weight = in.tensor(1), &hidden = in.tensor(2), &hx = in.tensor(5);
  if (input.dtype != DType::Float32) unsupported("mkldnn_rnn_layer_backward beyond f32");
  if (input.rank != 3 || weight.rank != 2 || hidden.rank != 2)
    refuse("mkldnn_rnn_layer_backward: the ranks do not fit");
  in.contiguous(input.sizes(), input);
  in.contiguous(weight.sizes(), weight);
  in.contiguous(hidden.sizes(), hidden);
  for (int i = 0; i < 2; ++i) in.contiguous(Dims{weight.size(0)}, weight);
  for (int i = 0; i < 2; ++i) in.contiguous(hx.sizes(), hx);
}

// The fused cells exist on CUDA only; these rules follow the sizes their kernels allocate.
// input_gates, hidden_gates, cx, input_bias, hidden_bias
void lstmCell(Infer& in) {
  const TensorType &gates = in.tensor(0), &cx = in.tensor(2);
  if (gates.rank != 2 || cx.rank != 2) refuse("a fused cell takes matrices");
  in.contiguous(cx.sizes(), cx);
  in.contiguous(cx.sizes(), cx);
  in.contiguous(gates.sizes(), gates);
}

// grad_hy, grad_cy, cx, cy, workspace, has_bias
void lstmCellBackward(Infer& in) {
  const TensorType &cx = in.tensor(2), &workspace = in.tensor(4);
  if (!in.given(0) && !in.given(1)) {
    for (int i = 0; i < 3; ++i) noResult(in);
    return;
  }
  if (workspace.rank != 2) refuse("a fused cell takes matrices");
  in.contiguous(workspace.sizes(), workspace);
  in.contiguous(cx.sizes(), cx);
  in.boolean(5) ? in.contiguous(Dims{workspace.size(1)}, workspace) : noResult(in);
}

// input_gates, hidden_gates, hx, input_bias, hidden_bias: the workspace holds five values for each of hx
void gruCell(Infer& in) {
  const TensorType& hx = in.tensor(2);
  if (hx.rank != 2) refuse("a fused cell takes matrices");
  in.contiguous(hx.sizes(), hx);
  in.contiguous(Dims{hx.size(0), hx.size(1) * Int(5)}, hx);
}

// grad_hy, workspace, has_bias
void gruCellBackward(Infer& in) {
  const TensorType &grad = in.tensor(0), &workspace = in.tensor(1);
  if (workspace.rank != 2) refuse("a fused cell takes matrices");
  Int width = workspace.size(1) / Int(5) * Int(3);
  for (int i = 0; i < 2; ++i) in.contiguous(Dims{workspace.size(0), width}, workspace);
  in.contiguous(grad.sizes(), grad);
  for (int i = 0; i < 2; ++i) in.boolean(2) ? in.contiguous(Dims{width}, workspace) : noResult(in);
}

}  // namespace

void addRecurrent(Rows& rows) {
  rows.push_back(
      {"aten::mkldnn_rnn_layer(Tensor input, Tensor weight0, Tensor weight1, Tensor weight2, Tensor weight3, Tensor "
       "hx_, "
       "Tensor cx_, bool reverse, int[] batch_sizes, int mode, int hidden_size, int num_layers, bool has_biases, "
       "bool bidirectional, bool batch_first, bool train) -> (Tensor, Tensor, Tensor, Tensor)",
       onednnLayer, Cost::Library, kDynamicShape | kReadsState});
  rows.push_back(
      {"aten::mkldnn_rnn_layer_backward(Tensor input, Tensor weight1, Tensor weight2, Tensor weight3, Tensor weight4, "
       "Tensor hx_, Tensor cx_tmp, Tensor output, Tensor hy_, Tensor cy_, Tensor? grad_output, Tensor? grad_hy, "
       "Tensor? grad_cy, bool reverse, int mode, int hidden_size, int num_layers, bool has_biases, bool train, "
       "bool bidirectional, int[] batch_sizes, bool batch_first, Tensor workspace) -> (Tensor, Tensor, Tensor, Tensor, "
       "Tensor, Tensor, Tensor)",
       onednnBackward, Cost::Library});
  rows.push_back(
      {"aten::_cudnn_rnn(Tensor input, Tensor[] weight, int weight_stride0, Tensor? weight_buf, Tensor hx, "
       "Tensor? cx, int mode, SymInt hidden_size, SymInt proj_size, int num_layers, bool batch_first, "
       "float dropout, bool train, bool bidirectional, SymInt[] batch_sizes, Tensor? dropout_state) -> "
       "(Tensor, Tensor, Tensor, Tensor, Tensor)",
       ownWorkspace, Cost::Library, kDynamicShape | kRandom});
  rows.push_back({"aten::_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)",
                  packedSequence, Cost::Indexing, kDynamicShape | kFailsOnData | kHostResult});
  rows.push_back(
      {"aten::_thnn_fused_lstm_cell(Tensor input_gates, Tensor hidden_gates, Tensor cx, "
       "Tensor? input_bias=None, Tensor? hidden_bias=None) -> (Tensor, Tensor, Tensor)",
       lstmCell, Cost::Library});
  rows.push_back(
      {"aten::_thnn_fused_lstm_cell_backward_impl(Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor cy, "
       "Tensor workspace, bool has_bias) -> (Tensor, Tensor, Tensor)",
       lstmCellBackward, Cost::Library});
  rows.push_back(
      {"aten::_thnn_fused_gru_cell(Tensor input_gates, Tensor hidden_gates, Tensor hx, "
       "Tensor? input_bias=None, Tensor? hidden_bias=None) -> (Tensor, Tensor)",
       gruCell, Cost::Library});
  rows.push_back(
      {"aten::_thnn_fused_gru_cell_backward(Tensor grad_hy, Tensor workspace, bool has_bias) -> "
       "(Tensor, Tensor, Tensor, Tensor, Tensor)",
       gruCellBackward, Cost::Library});
}

}  // namespace saker::ops
