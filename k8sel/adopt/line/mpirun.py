"""Converts mpirun and mpiexec of Open MPI, Intel MPI and MPICH to the job file's fields.

One table holds their options: few differ in meaning, and an option that only some have tells the MPI.
Sources: open-mpi docs, mpirun(1); Intel MPI and MPICH mpiexec.hydra --help.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from k8sel.adopt.line import ccl
from k8sel.adopt.line.draft import Draft
from k8sel.adopt.line.options import Given, Kept, Option, Style, read
from k8sel.adopt.line.words import Word
from k8sel.errors import Kind
from k8sel.wording import bare, quote

OPEN, INTEL, MPICH = "OpenMPI", "Intel", "MPICH"
_HYDRA = (INTEL, MPICH)
_BINDING = "mpi.binding sets what ranks are bound to"
_REACHED = "k8sel configures how mpirun reaches the nodes"
_SHOWN = "k8sel logs shows each node's output"
TABLE = (
    Option("-n -np -c", keep=True),
    Option("-ppn -perhost", keep=True),
    Option("-N --npernode", keep=True),
    Option("--pernode", takes=0, keep=True),
    Option("--map-by", keep=True),
    Option("--hostfile -f --machinefile --default-hostfile", keep=True),
    Option("--host -H -hosts", keep=True),
    Option("-x", keep=True),
    Option("-genv -env", takes=-1, keep=True),
    Option("--mca -mca --prtemca --omca", takes=2, keep=True),
    Option("--wdir -wd", keep=True),
    Option("--bind-to", keep=True),
    Option("-genvall -envall", takes=0),
    Option("-genvlist -envlist", keep=True),
    Option("-genvnone -envnone", takes=0, note="ranks get the container's own variables and the job file's env"),
    Option("--rank-by", note=_BINDING),
    Option("--report-bindings", takes=0, note=_BINDING),
    Option("--cpus-per-rank --cpus-per-proc", note=_BINDING),
    Option("-cpu-bind -membind", note=_BINDING),
    Option("--oversubscribe", takes=0, keep=True),
    Option("--allow-run-as-root", takes=0, keep=True),
    Option("--prefix", note="the image has its MPI on PATH"),
    Option("-launcher -bootstrap -rmk -bootstrap-exec -launcher-exec", note=_REACHED),
    Option("-iface", note=_REACHED, hint="set NCCL_SOCKET_IFNAME or FI_TCP_IFACE in env to choose a network"),
    Option(
        "--tag-output --timestamp-output -prepend-rank -l --display-map -print-rank-map -v -q", takes=0, note=_SHOWN
    ),
    Option("--output-filename -outfile-pattern -errfile-pattern -s --stdin --output --display", note=_SHOWN),
    Option("-print-all-exitcodes -disable-auto-cleanup -verbose --display-allocation", takes=0, note=_SHOWN),
    Option(
        "-configfile --app --appfile",
        refuse="the content of that file is not in the line",
        hint="write its options here",
    ),
    Option("--help -h --version -V", takes=0, refuse="this only prints", hint="leave it out"),
)
# Option that only some MPIs have -> these. A key stands for all spellings of its option.
_OPTIONS = {
    **dict.fromkeys(("-N", "-x", "--mca", "--oversubscribe", "--allow-run-as-root"), (OPEN,)),
    **dict.fromkeys(("-ppn", "-genv", "-genvlist"), _HYDRA),
}
_SPELLINGS = {"-f": _HYDRA, "-hosts": _HYDRA, "-H": (OPEN,)}
_PROGRAMS = {"mpiexec.hydra": _HYDRA, "orterun": (OPEN,), "prterun": (OPEN,)}
_VARIABLES = {
    **dict.fromkeys(("OMPI_", "PRTE_", "PMIX_"), (OPEN,)),
    **dict.fromkeys(("I_MPI_", "CCL_"), (INTEL,)),
    **dict.fromkeys(("HYDRA_", "MPICH_", "MPIR_"), (MPICH,)),
}
_HOSTFILES = ("I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE")
_PER_NODE = re.compile(r"ppr:([0-9]+):node(:.*)?")


def apply(draft: Draft, words: Sequence[Word], program: Word) -> None:
    """Reads ``words``, the arguments of ``program``."""
    kept = read(TABLE, words, draft, Style())
    draft.launcher = "mpirun"
    _implementation(draft, kept, program)
    _binding(draft, kept)
    _place(draft, kept, program)
    _variables(draft, kept)
    _folder(draft, kept)
    _program(draft, kept, program)


def _implementation(draft: Draft, kept: Kept, program: Word) -> None:
    """Sets the MPI that the line belongs to."""
    possible: tuple[str, ...] = (OPEN, INTEL, MPICH)
    for word, some in _evidence(draft, kept, program):
        both = tuple(name for name in possible if name in some)
        if not both:
            message = (
                f"{bare(word.text)} belongs to {' and '.join(some)}, the words before it to {' and '.join(possible)}"
            )
            draft.refuse(word, message, "use the options of one MPI")
            return
        possible = both
    around = _surroundings(draft, kept)
    possible = tuple(name for name in possible if name in around) or possible
    draft.put(("spec", "mpi", "implementation"), possible[0], program)
    if len(possible) > 1:
        message = f"the line fits {' or '.join(possible)}; the job file uses {possible[0]}"
        draft.note(program, message, "set mpi.implementation to the one in the image")


def _evidence(draft: Draft, kept: Kept, program: Word) -> Iterable[tuple[Word, tuple[str, ...]]]:
    """Yields each word that only some MPIs have, with these MPIs."""
    name = program.text.rpartition("/")[2]
    by_program = _PROGRAMS.get(name) or {"openmpi": (OPEN,), "mpich": (MPICH,)}.get(name.rpartition(".")[2])
    if by_program:
        yield program, by_program
    for option, given in kept.options.items():
        for each in given:
            some = _SPELLINGS.get(each.option.text) or _OPTIONS.get(option)
            if some:
                yield each.option, some


def _surroundings(draft: Draft, kept: Kept) -> tuple[str, ...]:
    """Returns the MPI of the scripts and variables, which may be left over from another line."""
    if any(ccl.prepares(text) for text, _ in draft.sourced):
        return (INTEL,)
    names = [*draft.env, *(each.value.text for each in kept.all("-genv"))]
    found = {some for name in names for start, some in _VARIABLES.items() if name.startswith(start)}
    return found.pop() if len(found) == 1 else ()


def _binding(draft: Draft, kept: Kept) -> None:
    given = {name: kept.last(name) for name in ("--bind-to", "--map-by", "--oversubscribe")}
    draft.binds = {name: (each.option, each.value) for name, each in given.items() if each}


def _place(draft: Draft, kept: Kept, program: Word) -> None:
    """Sets the nodes and the ranks of each."""
    if draft.group:
        _set(draft, draft.group[0], (program, draft.group[1]))
        return
    total, per_node = _number(draft, kept.last("-n")), _per_node(draft, kept)
    hosts, file = kept.last("--host"), kept.last("--hostfile")
    variables = [draft.env.pop(name) for name in _HOSTFILES if name in draft.env]
    if draft.problems:
        return
    if hosts and draft.known(hosts.value):
        _on_hosts(draft, hosts, total, per_node)
    elif file or variables:
        _by_hostfile(draft, file.value if file else variables[0], total, per_node)
    elif total or per_node:
        _set(draft, 1, (total or per_node or program, int((total or per_node or program).text)))
    else:
        draft.refuse(program, "the number of ranks is not in the line", "write -n 4, for example", Kind.REQUIRED)


def _number(draft: Draft, given: Given | None) -> Word | None:
    """Returns the option's value, where it is a number."""
    return given.value if given and draft.number(given.value, given.option.text) else None


