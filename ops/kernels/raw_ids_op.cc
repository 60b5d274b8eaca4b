// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>

#include "ops/core/unique.h"
#include "ops/kernels/batch_variant.h"
#include "ops/kernels/kernel_util.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sfctr {
namespace {

using ::tensorflow::Tensor;

class RawIdsOp : public tensorflow::OpKernel {
 public:
  explicit RawIdsOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("padding_id", &padding_id_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::shared_ptr<VirtualBatch> batch;
    OP_REQUIRES_OK(ctx, GetBatch(ctx->input(1), &batch));
    Tensor* ids = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, ctx->input(0).shape(), &ids));
    const auto virtual_ids = ctx->input(0).flat<int32_t>();
    auto out = ids->flat<int64_t>();
    const UniqueIds& unique = *batch->unique();
    for (int64_t i = 0; i < virtual_ids.size(); ++i) {
      const int32_t u = virtual_ids(i);
      OP_REQUIRES(ctx, u >= kPadding && u < unique.num_unique,
                  absl::InvalidArgumentError(absl::StrCat("virtual ids must be in [-1, ", unique.num_unique,
                                                          "), the ids of their batch; got ", u,
                                                          ". Pass the values of a virtualized feature unchanged.")));
      out(i) = u == kPadding ? padding_id_ : unique.ids[u];
    }
  }

 private:
  int64_t padding_id_ = 0;
};

REGISTER_OP("SfctrRawIds")
    .Input("virtual_ids: int32")
    .Input("batch: variant")
    .Output("ids: int64")
    .Attr("padding_id: int")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc(R"doc(
Turns virtual ids back into ids.

virtual_ids: any shape.
batch: [] of SfctrVirtualize.
ids: shape of virtual_ids.
padding_id: for padding.
)doc");

REGISTER_KERNEL_BUILDER(Name("SfctrRawIds").Device(tensorflow::DEVICE_CPU), RawIdsOp);

// The one batch that all inputs are.
class JoinBatchesOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::shared_ptr<VirtualBatch> first;
    OP_REQUIRES_OK(ctx, GetBatch(ctx->input(0), &first));
    for (int i = 1; i < ctx->num_inputs(); ++i) {
      std::shared_ptr<VirtualBatch> other;
      OP_REQUIRES_OK(ctx, GetBatch(ctx->input(i), &other));
      OP_REQUIRES(ctx, other == first,
                  absl::InvalidArgumentError(
                      "features of one table must come from the same element of one virtualized dataset. Virtualize "
                      "them together, or pass raw ids."));
    }
    ctx->set_output(0, ctx->input(0));
  }
};

REGISTER_OP("SfctrJoinBatches")
    .Input("batches: N * variant")
    .Output("batch: variant")
    .Attr("N: int >= 1")
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
The batch that all inputs are; an error if they differ.

batches: [] each, of SfctrVirtualize.
batch: [].
)doc");

REGISTER_KERNEL_BUILDER(Name("SfctrJoinBatches").Device(tensorflow::DEVICE_CPU), JoinBatchesOp);

}  // namespace
}  // namespace sfctr
