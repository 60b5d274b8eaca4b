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

class TableStatsOp : public tensorflow::OpKernel {
 public:
  explicit TableStatsOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("flush", &flush_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::shared_ptr<Table> table;
    OP_REQUIRES_OK(ctx, GetTable(ctx, 0, &table));
    tensorflow::Tensor* stats = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {4}, &stats));
    PoolExecutor executor(ctx);
    TableStats values;
    OP_REQUIRES_OK(ctx, ToTfStatus(absl::StrCat("EmbeddingTable '", table->name(), "'"),
                                   table->Stats(flush_, &values, &executor)));
    auto out = stats->vec<int64_t>();
    out(0) = values.num_rows;
    out(1) = values.row_bytes;
    out(2) = values.index_bytes;
    out(3) = values.step;
  }

 private:
  bool flush_ = true;
};

REGISTER_OP("SfctrTableStats")
    .Input("handle: resource")
    .Output("stats: int64")
    .Attr("flush: bool = true")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(4));
      return absl::OkStatus();
    })
    .Doc(R"doc(
Figures of a table.

stats: [4] rows that exist; bytes of those rows; bytes of the index; updates so far.
flush: first apply what is pending; false inside a step, which would be cut in two. Without it, the first three are -1
  for a table with a cache.
)doc");

REGISTER_KERNEL_BUILDER(Name("SfctrTableStats").Device(tensorflow::DEVICE_CPU), TableStatsOp);

}  // namespace
}  // namespace sfctr
