// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>

#include "ops/kernels/kernel_util.h"
#include "ops/kernels/table_resource.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sfctr {
namespace {

using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::shape_inference::InferenceContext;
using ::tensorflow::shape_inference::ShapeHandle;

class TableImportOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<Table> table;
    OP_REQUIRES_OK(ctx, GetTable(ctx, 0, &table));
    const Tensor& ids = ctx->input(1);
    const Tensor& values = ctx->input(2);
    OP_REQUIRES(ctx, ids.dims() == 1 && values.dims() == 2 && values.dim_size(0) == ids.dim_size(0),
                absl::InvalidArgumentError(absl::StrCat(
                    "EmbeddingTable '", table->name(), "': ids must be [n] and rows [n, width]; got ",
                    ids.shape().DebugString(), " and ", values.shape().DebugString(), ". Pass one row per id.")));
    PoolExecutor executor(ctx);
    const Status status = table->Import(ids.flat<int64_t>().data(), ids.NumElements(), values.flat<float>().data(),
                                        values.dim_size(1), &executor);
    OP_REQUIRES_OK(ctx, ToTfStatus(absl::StrCat("EmbeddingTable '", table->name(), "'"), status));
  }
};

REGISTER_OP("SfctrTableImport")
    .Input("handle: resource")
    .Input("ids: int64")
    .Input("values: float")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle unused;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &unused));
      return c->WithRank(c->input(2), 2, &unused);
    })
    .Doc(R"doc(
Sets rows of a table and creates those that are missing. On an error nothing is changed.

ids: [n] distinct.
values: [n, width] embeddings, or embedding and optimizer state; the width says which.
)doc");

REGISTER_KERNEL_BUILDER(Name("SfctrTableImport").Device(tensorflow::DEVICE_CPU), TableImportOp);

}  // namespace
}  // namespace sfctr
