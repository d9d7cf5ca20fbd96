"""A training program as small as can be: its ranks add up, by the library that its first argument names."""

import json
import os
import sys

import torch
import torch.distributed as dist

NAMES = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES"),
)


def by_torch(words: list[str]) -> dict[str, object]:
    """One process alone may have no group."""
    one = torch.tensor([1.0])
    if "RANK" in os.environ and not dist.is_initialized():
        dist.init_process_group("gloo")
    if dist.is_initialized():
        dist.all_reduce(one)
    return {"sum": one.item()}


def by_accelerate(words: list[str]) -> dict[str, object]:
    from accelerate import Accelerator

    accelerator = Accelerator(mixed_precision="bf16" if "--bf16" in words else "no")
    total = accelerator.reduce(torch.tensor([1.0])).item()
    return {"sum": total, "device": str(accelerator.device), "dtype": accelerator.mixed_precision}


def by_deepspeed(words: list[str]) -> dict[str, object]:
    """Its engine takes one step, with gradients that differ between the ranks."""
    import deepspeed

    # Or deepspeed would compile a kernel of its own for all-reduce on CPUs, which takes minutes.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(dist_backend="gloo")
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "SGD", "params": {"lr": 1.0}},
        "zero_optimization": {"stage": 0},
    }
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    engine.backward(engine(torch.tensor([[0.25 * (1 + dist.get_rank())]])).sum())
    engine.step()
    return {**by_torch(words), "weight": engine.module.weight.item()}


def main(library: str, *words: str) -> None:
    added = {"torch": by_torch, "accelerate": by_accelerate, "deepspeed": by_deepspeed}[library](list(words))
    seen = {
        "words": words,
        "env": {name: os.environ.get(name) for name in NAMES},
        "threads": torch.get_num_threads(),
        "devices": torch.cuda.device_count(),
        **added,
    }
    os.write(1, f"shown {json.dumps(seen)}\n".encode())  # one write: several ranks share the output
    if dist.is_initialized():
        dist.destroy_process_group()


main(*sys.argv[1:])
