// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/kernels/kernel_util.h"
#include "ops/kernels/table_resource.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sfctr {
namespace {

using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

class TableExportOp : public tensorflow::OpKernel {
 public:
  explicit TableExportOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("whole_rows", &whole_rows_));
  }

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<Table> table;
    OP_REQUIRES_OK(ctx, GetTable(ctx, 0, &table));
    const int64_t cursor = ctx->input(1).scalar<int64_t>()();
    const int64_t max_rows = ctx->input(2).scalar<int64_t>()();
    OP_REQUIRES(ctx, cursor >= 0 && max_rows > 0,
                absl::InvalidArgumentError(absl::StrCat("EmbeddingTable '", table->name(),
                                                        "': export needs cursor >= 0 and max_rows > 0; got ", cursor,
                                                        " and ", max_rows, ". Begin with cursor 0.")));
    const int64_t width = whole_rows_ ? table->layout().row_floats() : table->layout().embedding_floats();
    absl::Status allocated;
    const auto allocate_values = [&](int64_t num_rows) -> float* {
      Tensor* values = nullptr;
      allocated = ctx->allocate_output(1, {num_rows, width}, &values);
      return allocated.ok() ? values->flat<float>().data() : nullptr;
    };
    std::vector<int64_t> ids;
    int64_t next_cursor = -1;
    PoolExecutor executor(ctx);
    const Status status = table->Export(cursor, max_rows, width, &ids, allocate_values, &next_cursor, &executor);
    OP_REQUIRES_OK(ctx, allocated);
    OP_REQUIRES_OK(ctx, ToTfStatus(absl::StrCat("EmbeddingTable '", table->name(), "'"), status));
    Tensor* id_output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {static_cast<int64_t>(ids.size())}, &id_output));
    std::copy(ids.begin(), ids.end(), id_output->flat<int64_t>().data());
    Tensor* next = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(2, {}, &next));
    next->scalar<int64_t>()() = next_cursor;
  }

 private:
  bool whole_rows_ = false;
};

REGISTER_OP("SfctrTableExport")
    .Input("handle: resource")
    .Input("cursor: int64")
    .Input("max_rows: int64")
    .Output("ids: int64")
    .Output("values: float")
    .Output("next_cursor: int64")
    .Attr("whole_rows: bool")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle unused;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 0, &unused));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 0, &unused));
      c->set_output(0, c->Vector(c->UnknownDim()));
      c->set_output(1, c->Matrix(c->UnknownDim(), c->UnknownDim()));
      c->set_output(2, c->Scalar());
      return absl::OkStatus();
    })
    .Doc(R"doc(
Copies a part of a table's rows, in the order of their numbers.

cursor: [] where to begin: 0, or the next_cursor of the call before.
max_rows: [] rows of this part at most.
ids: [n].
values: [n, width] embeddings, or embedding and optimizer state with whole_rows.
next_cursor: [] where to go on; -1 at the end.
)doc");

REGISTER_KERNEL_BUILDER(Name("SfctrTableExport").Device(tensorflow::DEVICE_CPU), TableExportOp);

}  // namespace
}  // namespace sfctr
