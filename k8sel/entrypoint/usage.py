"""The help text, apart from the program: nobody waits for it at a start."""

HELP = """\
Usage: k8sel-entrypoint [MODE] [--] COMMAND...

Checks that this node has the devices that a job expects, makes them visible to COMMAND in the job's order, and becomes
COMMAND: same process id, same signals, same exit status.

Modes:
  node    (default) this node for all its processes: masks, threads, COMMAND
  rank    one process that mpirun or torchrun has started: its own mask, RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE
  gate    MPI's launcher: one check on each node through the expectation's probe command, then COMMAND (the real mpirun)
  check   only look, and print this node's report as one line of JSON; the exit status is always 0

What to find comes from K8SEL_EXPECT (JSON, written by k8sel), or by hand from:
  K8SEL_ACCELERATOR   a row of k8sel's table: cuda, rocm, xpu, hpu, cpu, ...
  K8SEL_COUNT         devices that this node must have, exactly
  K8SEL_DEVICES       positions among them, for local ranks 0, 1, ...: 2,0 (default: all of K8SEL_COUNT, else 0)
  K8SEL_ORDER         how positions are counted: pci (default) or fastest (the driver's own)
  K8SEL_PRODUCT       allowed products in the node label's spelling, commas between them
  K8SEL_MEMORY        memory that each of them must have, at least: 40Gi
  K8SEL_BACKEND       torch.distributed's backend that COMMAND uses: are the libraries beside it for this one?

Also read:
  K8SEL_CHECK            enforce (default), warn (say it and go on), off (no look; masks by position); beside
                         K8SEL_EXPECT it counts for this start instead of what the job says, and that is printed
  OMP_NUM_THREADS        is kept if set, and else written from the cores that this container has, less oneCCL's workers
  CCL_WORKER_COUNT       oneCCL's workers: threads of each process that need cores of their own
  K8SEL_NODE             this node's name in messages (default: the host's name)
  K8SEL_TERMINATION_LOG  where the message of a stop goes (default: /dev/termination-log, where there is one)

Exit status: the command's own; 78 when the command was not started (a mismatch, a wrong expectation, no such program);
1 when the gate's mpirun could not reach any node.
"""
