"""What each process of a node gets of the devices found. Pure."""

from __future__ import annotations

from k8sel.entrypoint import masks
from k8sel.entrypoint.checks.survey import Survey
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.record import record


@record(frozen=True)
class Process:
    """One process of the node."""

    local_rank: int
    own: tuple[int, ...]  # positions it computes on
    variables: dict[str, str]  # masks


def processes(seen: Survey, expectation: Expectation) -> list[Process]:
    """What each of the node's processes gets; of devices that are not there, nothing."""
    number, isolation = expectation.processes_per_node, expectation.isolation
    everything = variables(there(expectation.devices, seen), seen, expectation)
    result = []
    for rank in range(number):
        own = there(masks.own(expectation.devices, number, rank, isolation), seen)
        alone = isolation == "process"  # then what a rank sees is what it computes on
        result.append(Process(rank, own, variables(own, seen, expectation) if alone else everything))
    return result


def there(positions: tuple[int, ...], seen: Survey) -> tuple[int, ...]:
    if not seen.found.how:
        return positions
    return tuple(position for position in positions if position < len(seen.found.devices))


def variables(positions: tuple[int, ...], seen: Survey, expectation: Expectation) -> dict[str, str]:
    if seen.hidden:
        return seen.hidden
    if not positions:  # going on (check: warn) without the devices asked for is not with all the others
        return dict(seen.row.maskHide)
    mask = masks.variables(seen.row, expectation.order, positions, seen.found.devices)
    return {**seen.found.counting, **mask}
