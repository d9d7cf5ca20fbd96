"""Faults that the tests must notice: rules off by one, swapped masks, lost fields. mutations.py makes them.

A mutation is known by its old text alone, which stands once in k8sel/ and the chart's templates: files may move. Where
code is written anew, give its mutation the new text; where a decision is gone, give it to what decides now.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    """One fault: ``new`` instead of ``old``; one of ``tests`` has to fail."""

    name: str
    old: str
    new: str
    tests: tuple[str, ...]


# Files, the quickest first: a run ends at the first test that fails.
YAML = ("tests/reading/test_bad_files.py", "tests/reading/test_yamlio_kubernetes.py", "tests/reading/test_load.py")
BAD = ("tests/reading/test_bounds.py", "tests/reading/test_bad_files.py", "tests/reading/test_rules.py")
DIGEST = ("tests/reading/test_bounds.py", "tests/reading/test_examples.py")
DEFAULTS = ("tests/planning/test_defaults.py", "tests/planning/test_goldens.py")
PLANNING = ("tests/planning/test_goldens.py", "tests/planning/test_devices.py", "tests/planning/test_launch.py")
DOCKER = ("tests/planning/test_docker.py", "tests/planning/test_devices.py")
MODES = ("tests/entrypoint/test_modes.py",)
SHARES = ("tests/entrypoint/test_shares.py",)
MACHINES = ("tests/entrypoint/test_machines.py",)
HOSTILE = ("tests/entrypoint/test_hostile.py",)
WAYS = ("tests/entrypoint/test_ways.py",)
VENDORS = ("tests/entrypoint/test_vendors.py", "tests/entrypoint/test_counted.py")
CPUS = ("tests/entrypoint/test_cpus.py",)
GATE = ("tests/entrypoint/test_gate.py",)
AROUND = ("tests/entrypoint/test_surroundings.py", "tests/entrypoint/test_hostile.py")
REFUSED_LINES = ("tests/fromline/test_refused.py",)
LINES = ("tests/fromline/test_lines.py", "tests/fromline/test_refused.py", "tests/fromline/test_cpus.py")
MANIFESTS = ("tests/frommanifest",)
KEPT = ("tests/frommanifest/test_kept.py",)
AUDIT = ("tests/audit",)
RECEIPTS = ("tests/receipts/test_collect.py", "tests/receipts/test_compare.py")
MAPPING = ("tests/cluster_client/test_mapping.py",)
STATUS = ("tests/cluster_client/test_status.py",)
CHANGES = ("tests/cluster_client/test_changes.py",)
RECEIPT = ("tests/cli/test_receipt.py",)
CLI = ("tests/cli/test_audit.py", "tests/cli/test_cli.py")
RUN = ("tests/cli/test_run.py",)
KRM = ("tests/gitops/test_krm.py",)
PARITY = ("tests/helm/test_parity.py",)
REFUSALS = ("tests/helm/test_refusals.py",)

# What a job file means: YAML, places, digest.
FORM = (
    Mutation("yaml-float-wants-a-point", r"[0-9]+(?:\.[0-9]*)?)(?:[eE]", r"[0-9]+\.[0-9]*)(?:[eE]", YAML),
    Mutation("yaml-octal-is-decimal", "|0[oO]?([0-7]+)|(0|[1-9][0-9]*)", "|0[oO]([0-7]+)|([0-9]+)", YAML),
    Mutation("yaml-y-is-a-word", '("y", "Y", "yes"', '("Y", "yes"', YAML),
    Mutation("yaml-integer-limits-swapped", "2**63 if match[1] else 2**64", "2**64 if match[1] else 2**63", YAML),
    Mutation("yaml-duplicate-key-passes", "if name in node.fields:", "if name in node.items:", YAML),
    Mutation(
        "yaml-column-from-zero", "return (mark.line + 1, mark.column + 1)", "return (mark.line + 1, mark.column)", YAML
    ),
    Mutation("yaml-line-from-zero", "return (mark.line + 1, mark", "return (mark.line, mark", YAML),
    Mutation("yaml-depth-off-by-one", "len(path) > MAX_DEPTH", "len(path) > MAX_DEPTH + 1", YAML),
    Mutation("yaml-writes-1e-3-bare", "[A-Za-z/][A-Za-z0-9_./-]*", "[A-Za-z0-9/][A-Za-z0-9_./-]*", YAML),
    Mutation("yaml-writes-y-bare", 'frozenset(("y", "yes"', 'frozenset(("yes"', YAML),
    Mutation("digest-depends-on-order", "for key in sorted(data))", "for key in data)", DIGEST),
    Mutation("digest-exponent-without-sign", "int(power):+d", "int(power):d", DIGEST),
    Mutation("same-name-passes", "if first != place.line", "if first > place.line", YAML),
)

# Rules of the job file, and its defaults.
RULES = (
    Mutation("rule-count-off-by-one", "least <= count or (row", "least < count or (row", BAD),
    Mutation(
        "rule-processes-off-by-one",
        '{"above": "job.devices"}, "spec.accelerator.devices": {"given": true}, "type.inContainer"',
        '{"above": "job.processes"}, "spec.accelerator.devices": {"given": true}, "type.inContainer"',
        BAD,
    ),
    Mutation("rule-pod-name-off-by-one", "if len(pod) > LONGEST:", "if len(pod) >= LONGEST:", BAD),
    Mutation("rule-unequal-shares-pass", "and len(devices) % processes", "and len(devices) < processes", BAD),
    Mutation("rule-doubled-neighbour-passes", "in devices[:index]:", "in devices[: max(index - 1, 0)]:", BAD),
    Mutation("rule-order-of-a-set-swapped", "not row.maskOrdered and any(", "row.maskOrdered and any(", BAD),
    Mutation("rule-gap-off-by-one", "- min(share) >= len(share)", "- min(share) > len(share)", BAD),
    Mutation("rule-memory-without-unit", '"leastMemory": 2**20', '"leastMemory": 2**2', BAD),
    Mutation(
        "rule-shm-beyond-memory-passes",
        '"job.sharedMemory": {"above": "job.memory"}',
        '"job.sharedMemory": {"below": "job.memory"}',
        BAD,
    ),
    Mutation("rule-threads-forget-workers", "(threads + workers) * processes", "threads * processes", BAD),
    Mutation("rule-owned-variable-passes", '"LOCAL_RANK=": (', '"LOCAL_RANKS=": (', BAD),
    Mutation("rule-mount-below-ours-passes", 'place.startswith(f"{other}/")', "False", BAD),
    Mutation("rule-name-one-longer", "LONGEST = 63", "LONGEST = 64", BAD),
    Mutation("quantity-rounded-down", "math.ceil(number)", "math.floor(number)", BAD),
    Mutation("quantity-mi-is-ki", '"Mi": 20', '"Mi": 10', BAD),
    Mutation("default-count-off-by-one", "max(devices, default=-1) + 1", "max(devices, default=0)", DEFAULTS),
    Mutation("default-processes-one", "len(accelerator.devices) or parts", "parts", DEFAULTS),
    Mutation("default-ssh-keys-swapped", "ROOT_SSH if is_root", "USER_SSH if is_root", DEFAULTS),
)

# The plan: devices, masks, variables, launchers.
PLAN = (
    Mutation("host-devices-unsorted", "exposed = sorted(accelerator", "exposed = list(accelerator", PLANNING),
    Mutation("host-number-for-position", "tuple(exposed.index(device) for", "tuple(device for", PLANNING),
    Mutation("mask-reversed", "values if ordered else", "values[::-1] if ordered else", PLANNING),
    Mutation("share-of-rank-overlaps", "devices[local_rank * size :", "devices[local_rank :", PLANNING),
    Mutation("rank-drives-its-last", "next(iter(masks.own(", "next(reversed(masks.own(", PLANNING),
    Mutation("ranks-of-later-nodes", "isolation, index * processes)", "isolation, index)", PLANNING),
    Mutation("count-not-expected", "not devices.positions else devices.count", "devices.positions else None", PLANNING),
    Mutation("toleration-lost", '"tolerations": _tolerations(spec, devices)', '"tolerations": []', PLANNING),
    Mutation("toleration-of-resource-lost", "for toleration in devices.tolerations", "for toleration in ()", PLANNING),
    Mutation("memory-label-off-by-one", "MEBIBYTE - 1, 0)", "MEBIBYTE, 0)", PLANNING),
    Mutation("own-affinity-lost", '[*term.get("matchExpressions", []), *wanted]', "[*wanted]", PLANNING),
    Mutation(
        "vendors-not-hidden",
        "exposure_env=masks.hidden(each.exposure_hide for each in rows)",
        "exposure_env={}",
        PLANNING,
    ),
    Mutation("vendors-not-masked", "mask_env=masks.hidden(each.mask_hide for each in rows)", "mask_env={}", PLANNING),
    Mutation("launcher-sees-devices", "env.constants(plan.devices.hide_env)", "env.constants({})", PLANNING),
    Mutation("env-order-lost", "sorted(last.values(), key=_rank)", "last.values()", PLANNING),
    Mutation("env-dollar-not-doubled", 'else text.replace("$", "$$")', "else text", PLANNING),
    Mutation(
        "env-first-entry-counts",
        "for part in parts for entry in part}",
        "for part in reversed(parts) for entry in part}",
        PLANNING,
    ),
    Mutation("labels-lost", "{**job.metadata.labels, **own}", "own", PLANNING),
    Mutation("labels-of-pods-lost", '{"labels": dict(plan.labels)}, "spec"', '{}, "spec"', PLANNING),
    Mutation("digest-not-noted", "names.ANNOTATION_JOB_FILE: sha256", "names.ANNOTATION_JOB_FILE: name", PLANNING),
    Mutation("shm-not-expected", "shared_memory=whole(spec.shared_memory)", "shared_memory=None", PLANNING),
    Mutation("shm-without-size", '"sizeLimit": plan.shared_memory', '"sizeLimit": "64Mi"', PLANNING),
    Mutation("master-counted-as-worker", "others = len(plan.nodes) - 1", "others = len(plan.nodes)", PLANNING),
    Mutation("no-restart-after-a-crash", '"ExitCode" if plan', '"Never" if plan', PLANNING),
    Mutation("queue-not-waited-for", 'policy["suspend"] = True', 'policy["suspend"] = False', PLANNING),
    Mutation("gang-off-by-one", '"minAvailable": pods', '"minAvailable": pods - 1', PLANNING),
    Mutation(
        "torchrun-count-of-nodes",
        '"{processes}": str(spec.processes_per_node)',
        '"{processes}": str(spec.nodes)',
        PLANNING,
    ),
    Mutation("accelerate-count-of-one-node", "restarts = spec.nodes * ", "restarts = ", PLANNING),
    Mutation(
        "isolation-without-entrypoint",
        '(before(spec, platform, "rank") if starts_mode_rank',
        "(() if starts_mode_rank",
        PLANNING,
    ),
    Mutation("mpi-count-of-one-node", "spec.nodes * per_node", "per_node", PLANNING),
    Mutation("mpi-cores-without-workers", " or 1) + oneccl.workers(spec)", " or 1)", PLANNING),
    Mutation("mpi-variable-not-sent", '"MASTER_ADDR", *CONSTANTS, *', "*CONSTANTS, *", PLANNING),
    Mutation("mpi-pod-field-sent-to-all", "(left and of_its_pod(each))", "(left and False)", PLANNING),
    Mutation("mpi-host-key-asked-for", "/id_rsa -o StrictHostKeyChecking=no", "/id_rsa", PLANNING),
    Mutation("mpi-root-by-password", "PermitRootLogin=prohibit-password", "PermitRootLogin=yes", PLANNING),
    Mutation("mpi-environment-shared", "mktemp {KEPT}", "echo {KEPT}", PLANNING),
    Mutation("environment-of-others", " and not found.st_mode & _OTHERS", "", WAYS),
    Mutation("setvars-sets-the-expectation", '_OURS = ("K8SEL_", "BASH_FUNC_")', '_OURS = ("BASH_FUNC_",)', WAYS),
    Mutation("mpi-local-slots", "localhost:{per_node}", "localhost:1", PLANNING),
    Mutation("mpi-hostfile-elsewhere", '"--hostfile", "/etc/mpi/hostfile"', '"--hostfile", "/etc/mpi/hosts"', PLANNING),
    Mutation("mpi-local-rank-is-rank", '"OMPI_COMM_WORLD_LOCAL_RANK"', '"OMPI_COMM_WORLD_RANK"', MODES),
    Mutation("docker-nodes-share-devices", "number + node.node_rank * plan.devices.count", "number", DOCKER),
    Mutation(
        "docker-cdi-of-all-nodes", "tuple(host.cdi[number] for number in numbers)", "tuple(host.cdi.values())", DOCKER
    ),
    Mutation("docker-cdi-by-capability", "[] if container.driver == CDI else [[", "[[", DOCKER),
    Mutation("docker-cdi-of-several", "wanted in paths and not paths & others", "wanted in paths", DOCKER),
    Mutation("docker-rank-zero-everywhere", '"RANK": str(node.node_rank)', '"RANK": "0"', DOCKER),
    Mutation("docker-cpus-off", '_scaled(limits.get("cpu"), 10**9)', '_scaled(limits.get("cpu"), 10**6)', DOCKER),
    Mutation("docker-line-loses-ulimits", '"--ulimit", _pairs(container.ulimits)', '"--ulimit", ()', DOCKER),
    Mutation("docker-hard-limit-lost", ', "hard": limit}', "}", DOCKER),
    Mutation("docker-vendor-numbers-swapped", "(host.order[number] if number", "(number if number", DOCKER),
)

# The entrypoint: what is compared, what a process sees, how it ends.
START = (
    Mutation("exit-status-of-a-mismatch", "MISMATCH = 78", "MISMATCH = 77", MODES),
    Mutation("found-least-off-by-one", "and number >= least)", "and number >= least - 1)", MACHINES),
    Mutation("found-too-many-pass", "number == exact or (exact is None and", "number == exact or (", MACHINES),
    Mutation("found-missing-pass", "number == exact or", "number or", MODES),
    Mutation(
        "found-beyond-off-by-one", "count is None or least <= count", "count is None or least <= count + 1", HOSTILE
    ),
    Mutation("found-doubled-passes", "each.count(name) > 1", "each.count(name) > 2", MACHINES),
    Mutation("found-other-product-passes", "_without_sharing(name) not in allowed]", "not name]", MACHINES),
    Mutation("found-memory-off-by-one", "[position].memory < least", "[position].memory <= least", AROUND),
    Mutation(
        "found-unequal-shares-pass",
        "len(devices) % processes != 0",
        "len(devices) < processes",
        MACHINES,
    ),
    Mutation("found-half-of-shm-passes", "_ENOUGH = 0.95", "_ENOUGH = 0.5", AROUND),
    Mutation("found-processes-off-by-one", "if processes > devices and", "if processes > devices + 1 and", MACHINES),
    Mutation("other-kind-ends-quietly", "is none of {', '.join(sorted(rows))}\"])", 'is unknown"], 0)', MODES),
    Mutation("enforce-goes-on", "raise Stop(messages)\n", "return\n", MODES),
    Mutation(
        "warn-says-nothing",
        'report.say(f"{message} (check: {check}, continuing)")',
        "pass",
        MODES,
    ),
    Mutation("masks-share-overlaps", "devices[local_rank * size :", "devices[local_rank :", SHARES),
    Mutation(
        "masks-reversed", "_written(row, values) if values and", "_written(row, values[::-1]) if values and", VENDORS
    ),
    Mutation("masks-sorted-as-text", "sorted(values, key=int)", "sorted(values)", VENDORS),
    Mutation("masks-range-off-by-one", 'f"{first}-{last}" if', 'f"{first}-{last - 1}" if', VENDORS),
    Mutation(
        "masks-rank-drives-two",
        "devices[local_rank // sharing :][:1]",
        "devices[local_rank // sharing :][:2]",
        VENDORS,
    ),
    Mutation("masks-show-all-for-none", "return dict(row.maskHide)", "return {}", HOSTILE),
    Mutation(
        "masks-hide-one-vendor",
        "hidden = masks.hidden(each.maskHide for each in others)",
        "hidden = masks.hidden(each.maskHide for each in others[:1])",
        MODES,
    ),
    Mutation("pci-address-decimal", "int(part, 16) for part", "int(part) for part", HOSTILE),
    Mutation("image-mask-passes", "environ.get(name, value) != value", "environ.get(name, value) == ''", MODES),
    Mutation("threads-forget-workers", "max(1, cores - workers)", "max(1, cores)", CPUS),
    Mutation("threads-forget-quota", "int(min(limits))", "int(max(limits))", CPUS),
    Mutation("threads-not-shared", "bound else own) // processes", "bound else own) // 1", CPUS),
    Mutation("workers-on-the-same-core", "-(1 + local_rank * workers + worker)", "-(1 + worker)", CPUS),
    Mutation(
        "gate-misses-a-node", "len(answered) >= expectation.nodes", "len(answered) >= expectation.nodes - 1", GATE
    ),
)

# What others wrote, read.
READ = (
    Mutation(
        "line-host-order-kept", "draft.exposed = tuple(sorted(choice.devices))", "draft.exposed = choice.devices", LINES
    ),
    Mutation("line-position-for-host-number", "tuple(draft.exposed[each] for each", "tuple(each for each", LINES),
    Mutation("line-count-off-by-one", '"count"), needed(devices), word', '"count"), needed(devices) - 1, word', LINES),
    Mutation("line-nodes-are-ranks", "max(ranks // each, 1)", "max(ranks, 1)", LINES),
    Mutation(
        "line-hosts-rounded-down", "-(-int(total.text) // len(slots))", "int(total.text) // len(slots)", REFUSED_LINES
    ),
    Mutation("line-fewer-nodes-pass", "if colon and least != most", "if colon and least > most", LINES),
    Mutation("line-threads-lost", "draft.env.pop(_THREADS, None)", "None", LINES),
    Mutation(
        "manifest-account-lost",
        '"job": "spec.serviceAccountName", "rendered": "copied", "adopted": "copied"',
        '"job": "spec.serviceAccountName", "rendered": "copied", "adopted": "unneeded"',
        KEPT,
    ),
    Mutation("manifest-queue-lost", "queue = labels.pop(LABEL_QUEUE, None)", "queue = None", KEPT),
    Mutation(
        "manifest-second-type-passes",
        "first, *others = container.requested",
        "first, others = container.requested[0], []",
        MANIFESTS,
    ),
    Mutation("audit-ranks-not-slots", "ranks != manifest.slots * workers", "ranks > manifest.slots * workers", AUDIT),
    Mutation(
        "audit-hidden-is-shown",
        'variable.value not in ("void", "none", "")',
        'variable.value not in ("none", "")',
        AUDIT,
    ),
    Mutation(
        "audit-threads-off-by-one",
        "node.threads * node.processes > node.cpus",
        "node.threads * node.processes >= node.cpus",
        AUDIT,
    ),
    Mutation(
        "audit-mask-at-the-count-passes",
        "count < needed(positions(listed))",
        "count < needed(positions(listed)) - 1",
        AUDIT,
    ),
    Mutation("audit-double-passes", "len(set(listed)) < len(listed)", "len(set(listed)) < len(listed) - 1", AUDIT),
)

# Receipts, the command line, the cluster's answers, other doors.
REST = (
    Mutation("receipts-rank-of-later-nodes", "int(given) * number + local", "int(given) + local", RECEIPTS),
    Mutation("receipts-starts-off-by-one", "{number + 1} times", "{number} times", RECEIPTS),
    Mutation("receipts-two-jobs-pass", "if len(jobs) > 1", "if len(jobs) > 2", RECEIPTS),
    Mutation("compare-loses-processes", '"processes": (len(a.processes), len(b.processes)),', "", RECEIPTS),
    Mutation("compare-hides-a-lost-mask", '_OPEN = ("mask", "libraries", ', '_OPEN = ("libraries", ', RECEIPTS),
    Mutation("diff-exit-statuses-swapped", "DIFFERENT, ERROR = 1, 2", "DIFFERENT, ERROR = 2, 1", RECEIPT),
    Mutation("audit-exit-status", "sys.exit(1 if findings else 0)", "sys.exit(0)", CLI),
    Mutation("bad-file-exit-status", "exit_status = 2", "exit_status = 1", CLI),
    Mutation("run-keeps-stale-masks", "if stale and not override_env", "if False", RUN),
    Mutation(
        "cluster-field-of-slots",
        '"slotsPerWorker": {"job": "spec.processesPerNode"',
        '"slotsPerWorker": {"job": "spec.nodes"',
        MAPPING,
    ),
    Mutation(
        "cluster-entry-off-by-one", "(*field[:2], index, *field[3:])", "(*field[:2], index + 1, *field[3:])", MAPPING
    ),
    Mutation(
        "cluster-change-passes",
        'mutable=frozenset({"cleanPodPolicy"})',
        'mutable=frozenset({"cleanPodPolicy", "backoffLimit"})',
        CHANGES,
    ),
    Mutation("cluster-suspend-sent-again", 'if key != "suspend"', "if key", CHANGES),
    Mutation("cli-timeout-is-a-failure", '"timeout": 124}', '"timeout": 1}', STATUS),
    Mutation("krm-half-a-list", "if made.failed else made", "if not made.failed else made", KRM),
    Mutation("krm-keeps-notes", '("config.kubernetes.io/", "internal', '("internal', KRM),
    Mutation("krm-severity-lost", 'Kind.WARNING: "warning"', 'Kind.WARNING: "error"', KRM),
)

# The chart decides the same in templates.
CHART = (
    Mutation("chart-count-off-by-one", "(le $count $top)", "(lt $count $top)", REFUSALS),
    Mutation("chart-default-count-off-by-one", '"count" (add1 $top)', '"count" $top', PARITY),
    Mutation(
        "chart-memory-label-off-by-one", "(div .devices.memory 1048576) 1", "(div .devices.memory 1048576) 0", PARITY
    ),
    Mutation("chart-vendors-not-masked", "toJson .facts.noDevices", 'omit .facts.noDevices "mask" | toJson', PARITY),
    Mutation("chart-env-order", "concat $groups.constant $groups.read", "concat $groups.read $groups.constant", PARITY),
    Mutation(
        "chart-host-number-for-position",
        "(list $exposed $accelerator.devices) | mustFromJson) -}}\n{{- $_ := set",
        "(list $exposed $exposed) | mustFromJson) -}}\n{{- $_ := set",
        PARITY,
    ),
    Mutation("chart-shares-pass", "(mod $number $processes) -}}", "false -}}", REFUSALS),
    Mutation(
        "chart-toleration-lost",
        '(list (dict "key" $resource "operator" "Exists" "effect" "NoSchedule"))',
        "list",
        PARITY,
    ),
)

MUTATIONS = (*FORM, *RULES, *PLAN, *START, *READ, *REST, *CHART)
