// SPDX-License-Identifier: Apache-2.0
#include "ops/core/host_store.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/core/test_util.h"

namespace sfctr {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

RowLayout Layout(int64_t dim = 4, OptimizerKind kind = OptimizerKind::kAdagrad) {
  return RowLayout(17, {Group(dim, kind)});
}

std::unique_ptr<HostStore> MakeStore(int64_t input_dim, RowLayout layout = Layout()) {
  Status status;
  auto store = std::make_unique<HostStore>(input_dim, std::move(layout), &status);
  EXPECT_TRUE(status.ok()) << status.message();
  return store;
}

std::vector<uint32_t> Find(const HostStore& store, const std::vector<int64_t>& ids, int num_threads = 1) {
  ThreadExecutor executor(num_threads);
  std::vector<uint32_t> rows(ids.size(), 12345);
  store.Find(ids.data(), static_cast<int64_t>(ids.size()), rows.data(), &executor);
  return rows;
}

// Finds the ids and creates those that are missing.
std::vector<uint32_t> FindOrCreate(HostStore* store, const std::vector<int64_t>& ids, int num_threads = 1) {
  ThreadExecutor executor(num_threads);
  std::vector<uint32_t> rows = Find(*store, ids, num_threads);
  const Status status = store->Create(ids.data(), static_cast<int64_t>(ids.size()), rows.data(), &executor);
  EXPECT_TRUE(status.ok()) << status.message();
  return rows;
}

// The row holds the initial values of `id` and nothing else.
void ExpectInitial(const HostStore& store, uint32_t row, int64_t id) {
  const RowLayout& layout = store.layout();
  ASSERT_EQ(store.id_of(row), id);
  std::vector<float> expected(layout.row_floats());
  layout.InitializeEmbedding(id, expected.data());
  layout.InitializeStates(expected.data());
  for (int64_t i = 0; i < layout.row_floats(); ++i) ASSERT_EQ(store.row(row)[i], expected[i]) << id << " float " << i;
}

TEST(HostStoreTest, StartsEmpty) {
  for (const int64_t input_dim : {0, 1, 64, 1000}) {
    const auto store = MakeStore(input_dim);
    EXPECT_EQ(store->size(), 0);
    EXPECT_EQ(store->row_bytes(), 0);
    EXPECT_EQ(store->NextRow(0), -1);
    EXPECT_EQ(Find(*store, {0}), (std::vector<uint32_t>{kNoRow}));
    EXPECT_TRUE(Find(*store, {}).empty());
  }
}

TEST(HostStoreTest, AnyInt64IsAnIdOfAHashedStore) {
  const auto store = MakeStore(0);
  const std::vector<int64_t> ids = {kMin, kMax, -1, 0, 1, kMin + 1, kMax - 1, int64_t{1} << 32, -(int64_t{1} << 32)};
  EXPECT_TRUE(store->CheckIds(ids.data(), static_cast<int64_t>(ids.size())).ok());
  const std::vector<uint32_t> rows = FindOrCreate(store.get(), ids);
  EXPECT_EQ(Find(*store, ids), rows);
  for (size_t i = 0; i < ids.size(); ++i) ExpectInitial(*store, rows[i], ids[i]);
}

TEST(HostStoreTest, NumbersRowsOfAHashedStoreInTheOrderOfCreation) {
  const auto store = MakeStore(0);
  EXPECT_EQ(FindOrCreate(store.get(), {50, -7, 3}), (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(FindOrCreate(store.get(), {9, 3, 8, 50}), (std::vector<uint32_t>{3, 2, 4, 0}));
  EXPECT_EQ(store->size(), 5);
  EXPECT_EQ(Find(*store, {8, 10}), (std::vector<uint32_t>{4, kNoRow}));
}

TEST(HostStoreTest, TheIdIsTheRowNumberOfAnIndexedStore) {
  const auto store = MakeStore(130);
  EXPECT_EQ(FindOrCreate(store.get(), {129, 0, 63, 64}), (std::vector<uint32_t>{129, 0, 63, 64}));
  EXPECT_EQ(store->size(), 4);
  EXPECT_EQ(Find(*store, {0, 1, 62, 63, 64, 65, 129}), (std::vector<uint32_t>{0, kNoRow, kNoRow, 63, 64, kNoRow, 129}));
  for (const uint32_t row : {129u, 0u, 63u, 64u}) ExpectInitial(*store, row, row);
}

TEST(HostStoreTest, CheckIdsNamesTheFirstIdOutsideTheVocabulary) {
  const auto store = MakeStore(10);
  const std::vector<int64_t> good = {0, 9};
  EXPECT_TRUE(store->CheckIds(good.data(), 2).ok());
  EXPECT_TRUE(store->CheckIds(nullptr, 0).ok());
  for (const int64_t bad : {int64_t{10}, int64_t{-1}, kMin, kMax}) {
    const std::vector<int64_t> ids = {3, bad, 77};
    const Status status = store->CheckIds(ids.data(), 3);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), "ids must be in [0, 10) (input_dim); got " + std::to_string(bad) +
                                    ". Raise input_dim, or leave it out to accept any 64-bit id.");
  }
}

TEST(HostStoreTest, NextRowVisitsEveryRowOnce) {
  const auto indexed = MakeStore(300);
  FindOrCreate(indexed.get(), {299, 0, 63, 64, 65, 128, 200});
  std::vector<int64_t> visited;
  for (int64_t row = indexed->NextRow(0); row >= 0; row = indexed->NextRow(row + 1)) visited.push_back(row);
  EXPECT_EQ(visited, (std::vector<int64_t>{0, 63, 64, 65, 128, 200, 299}));
  EXPECT_EQ(indexed->NextRow(300), -1);
  EXPECT_EQ(indexed->NextRow(int64_t{1} << 40), -1);

  const auto hashed = MakeStore(0);
  FindOrCreate(hashed.get(), {-5, 5, 77});
  visited.clear();
  for (int64_t row = hashed->NextRow(0); row >= 0; row = hashed->NextRow(row + 1)) visited.push_back(row);
  EXPECT_EQ(visited, (std::vector<int64_t>{0, 1, 2}));
}

TEST(HostStoreTest, OddRowWidthsNeitherOverlapNorMove) {
  for (const int64_t input_dim : {0, 500}) {
    for (const int64_t dim : {1, 2, 3, 5, 17, 64, 333}) {
      const auto store = MakeStore(input_dim, Layout(dim, OptimizerKind::kRowWiseAdagrad));
      std::vector<int64_t> ids;
      std::vector<const float*> addresses;
      for (int64_t id = 0; id < 500; ++id) {
        const uint32_t row = FindOrCreate(store.get(), {id})[0];
        ExpectInitial(*store, row, id);
        for (int64_t i = 0; i < store->layout().row_floats(); ++i) {
          store->row(row)[i] = static_cast<float>(1000 * id + i);
        }
        addresses.push_back(store->row(row));
      }
      for (int64_t id = 0; id < 500; ++id) {
        const uint32_t row = Find(*store, {id})[0];
        ASSERT_EQ(store->id_of(row), id);
        ASSERT_EQ(store->row(row), addresses[id]);
        for (int64_t i = 0; i < store->layout().row_floats(); ++i) {
          ASSERT_EQ(store->row(row)[i], static_cast<float>(1000 * id + i)) << "dim " << dim;
        }
      }
    }
  }
}

TEST(HostStoreTest, GroupsAndTheirStatesStartWithTheirOwnValues) {
  ColumnGroup wide = Group(1, OptimizerKind::kFtrl, {InitializerKind::kConstant, 0.5f, 0.0f});
  wide.optimizer.initial_accumulator = 0.25f;
  const auto store = MakeStore(0, RowLayout(1, {wide, Group(2, OptimizerKind::kAdagrad, {})}));
  EXPECT_EQ(store->layout().embedding_floats(), 3);
  const uint32_t row = FindOrCreate(store.get(), {-9})[0];
  const float* floats = store->row(row);
  // Embeddings of both groups, then FTRL's accumulator and linear term, then Adagrad's accumulators.
  EXPECT_EQ(std::vector<float>(floats, floats + 7), (std::vector<float>{0.5f, 0, 0, 0.25f, 0, 0.1f, 0.1f}));
}

TEST(HostStoreTest, IdsOfOneHashAreToldApart) {
  const auto store = MakeStore(0);
  std::vector<int64_t> ids;
  for (uint32_t k = 0; k < 1000; ++k) ids.push_back(IdWithHash(0x0BADCAFEu, k));
  const std::vector<uint32_t> rows = FindOrCreate(store.get(), ids, 3);
  for (size_t i = 0; i < ids.size(); ++i) ExpectInitial(*store, rows[i], ids[i]);
  EXPECT_EQ(Find(*store, ids), rows);
  EXPECT_EQ(Find(*store, {IdWithHash(0x0BADCAFEu, 1000)}), (std::vector<uint32_t>{kNoRow}));
}

TEST(HostStoreTest, AgreesWithAMapOverManyBatches) {
  const auto store = MakeStore(0, Layout(3));
  std::unordered_map<int64_t, uint32_t> oracle;
  for (int batch = 0; batch < 60; ++batch) {
    TestUse use(PowerLawIds(5000, 40000, 1.05, batch));
    const std::vector<int64_t>& ids = use.unique_ids();
    const std::vector<uint32_t> found = Find(*store, ids, 2);
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto it = oracle.find(ids[i]);
      ASSERT_EQ(found[i], it == oracle.end() ? kNoRow : it->second);
    }
    const std::vector<uint32_t> rows = FindOrCreate(store.get(), ids, 2);
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto it = oracle.emplace(ids[i], static_cast<uint32_t>(oracle.size())).first;
      ASSERT_EQ(rows[i], it->second);
    }
    ASSERT_EQ(store->size(), static_cast<int64_t>(oracle.size()));
  }
  for (const auto& [id, row] : oracle) ExpectInitial(*store, row, id);
}

