// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "ops/core/mix_cache.h"
#include "ops/kernels/kernel_util.h"
#include "ops/kernels/table_resource.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sfctr {
namespace {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

class CacheOp : public OpKernel {
 public:
  explicit CacheOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::string policy;
    float bandwidth = 0.0f;
    float latency = 0.0f;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("rows", &options_.num_rows));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("bytes", &options_.num_bytes));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("policy", &policy));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("prepare_ahead", &options_.prepare_ahead));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("threads", &options_.num_threads));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("emulated_bytes_per_s", &bandwidth));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("emulated_latency_s", &latency));
    options_.link = {bandwidth, latency};
    if (policy == "lru") {
      options_.policy = CachePolicy::kLru;
    } else if (policy == "lfu") {
      options_.policy = CachePolicy::kLfu;
    } else if (policy == "look_ahead") {
      options_.policy = CachePolicy::kLookAhead;
    } else {
      OP_REQUIRES(ctx, false,
                  absl::InvalidArgumentError(
                      absl::StrCat("MixCache: policy must be lru, lfu or look_ahead; got '", policy, "'.")));
    }
  }

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<MixCache> cache;
    OP_REQUIRES_OK(ctx, ToTfStatus("MixCache", MixCache::Create(options_, &cache)));
    Tensor* handle = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &handle));
    handle->scalar<tensorflow::ResourceHandle>()() =
        tensorflow::ResourceHandle::MakeRefCountingHandle(new CacheResource(std::move(cache)), ctx->device()->name());
  }

 private:
  CacheOptions options_;
};

REGISTER_OP("SfctrCache")
    .Output("handle: resource")
    .Attr("rows: int = 0")
    .Attr("bytes: int = 0")
    .Attr("policy: string")
    .Attr("prepare_ahead: int")
    .Attr("threads: int")
    .Attr("emulated_bytes_per_s: float = 0.0")
    .Attr("emulated_latency_s: float = 0.0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Creates a MixCache in device memory, for the tables that are created with it. It lives as long as its handle or a table.

handle: [] the cache.
rows: slots; or else
bytes: of slots and directory.
policy: lru, lfu or look_ahead.
prepare_ahead: announced batches that the Host-Manager prepares.
threads: of the Host-Manager.
emulated_bytes_per_s, emulated_latency_s: of a slow link to the host; 0 for none.
)doc");

REGISTER_KERNEL_BUILDER(Name("SfctrCache").Device(tensorflow::DEVICE_CPU), CacheOp);

class CacheStatsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<Table> table;
    OP_REQUIRES_OK(ctx, GetTable(ctx, 0, &table));
    OP_REQUIRES(ctx, table->cache() != nullptr,
                absl::FailedPreconditionError(absl::StrCat("EmbeddingTable '", table->name(),
                                                           "': there is no cache. Create the table with one.")));
    MixCache& cache = *table->cache();
    const CacheStats stats = cache.stats(table->cache_number());
    const int64_t values[] = {stats.num_batches,      stats.num_ids,          stats.num_unique, stats.num_fetched,
                              stats.num_written_back, stats.num_prepared,     stats.row_bytes,  cache.num_slots(),
                              cache.num_used(),       cache.directory_bytes()};
    constexpr int kNumValues = sizeof(values) / sizeof(values[0]);
    Tensor* counts = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {kNumValues}, &counts));
    std::copy_n(values, kNumValues, counts->flat<int64_t>().data());
    Tensor* seconds = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, {kNumStages}, &seconds));
    const auto totals = cache.stages()->seconds();
    std::copy(totals.begin(), totals.end(), seconds->flat<double>().data());
  }
};

REGISTER_OP("SfctrCacheStats")
    .Input("handle: resource")
    .Output("counts: int64")
    .Output("seconds: double")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(10));
      c->set_output(1, c->Vector(kNumStages));
      return absl::OkStatus();
    })
    .Doc(R"doc(
Figures of a table's cache, sums since its creation.

handle: [] the table.
counts: [10] of the table: batches, ids, distinct ids, rows fetched, rows written back, batches ready in time, bytes of a
  row; of the whole cache: slots, slots used, bytes of the directory.
seconds: [6] of the whole cache, per stage: dedup, plan, write_back, fetch, wait, train.
)doc");

REGISTER_KERNEL_BUILDER(Name("SfctrCacheStats").Device(tensorflow::DEVICE_CPU), CacheStatsOp);

class CacheStagesOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<Table> table;
    OP_REQUIRES_OK(ctx, GetTable(ctx, 0, &table));
    std::vector<Interval> intervals;
    if (table->cache() != nullptr) intervals = table->cache()->stages()->intervals();
    const auto count = static_cast<int64_t>(intervals.size());
    Tensor* numbers = nullptr;
    Tensor* times = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {count, 2}, &numbers));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, {count, 2}, &times));
    for (int64_t i = 0; i < count; ++i) {
      numbers->matrix<int64_t>()(i, 0) = static_cast<int64_t>(intervals[i].stage);
      numbers->matrix<int64_t>()(i, 1) = intervals[i].batch;
      const auto seconds = [](Clock::time_point time) {
        return std::chrono::duration<double>(time.time_since_epoch()).count();
      };
      times->matrix<double>()(i, 0) = seconds(intervals[i].begin);
      times->matrix<double>()(i, 1) = seconds(intervals[i].end);
    }
  }
};

REGISTER_OP("SfctrCacheStages")
    .Input("handle: resource")
    .Output("numbers: int64")
    .Output("times: double")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Matrix(c->UnknownDim(), 2));
      c->set_output(1, c->Matrix(c->UnknownDim(), 2));
      return absl::OkStatus();
    })
    .Doc(R"doc(
When each stage of a table's cache worked on which batch: the last few thousand intervals, in no order.

handle: [] the table.
numbers: [n, 2] stage and number of the batch (0 for one that was not announced).
times: [n, 2] begin and end in seconds of a steady clock.
)doc");

REGISTER_KERNEL_BUILDER(Name("SfctrCacheStages").Device(tensorflow::DEVICE_CPU), CacheStagesOp);

}  // namespace
}  // namespace sfctr
