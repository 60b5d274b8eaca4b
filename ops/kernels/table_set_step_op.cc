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
using ::tensorflow::shape_inference::InferenceContext;
using ::tensorflow::shape_inference::ShapeHandle;

class TableSetStepOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<Table> table;
    OP_REQUIRES_OK(ctx, GetTable(ctx, 0, &table));
    PoolExecutor executor(ctx);
    const Status status = table->set_step(ctx->input(1).scalar<int64_t>()(), &executor);
    OP_REQUIRES_OK(ctx, ToTfStatus(absl::StrCat("EmbeddingTable '", table->name(), "'"), status));
  }
};

REGISTER_OP("SfctrTableSetStep")
    .Input("handle: resource")
    .Input("step: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle unused;
      return c->WithRank(c->input(1), 0, &unused);
    })
    .Doc(R"doc(
Sets the number of updates a table has had, which a restored table goes on from.

step: [] at least 0.
)doc");

REGISTER_KERNEL_BUILDER(Name("SfctrTableSetStep").Device(tensorflow::DEVICE_CPU), TableSetStepOp);

}  // namespace
}  // namespace sfctr
