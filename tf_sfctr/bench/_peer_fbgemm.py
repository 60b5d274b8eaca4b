# SPDX-License-Identifier: Apache-2.0
"""FBGEMM's table-batched embedding on the CPU. Runs in its own Python: imports nothing of this project.

Arguments: trace file, dim, steps, threads. Prints one JSON object per optimizer.
"""

import json
import sys
import time

import numpy as np
import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    EmbeddingLocation,
    SplitTableBatchedEmbeddingBagsCodegen,
)

trace, dim, steps, threads = sys.argv[1], *map(int, sys.argv[2:5])
torch.set_num_threads(threads)
with np.load(trace) as file:
    columns, sizes = file["columns"], file["sizes"]
batch, features = columns.shape[1:]
offsets = torch.arange(0, batch * features + 1, dtype=torch.int64)
batches = [torch.from_numpy(np.ascontiguousarray(ids.T).reshape(-1)) for ids in columns]
gradient = torch.randn(batch, features * dim) * 0.01
kinds = {"fbgemm row-wise adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD}
# With one accumulator per weight, where this version has it.
if hasattr(EmbOptimType, "EXACT_ADAGRAD"):
    kinds["fbgemm adagrad"] = EmbOptimType.EXACT_ADAGRAD
for name, kind in kinds.items():
    table = SplitTableBatchedEmbeddingBagsCodegen(
        [(int(size), dim, EmbeddingLocation.HOST, ComputeDevice.CPU) for size in sizes],
        optimizer=kind,
        learning_rate=0.01,
        pooling_mode=PoolingMode.SUM,
    )
    seconds = []
    for step in range(steps + 3):
        begin = time.perf_counter()
        table(batches[step % len(batches)], offsets).backward(gradient)
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"name": name, "seconds": seconds[3:], "torch": torch.__version__}), flush=True)
    del table
