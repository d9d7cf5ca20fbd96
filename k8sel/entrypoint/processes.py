"""What each process of a node gets of the devices found. Pure."""

from __future__ import annotations

from k8sel.entrypoint import masks
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.record import record
from k8sel.entrypoint.survey import Survey


@record(frozen=True)
class Process:
    """One process of the node."""

    local_rank: int
    own: tuple[int, ...]  # positions it computes on
    variables: dict[str, str]  # masks


def processes(seen: Survey, expectation: Expectation) -> list[Process]:
    """What each of the node's processes gets; of devices that are not there, nothing."""
    number, isolation = expectation.processes_per_node, expectation.isolation
    result = []
    for rank in range(number):
        shared = masks.share(expectation.devices, number, rank, isolation)
        own = masks.own(expectation.devices, number, rank, isolation)
        result.append(Process(rank, there(own, seen), variables(there(shared, seen), seen, expectation)))
    return result


def there(positions: tuple[int, ...], seen: Survey) -> tuple[int, ...]:
    if not seen.found.how:
        return positions
    return tuple(position for position in positions if position < len(seen.found.devices))


def variables(positions: tuple[int, ...], seen: Survey, expectation: Expectation) -> dict[str, str]:
    if seen.hidden or not positions:
        return seen.hidden
    return masks.variables(seen.row, expectation.order, positions, seen.found.devices)