TEST(HostStoreTest, RowsDoNotDependOnTheNumberOfThreads) {
  for (const int64_t input_dim : {0, 70000}) {
    const auto expected = MakeStore(input_dim, Layout(5));
    std::vector<std::vector<int64_t>> batches;
    for (int batch = 0; batch < 5; ++batch)
      batches.push_back(TestUse(PowerLawIds(20000, 70000, 0.8, batch)).unique_ids());
    for (const auto& ids : batches) FindOrCreate(expected.get(), ids);
    for (const int num_threads : kThreadCounts) {
      const auto store = MakeStore(input_dim, Layout(5));
      for (const auto& ids : batches) FindOrCreate(store.get(), ids, num_threads);
      ASSERT_EQ(store->size(), expected->size());
      for (int64_t row = store->NextRow(0); row >= 0; row = store->NextRow(row + 1)) {
        const auto number = static_cast<uint32_t>(row);
        ASSERT_EQ(store->id_of(number), expected->id_of(number)) << num_threads << " threads";
        ExpectInitial(*store, number, store->id_of(number));
      }
    }
  }
}

TEST(HostStoreTest, MemoryFiguresFollowTheRows) {
  const auto hashed = MakeStore(0, Layout(16));  // id, embedding, accumulators: 8 + 64 + 64 bytes
  std::vector<int64_t> ids(1000000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(Mix64(i));
  FindOrCreate(hashed.get(), ids, 2);
  EXPECT_EQ(hashed->row_bytes(), 136 * hashed->size());
  EXPECT_LE(hashed->index_bytes(), 19 * hashed->size());
  const auto indexed = MakeStore(1000000, Layout(16));
  FindOrCreate(indexed.get(), {1, 2, 3});
  EXPECT_EQ(indexed->row_bytes(), 3 * 128);
  EXPECT_EQ(indexed->index_bytes(), 125000);
}

}  // namespace
}  // namespace sfctr
