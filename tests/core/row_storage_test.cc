// SPDX-License-Identifier: Apache-2.0
#include "ops/core/row_storage.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace sfctr {
namespace {

TEST(RowStorageTest, HoldsNothingAtFirst) {
  RowStorage storage(16);
  EXPECT_EQ(storage.num_reserved_rows(), 0);
  EXPECT_EQ(storage.stride_bytes(), 16);
  EXPECT_TRUE(storage.Reserve(0).ok());
  EXPECT_EQ(storage.num_reserved_rows(), 0);
}

TEST(RowStorageTest, ReservesAtLeastWhatIsAsked) {
  RowStorage storage(4);
  for (const int64_t num_rows : {int64_t{1}, int64_t{2}, int64_t{1000}, int64_t{8} << 20, (int64_t{8} << 20) + 1}) {
    ASSERT_TRUE(storage.Reserve(num_rows).ok());
    ASSERT_GE(storage.num_reserved_rows(), num_rows);
    ASSERT_TRUE(storage.Reserve(1).ok());
    ASSERT_GE(storage.num_reserved_rows(), num_rows);
  }
}

TEST(RowStorageTest, NewRowsReadAsZeros) {
  RowStorage storage(12);
  ASSERT_TRUE(storage.Reserve(1000).ok());
  const std::vector<char> zeros(12, 0);
  for (uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(memcmp(storage.row(i), zeros.data(), 12), 0);
}

// Widths that divide a chunk, that do not, and one row beyond a chunk.
TEST(RowStorageTest, AddressesAndContentsSurviveGrowth) {
  for (const int64_t stride :
       {int64_t{4}, int64_t{12}, int64_t{136}, int64_t{4100}, int64_t{20} << 20, (int64_t{40} << 20) + 4}) {
    RowStorage storage(stride);
    std::vector<char*> addresses;
    const int64_t max_rows = stride > (int64_t{1} << 20) ? 7 : 300000;
    for (int64_t num_rows = 1; num_rows < max_rows; num_rows = 2 * num_rows + 1) {
      ASSERT_TRUE(storage.Reserve(num_rows).ok());
      for (size_t i = 0; i < addresses.size(); ++i) {
        ASSERT_EQ(storage.row(static_cast<uint32_t>(i)), addresses[i]) << "stride " << stride;
      }
      for (auto i = static_cast<int64_t>(addresses.size()); i < num_rows; ++i) {
        char* row = storage.row(static_cast<uint32_t>(i));
        memcpy(row, &i, 4);
        memcpy(row + stride - 4, &i, 4);  // the last bytes are the row's too
        addresses.push_back(row);
      }
    }
    for (size_t i = 0; i < addresses.size(); ++i) {
      uint32_t first, last;
      memcpy(&first, addresses[i], 4);
      memcpy(&last, addresses[i] + stride - 4, 4);
      ASSERT_EQ(first, i) << "stride " << stride;
      ASSERT_EQ(last, i) << "stride " << stride;
    }
  }
}

TEST(RowStorageTest, RowsDoNotOverlapOverChunks) {
  RowStorage storage(1 << 20);  // 32 rows a chunk
  ASSERT_TRUE(storage.Reserve(100).ok());
  EXPECT_EQ(storage.num_reserved_rows(), 128);
  for (uint32_t i = 1; i < 128; ++i) {
    const int64_t distance = storage.row(i) - storage.row(i - 1);
    if (i % 32 != 0) {
      ASSERT_EQ(distance, 1 << 20);
    } else {
      ASSERT_GE(std::abs(distance), 1 << 20);
    }
  }
}

TEST(RowStorageTest, RefusalNamesBytesAndRowsAndChangesNothing) {
  RowStorage storage(int64_t{1} << 42);
  const Status status = storage.Reserve(64);  // 2^48 bytes: more than an address space
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("281474976710656 bytes of address space are needed for 64 rows"), std::string::npos)
      << status.message();
  EXPECT_EQ(storage.num_reserved_rows(), 0);
}

}  // namespace
}  // namespace sfctr
