// SPDX-License-Identifier: Apache-2.0
#include "ops/core/id_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/core/test_util.h"

namespace sfctr {
namespace {

// Every row number that the index holds under `hash`, in ascending order.
std::vector<uint32_t> Candidates(const IdIndex& index, uint32_t hash) {
  std::vector<uint32_t> rows;
  IdIndex::Cursor cursor;
  index.Start(hash, &cursor);
  for (uint32_t row = index.NextCandidate(hash, &cursor); row != kNoRow; row = index.NextCandidate(hash, &cursor)) {
    rows.push_back(row);
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

bool Holds(const IdIndex& index, uint32_t hash, uint32_t row) {
  IdIndex::Cursor cursor;
  index.Start(hash, &cursor);
  for (uint32_t found = index.NextCandidate(hash, &cursor); found != kNoRow;
       found = index.NextCandidate(hash, &cursor)) {
    if (found == row) return true;
  }
  return false;
}

TEST(IdIndexTest, AnEmptyIndexHoldsNothing) {
  const IdIndex index;
  for (const uint32_t hash : {0u, 1u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu}) {
    EXPECT_TRUE(Candidates(index, hash).empty());
  }
}

TEST(IdIndexTest, FreeSlotsAreNoCandidatesOfTheHashTheyLookLike) {
  IdIndex index;
  index.Insert(0xFFFFFFFEu, 5);
  EXPECT_TRUE(Candidates(index, 0xFFFFFFFFu).empty());  // free slots store this hash
  index.Insert(0xFFFFFFFFu, 6);
  EXPECT_EQ(Candidates(index, 0xFFFFFFFFu), (std::vector<uint32_t>{6}));
}

TEST(IdIndexTest, FindsEveryRowAtEverySizeWhileItGrows) {
  IdIndex index;
  constexpr uint32_t kRows = 3000;  // about 47 a shard: one bucket, two, four, eight
  for (uint32_t row = 0; row < kRows; ++row) {
    index.Insert(IndexHash(row), row);
    for (uint32_t i = row % 37; i <= row; i += 37) ASSERT_TRUE(Holds(index, IndexHash(i), i)) << i << " of " << row;
    ASSERT_FALSE(Holds(index, IndexHash(row + 1), row + 1));
  }
}

TEST(IdIndexTest, FindsEveryRowOfAMillionAndNoOther) {
  IdIndex index;
  constexpr uint32_t kRows = 1000000;
  for (uint32_t row = 0; row < kRows; ++row) index.Insert(IndexHash(row), row);
  for (uint32_t row = 0; row < kRows; ++row) ASSERT_TRUE(Holds(index, IndexHash(row), row)) << row;
  int64_t candidates = 0;  // of other ids, by chance
  for (uint32_t row = kRows; row < 2 * kRows; ++row) {
    candidates += static_cast<int64_t>(Candidates(index, IndexHash(row)).size());
  }
  EXPECT_LT(candidates, 400);  // 2^-32 a pair: 233 expected
}

TEST(IdIndexTest, TakesBetween9And19BytesARow) {
  IdIndex index;
  uint32_t row = 0;
  for (const uint32_t num_rows : {1000000u, 1300000u, 1700000u, 2200000u, 3000000u}) {
    for (; row < num_rows; ++row) index.Insert(IndexHash(row), row);
    const double bytes = static_cast<double>(index.memory_bytes()) / num_rows;
    EXPECT_GE(bytes, 9.0) << num_rows;
    EXPECT_LE(bytes, 19.0) << num_rows;
    RecordProperty("bytes_per_row_at_" + std::to_string(num_rows), std::to_string(bytes));
  }
}

TEST(IdIndexTest, KeepsManyRowsOfOneHash) {
  IdIndex index;
  constexpr uint32_t kRows = 2000;
  std::vector<uint32_t> expected;
  for (uint32_t row = 0; row < kRows; ++row) {
    index.Insert(0xCAFEF00Du, row);
    index.Insert(IndexHash(row), kRows + row);  // neighbours that must not be lost among them
    expected.push_back(row);
  }
  EXPECT_EQ(Candidates(index, 0xCAFEF00Du), expected);
  EXPECT_TRUE(Candidates(index, 0xCAFEF00Eu).empty());
  for (uint32_t row = 0; row < kRows; ++row) ASSERT_TRUE(Holds(index, IndexHash(row), kRows + row));
}

TEST(IdIndexTest, ProbesWrapAroundTheEndOfASegment) {
  IdIndex index;
  // Hashes whose lowest 12 bits are ones start at the last bucket of every segment.
  std::vector<uint32_t> hashes;
  for (uint32_t i = 0; i < 1000; ++i) hashes.push_back((i << 12) | 0xFFFu);
  for (uint32_t row = 0; row < hashes.size(); ++row) index.Insert(hashes[row], row);
  for (uint32_t row = 0; row < hashes.size(); ++row) {
    ASSERT_EQ(Candidates(index, hashes[row]), (std::vector<uint32_t>{row}));
  }
}

TEST(IdIndexTest, SplitsUntilTheDirectoryIsAsDeepAsItMayBeAndThenGrows) {
  IdIndex index;
  // The bits of shard and directory are all the same: splitting never helps.
  Random random(3);
  std::vector<uint32_t> hashes(40000);
  for (uint32_t& hash : hashes) hash = 0xABCDE000u | static_cast<uint32_t>(random.Below(4096));
  for (uint32_t row = 0; row < hashes.size(); ++row) index.Insert(hashes[row], row);
  std::vector<std::vector<uint32_t>> expected(4096);
  for (uint32_t row = 0; row < hashes.size(); ++row) expected[hashes[row] & 4095].push_back(row);
  for (uint32_t low = 0; low < 4096; ++low) ASSERT_EQ(Candidates(index, 0xABCDE000u | low), expected[low]);
  // Around the crowded segment there is still room.
  for (uint32_t i = 0; i < 64; ++i) {
    const uint32_t hash = (i << 26) | 0x02345678u;
    index.Insert(hash, 1000000 + i);
    ASSERT_EQ(Candidates(index, hash), (std::vector<uint32_t>{1000000 + i}));
  }
}

TEST(IdIndexTest, SplitsOfUnevenDepthKeepEveryRow) {
  IdIndex index;
  // Half of the rows crowd into an eighth of one shard, so that its segments have different depths.
  Random random(4);
  std::vector<uint32_t> hashes(300000);
  for (size_t i = 0; i < hashes.size(); ++i) {
    const auto bits = static_cast<uint32_t>(random.Next() >> 32);
    hashes[i] = 0x40000000u | (bits & (i % 2 == 0 ? 0x007FFFFFu : 0x03FFFFFFu));
  }
  for (uint32_t row = 0; row < hashes.size(); ++row) index.Insert(hashes[row], row);
  for (uint32_t row = 0; row < hashes.size(); ++row) ASSERT_TRUE(Holds(index, hashes[row], row)) << row;
}

TEST(IdIndexTest, ShardsFillInParallel) {
  IdIndex index;
  constexpr uint32_t kRows = 200000;
  ThreadExecutor executor(4);
  executor.Run(4, [&](int part) {
    for (uint32_t row = 0; row < kRows; ++row) {
      const uint32_t hash = IndexHash(row);
      if (IdIndex::Shard(hash) % 4 == part) index.Insert(hash, row);
    }
  });
  for (uint32_t row = 0; row < kRows; ++row) ASSERT_TRUE(Holds(index, IndexHash(row), row)) << row;
}

}  // namespace
}  // namespace sfctr
