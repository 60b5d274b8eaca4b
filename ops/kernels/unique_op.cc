// SPDX-License-Identifier: Apache-2.0
#include "ops/core/unique.h"

#include <cstdint>
#include <limits>
#include <optional>

#include "ops/kernels/kernel_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sfctr {
namespace {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

class UniqueOp : public OpKernel {
 public:
  explicit UniqueOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    bool has_padding = false;
    int64_t padding_id = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("has_padding", &has_padding));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("padding_id", &padding_id));
    if (has_padding) padding_id_ = padding_id;
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& ids = ctx->input(0);
    OP_REQUIRES(ctx, ids.NumElements() <= std::numeric_limits<int32_t>::max(),
                absl::InvalidArgumentError(absl::StrCat("SfctrUnique: ids must be fewer than 2^31; got ",
                                                        ids.NumElements(), ". Split the batch.")));
    Tensor unique_ids;
    Tensor* inverse = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_temp(tensorflow::DT_INT64, {ids.NumElements()}, &unique_ids));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, ids.shape(), &inverse));
    PoolExecutor executor(ctx);
    const int64_t num_unique = Unique(ids.flat<int64_t>().data(), ids.NumElements(), padding_id_,
                                      unique_ids.flat<int64_t>().data(), inverse->flat<int32_t>().data(), &executor);
    ctx->set_output(0, unique_ids.Slice(0, num_unique));
  }

 private:
  std::optional<int64_t> padding_id_;
};

REGISTER_OP("SfctrUnique")
    .Input("ids: int64")
    .Output("unique_ids: int64")
    .Output("inverse: int32")
    .Attr("has_padding: bool = false")
    .Attr("padding_id: int = 0")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(c->UnknownDim()));
      c->set_output(1, c->input(0));
      return absl::OkStatus();
    })
    .Doc(R"doc(
Distinct ids in order of first appearance, and where each id went. There is no gradient.

The result does not depend on the number of threads.

ids: any shape.
unique_ids: [U] the distinct ids, without the padding id.
inverse: shape of ids; unique_ids[inverse] = ids, and -1 for padding.
)doc");

REGISTER_KERNEL_BUILDER(Name("SfctrUnique").Device(tensorflow::DEVICE_CPU), UniqueOp);

}  // namespace
}  // namespace sfctr
