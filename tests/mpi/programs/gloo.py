"""Adds up all ranks by torch with gloo, found by the environment alone."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank()])
dist.all_reduce(total)
line = f"rank {dist.get_rank()} of {dist.get_world_size()}: {total.item()}, {torch.get_num_threads()} threads\n"
os.write(1, line.encode())
dist.destroy_process_group()