def _per_node(draft: Draft, kept: Kept) -> Word | None:
    """Returns the ranks of each node, whichever option gives them."""
    by_map = kept.last("--map-by")
    match = _PER_NODE.fullmatch(by_map.value.text) if by_map else None
    if by_map and match:
        return by_map.value.part(match[1])
    alone = kept.last("--pernode")
    if alone:
        return alone.option.part("1")
    return _number(draft, kept.last("-ppn")) or _number(draft, kept.last("-N"))


def _set(draft: Draft, nodes: int, per_node: tuple[Word, int]) -> None:
    draft.processes_word, draft.processes = per_node
    if nodes > 1:
        draft.put(("spec", "nodes"), nodes, per_node[0])


def _by_hostfile(draft: Draft, file: Word, total: Word | None, per_node: Word | None) -> None:
    """Derives the number of nodes from the ranks, because the hostfile is not read."""
    if not total or not per_node:
        message = f"the number of nodes in {bare(file.text)} is not in the line"
        return draft.refuse(
            file, message, "write both -n RANKS and -ppn RANKS_OF_A_NODE (Open MPI: --map-by ppr:N:node)"
        )
    ranks, each = int(total.text), int(per_node.text)
    if ranks % each and ranks > each:
        return draft.refuse(
            total, f"{ranks} ranks, {each} on each node, leave one node with fewer", f"write -n {ranks // each * each}"
        )
    draft.note(file, "the hostfile is not carried over: the job gets nodes of its own", "nodes: N")
    return _set(draft, max(ranks // each, 1), (per_node, min(each, ranks)))


def _on_hosts(draft: Draft, hosts: Given, total: Word | None, per_node: Word | None) -> None:
    """Reads `-hosts a,b` and `-H a:2,b:2`."""
    listed = [host.partition(":") for host in hosts.value.text.split(",")]
    slots = [int(number) if re.fullmatch("[0-9]{1,4}", number) else 1 for _, _, number in listed]
    named = any(colon for _, colon, _ in listed)
    draft.note(hosts.value, "the hosts' names are not carried over: the job gets nodes of its own", "nodes: N")
    if per_node:
        slots = [int(per_node.text)] * len(slots)
    elif not named and total:
        slots = [-(-int(total.text) // len(slots))] * len(slots)
    counts = _filled(slots, int(total.text) if total else sum(slots))
    if len(set(counts)) == 1:
        return _set(draft, len(counts), (per_node or total or hosts.value, counts[0]))
    message = f"the hosts get {', '.join(map(str, counts))} ranks, but all nodes of a job get the same number"
    return draft.refuse(hosts.value, message, "give each host the same number")


def _filled(slots: Sequence[int], ranks: int) -> list[int]:
    """Returns the ranks of each host that gets any, filling one host after the other."""
    counts: list[int] = []
    rest = ranks
    for index, size in enumerate(slots):
        counts.append(rest if index == len(slots) - 1 else min(size, rest))
        rest -= counts[-1]
    return [count for count in counts if count > 0] or [0]


def _variables(draft: Draft, kept: Kept) -> None:
    """Reads -genv NAME VALUE, -x NAME=VALUE and -x NAME."""
    for given in kept.all("-genv"):
        name, _, value = given.value.text.partition("=")
        draft.env[name] = given.values[1] if len(given.values) > 1 else given.value.part(value)
    for given in kept.all("-x"):
        name, joined, value = given.value.text.partition("=")
        if joined:
            draft.env[name] = given.value.part(value)
        else:
            _exported(draft, given.value, [name])
    for given in kept.all("-genvlist"):
        _exported(draft, given.value, given.value.text.split(","))
    for given in kept.all("--mca"):
        message = f"--mca {bare(given.value.text)} is not carried over: k8sel writes the mpirun command itself"
        draft.note(
            given.option, message, f"set OMPI_MCA_{given.value.text} in env where Open MPI's default does not fit"
        )


def _exported(draft: Draft, word: Word, names: Iterable[str]) -> None:
    """Warns about variables that the line sends to the ranks and the text does not set."""
    for name in names:
        if name not in draft.env:
            message = f"{bare(name)} is not carried over: its value is not in the text"
            draft.warn(word, message, f"write {bare(name)}=VALUE before the line")


def _folder(draft: Draft, kept: Kept) -> None:
    folder = kept.last("--wdir")
    if folder and draft.known(folder.value):
        draft.put(("spec", "workingDir"), folder.value.text, folder.value)


def _program(draft: Draft, kept: Kept, program: Word) -> None:
    draft.command = list(kept.rest)
    separator = next((word for word in kept.rest if word.text == ":"), None)
    if not kept.rest:
        draft.refuse(program, "the program is missing", "write its name after the options", Kind.REQUIRED)
    elif separator:
        message = f"{quote(':')} starts another program beside the first, but a job has one"
        draft.refuse(separator, message, "keep only the program that trains")
