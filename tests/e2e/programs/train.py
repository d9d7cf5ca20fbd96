"""A training script as small as can be: one all-reduce, and one line that says what this rank saw."""

import glob
import json
import os
import socket

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank())])
dist.all_reduce(total)
seen = {
    "rank": dist.get_rank(),
    "localRank": int(os.environ["LOCAL_RANK"]),
    "worldSize": dist.get_world_size(),
    "host": socket.gethostname(),
    "mask": os.environ.get("CUDA_VISIBLE_DEVICES"),
    "order": os.environ.get("CUDA_DEVICE_ORDER"),
    "nodes": sorted(glob.glob("/dev/nvidia[0-9]*")),
    "threads": os.environ.get("OMP_NUM_THREADS"),
    "sum": total.item(),
}
print("trained " + json.dumps(seen), flush=True)
dist.destroy_process_group()
