// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdint>
#include <memory>

#include "ops/kernels/batch_variant.h"
#include "ops/kernels/kernel_util.h"
#include "ops/kernels/table_resource.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sfctr {
namespace {

// Of announcements in this process, whatever the dataset.
std::atomic<int64_t> num_announced{0};

class AnnounceOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const int num_tables = ctx->num_inputs() / 2;
    const int64_t number = ++num_announced;
    for (int i = 0; i < num_tables; ++i) {
      std::shared_ptr<Table> table;
      std::shared_ptr<VirtualBatch> batch;
      OP_REQUIRES_OK(ctx, GetTable(ctx, i, &table));
      OP_REQUIRES_OK(ctx, GetBatch(ctx->input(num_tables + i), &batch));
      table->Announce(table->PartOf(batch.get()), number);
    }
  }
};

REGISTER_OP("SfctrAnnounce")
    .Input("handles: N * resource")
    .Input("batches: N * variant")
    .Attr("N: int >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Tells the caches of tables that batches will be trained, in the order of calls; those of one call in one step.

handles: tables.
batches: [] of SfctrVirtualize, one per table.
)doc");

REGISTER_KERNEL_BUILDER(Name("SfctrAnnounce").Device(tensorflow::DEVICE_CPU), AnnounceOp);

}  // namespace
}  // namespace sfctr
