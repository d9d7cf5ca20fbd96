"""Shows what this rank is, where it may run, and what its environment says: `show.py [FOLDER]`.

In the FOLDER's file of its rank, where there is one that all ranks see: mpirun may mix the long lines of several.
"""

import json
import os
import sys
from pathlib import Path

shown = {"cpus": sorted(os.sched_getaffinity(0)), "host": os.uname().nodename, "env": dict(os.environ)}
if sys.argv[1:]:
    Path(sys.argv[1], os.environ["RANK"]).write_text(json.dumps(shown))
else:
    os.write(1, f"shown {json.dumps(shown)}\n".encode())
