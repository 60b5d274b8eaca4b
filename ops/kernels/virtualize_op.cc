// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "ops/core/buffer.h"
#include "ops/core/unique.h"
#include "ops/core/virtual_batch.h"
#include "ops/kernels/batch_variant.h"
#include "ops/kernels/kernel_util.h"
#include "ops/kernels/uses.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sfctr {
namespace {

using ::tensorflow::OpInputList;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::OpOutputList;
using ::tensorflow::Tensor;

class VirtualizeOp : public OpKernel {
 public:
  explicit VirtualizeOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("batch_sizes", &batch_sizes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("has_padding", &has_padding_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("padding_ids", &padding_ids_));
    int num_features = 0;
    int num_batches = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &num_features));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("B", &num_batches));
    int64_t total = 0;
    for (const int64_t size : batch_sizes_) total += size < 1 ? num_features + 1 : size;
    const size_t b = num_batches;
    OP_REQUIRES(
        ctx, batch_sizes_.size() == b && has_padding_.size() == b && padding_ids_.size() == b && total == num_features,
        absl::InvalidArgumentError(
            "SfctrVirtualize: attributes must have one entry per batch, and batch_sizes add up to all ids."));
  }

  void Compute(OpKernelContext* ctx) override {
    OpInputList ids;
    OpOutputList virtual_ids, batches;
    OP_REQUIRES_OK(ctx, ctx->input_list("ids", &ids));
    OP_REQUIRES_OK(ctx, ctx->output_list("virtual_ids", &virtual_ids));
    OP_REQUIRES_OK(ctx, ctx->output_list("batches", &batches));
    const int num_batches = static_cast<int>(batch_sizes_.size());
    std::vector<std::vector<int>> members(num_batches);
    std::vector<Tensor*> outputs(ids.size());
    std::vector<Tensor*> variants(num_batches);
    std::vector<int64_t> num_ids(num_batches);
    for (int b = 0, i = 0; b < num_batches; ++b) {
      for (int k = 0; k < batch_sizes_[b]; ++k, ++i) {
        members[b].push_back(i);
        num_ids[b] += ids[i].NumElements();
        OP_REQUIRES_OK(ctx, virtual_ids.allocate(i, ids[i].shape(), &outputs[i]));
      }
      OP_REQUIRES(ctx, num_ids[b] < std::numeric_limits<int32_t>::max(),
                  absl::InvalidArgumentError(absl::StrCat("SfctrVirtualize: ids must be fewer than 2^31; got ",
                                                          num_ids[b], ". Split the batch.")));
      OP_REQUIRES_OK(ctx, batches.allocate(b, {}, &variants[b]));
    }
    PoolExecutor pool(ctx);
    RunEach(num_batches, &pool, [&](int b, Executor* executor) {
      std::optional<int64_t> padding_id;
      if (has_padding_[b]) padding_id = padding_ids_[b];
      const int first = members[b][0];
      std::shared_ptr<const UniqueIds> unique;
      if (members[b].size() == 1) {
        unique = Virtualize(ids[first].flat<int64_t>().data(), num_ids[b], padding_id,
                            outputs[first]->flat<int32_t>().data(), executor);
      } else {
        Buffer<int64_t> joined(num_ids[b]);
        Buffer<int32_t> inverse(num_ids[b]);
        int64_t begin = 0;
        for (const int i : members[b]) {
          std::copy_n(ids[i].flat<int64_t>().data(), ids[i].NumElements(), joined.data() + begin);
          begin += ids[i].NumElements();
        }
        unique = Virtualize(joined.data(), num_ids[b], padding_id, inverse.data(), executor);
        begin = 0;
        for (const int i : members[b]) {
          std::copy_n(inverse.data() + begin, ids[i].NumElements(), outputs[i]->flat<int32_t>().data());
          begin += ids[i].NumElements();
        }
      }
      variants[b]->scalar<tensorflow::Variant>()() = BatchVariant{std::make_shared<VirtualBatch>(std::move(unique))};
    });
  }

 private:
  std::vector<int64_t> batch_sizes_;
  std::vector<bool> has_padding_;
  std::vector<int64_t> padding_ids_;
};

REGISTER_OP("SfctrVirtualize")
    .Input("ids: N * int64")
    .Output("virtual_ids: N * int32")
    .Output("batches: B * variant")
    .Attr("N: int >= 1")
    .Attr("B: int >= 1")
    .Attr("batch_sizes: list(int)")
    .Attr("has_padding: list(bool)")
    .Attr("padding_ids: list(int)")
    // Not to be merged with another op of the same inputs: a batch is one place in the stream of batches.
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      const int num_features = c->num_inputs();
      for (int i = 0; i < num_features; ++i) c->set_output(i, c->input(i));
      for (int i = num_features; i < c->num_outputs(); ++i) c->set_output(i, c->Scalar());
      return absl::OkStatus();
    })
    .Doc(R"doc(
Makes batches: renames ids to virtual ids, int32 positions among the distinct ids of their batch.

ids: any shapes. The first batch_sizes[0] of them make up the first batch, and so on.
virtual_ids: shapes of ids; -1 for padding.
batches: [] what SfctrLookup needs beside virtual ids.
batch_sizes: how many of the ids make up each batch.
has_padding, padding_ids: per batch, the id that stands for "absent".
)doc");

REGISTER_KERNEL_BUILDER(Name("SfctrVirtualize").Device(tensorflow::DEVICE_CPU), VirtualizeOp);

}  // namespace
}  // namespace sfctr
