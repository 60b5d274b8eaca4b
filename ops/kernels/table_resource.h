// SPDX-License-Identifier: Apache-2.0
// The TensorFlow resources that hold a Table and a MixCache. They live as long as some handle to them.
#ifndef TF_SFCTR_OPS_KERNELS_TABLE_RESOURCE_H_
#define TF_SFCTR_OPS_KERNELS_TABLE_RESOURCE_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/core/mix_cache.h"
#include "ops/core/table.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace sfctr {

class TableResource : public tensorflow::ResourceBase {
 public:
  explicit TableResource(std::shared_ptr<Table> table) : table_(std::move(table)) {}
  std::string DebugString() const override { return absl::StrCat("tf_sfctr table '", table_->name(), "'"); }
  const std::shared_ptr<Table>& table() const { return table_; }

 private:
  const std::shared_ptr<Table> table_;
};

class CacheResource : public tensorflow::ResourceBase {
 public:
  explicit CacheResource(std::shared_ptr<MixCache> cache) : cache_(std::move(cache)) {}
  std::string DebugString() const override { return "tf_sfctr cache"; }
  const std::shared_ptr<MixCache>& cache() const { return cache_; }

 private:
  const std::shared_ptr<MixCache> cache_;
};

// The table behind input `index` of a kernel.
inline absl::Status GetTable(tensorflow::OpKernelContext* ctx, int index, std::shared_ptr<Table>* table) {
  tensorflow::core::RefCountPtr<TableResource> resource;
  const absl::Status status = tensorflow::LookupResource(ctx, tensorflow::HandleFromInput(ctx, index), &resource);
  if (!status.ok()) return status;
  *table = resource->table();
  return absl::OkStatus();
}

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_KERNELS_TABLE_RESOURCE_H_
