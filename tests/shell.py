"""The environment that the tests run in, whatever the shell has set that starts them."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping

from k8sel.facts.accelerators import owned_env

# Of this repository's own tests; K8SEL_ROOT is for those of the GPU tests, which run pytest inside pytest.
_OURS = ("K8SEL_TEST_CACHE", "K8SEL_REQUIRE_ALL", "K8SEL_REQUIRE_GPU", "K8SEL_RECORD_GPU", "K8SEL_ROOT")
# What k8sel, launchers, MPIs, libraries and the programs of clusters read.
_NAMES = re.compile(
    r"K8SEL_.*|(OMP|MKL|KMP|OMPI|PRTE|PMIX|PMI|I_MPI|HYDRA|MPIR|CCL|FI|NCCL|GLOO|TORCH\w*|ACCELERATE|DEEPSPEED|HF)_.*"
    r"|(LOCAL_|GROUP_|NODE_)?RANK|(LOCAL_)?WORLD_SIZE|MASTER_(ADDR|PORT)|KUBE.*|HELM_.*|DOCKER_.*"
    r"|GIT_(DIR|WORK_TREE|INDEX_FILE|CONFIG.*)|PYTHON(WARNINGS|UNBUFFERED|OPTIMIZE|HASHSEED|UTF8|IOENCODING)"
    r"|LANG|LANGUAGE|LC_.*|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR\w*|CDPATH|BASH_ENV|ENV"
)
_PATH = re.compile(r"[\w./+-]*")  # LD_PRELOAD and PATH divide names at spaces and colons, and tests name folders there


def strange(environ: Mapping[str, str]) -> list[str]:
    """The variables that would change what a test finds."""
    owned = {*owned_env()}
    names = [name for name in environ if name not in _OURS and (name in owned or _NAMES.fullmatch(name))]
    return names + [name for name in ("TMPDIR",) if not _PATH.fullmatch(environ.get(name, ""))]


def settle() -> None:
    """Takes them out of this process's environment, and so out of all that it starts."""
    for name in strange(os.environ):
        del os.environ[name]
    tempfile.tempdir = None  # pytest has asked for it already
