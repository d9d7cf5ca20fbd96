"""Every process adds its rank to the others', and says what it sees. Needs torch, and no accelerator."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist


def main() -> None:
    """Sums the ranks of the group."""
    dist.init_process_group("gloo")
    total = torch.tensor([dist.get_rank()])
    dist.all_reduce(total)
    local_rank, threads = os.environ["LOCAL_RANK"], torch.get_num_threads()
    print(
        f"rank {dist.get_rank()} of {dist.get_world_size()}, local rank {local_rank}, {threads} threads: "
        f"the ranks add up to {total.item()}\n",
        end="",  # the line in one write: two processes share the output
        flush=True,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
