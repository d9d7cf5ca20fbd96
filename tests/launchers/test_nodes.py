"""Several nodes, as training-operator starts their pods: real torchrun and accelerate make one group of them."""

from __future__ import annotations

import pytest

from launchers.pods import started
from launchers.starting import ADDS, WORDS, assert_one_group, by_uuid, job, ranks

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(("launcher", "devices"), [("torchrun", (2, 0)), ("accelerate", (1,))])
def test_the_pods_of_two_nodes_are_one_group(env: dict[str, str], launcher: str, devices: tuple[int, ...]) -> None:
    spec = {"nodes": 2, "accelerator": {"type": "cuda", "count": 4, "devices": devices}}
    seen = ranks(*started(job(ADDS, "torch", *WORDS, launcher=launcher, **spec), env))
    assert len(seen) == 2 * len(devices)
    assert_one_group(seen, by_uuid(*devices), nodes=2)
