"""Compares the product and the memory of the devices with those in the job. Reads and formats sizes. Pure."""

from __future__ import annotations

from k8sel.entrypoint.discovery import Found, with_notes
from k8sel.entrypoint.protocol import Expectation

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_SHOWN = 8  # positions listed in a message
_GIGABYTES = "ask for less: a card sold as 80GB has about 79.6Gi, and a part of it (MIG) less"


def problems(expectation: Expectation, found: Found) -> list[str]:
    """Refuses devices of another product, or with less memory."""
    return [*_product(expectation, found), *_memory(expectation, found)]


def unknown(expectation: Expectation, found: Found) -> list[tuple[str, str]]:
    """Returns the fields of the job that cannot be checked on this node, each with the reason."""
    result = []
    if expectation.product and not found.named and found.devices:
        product = " or ".join(expectation.product)
        result.append(("product", f"product {product} cannot be checked: {found.how} has no product names"))
    without = [position for position in _used(expectation, found) if not found.devices[position].memory]
    if expectation.memory is not None and without:
        reason = f"{found.how} has no memory size of {_numbered(without)}"
        result.append(("memory", f"memory of {size(expectation.memory)} cannot be checked: {reason}"))
    return result


def label(name: str) -> str:
    """Returns a driver's product name in the spelling of the vendor's node label."""
    kept = "".join(character for character in name if character.isalnum() or character in "-_. ")
    return "-".join(kept.split())


def _product(expectation: Expectation, found: Found) -> list[str]:
    """Refuses products that the job does not allow. An unknown name is refused, too."""
    if not expectation.product or not found.devices or not found.named:
        return []
    allowed = {_without_sharing(label(name)) for name in expectation.product}
    names = sorted({label(device.name) for device in found.devices})
    wrong = [name or "an unknown name" for name in names if _without_sharing(name) not in allowed]
    if not wrong:
        return []
    fact = f"product {' or '.join(expectation.product)} expected, {', '.join(wrong)} found by {found.how}"
    return [with_notes(fact, found, "use another node, or allow this product too")]


def _memory(expectation: Expectation, found: Found) -> list[str]:
    """Refuses used devices with too little memory. ``unknown`` handles devices whose memory is not known."""
    least = expectation.memory or 0
    smaller: dict[int, list[int]] = {}
    for position in _used(expectation, found):
        if 0 < found.devices[position].memory < least:
            smaller.setdefault(found.devices[position].memory, []).append(position)
    if not smaller:
        return []
    what = ", ".join(f"{size(memory)} on {_numbered(positions)}" for memory, positions in smaller.items())
    return [f"memory of {size(least)} or more expected on each device, {what} found by {found.how}: {_GIGABYTES}"]


def _used(expectation: Expectation, found: Found) -> list[int]:
    """Returns the positions of the devices that the processes use; all, if the numbers are the driver's own."""
    everything = range(len(found.devices))
    return [number for number in everything if expectation.order != "pci" or number in expectation.devices]


def _numbered(positions: list[int]) -> str:
    """Returns a text such as ``device 2`` or ``devices 0, 1``."""
    listed = ", ".join(map(str, positions[:_SHOWN])) + (", ..." if len(positions) > _SHOWN else "")
    return f"device{'' if len(positions) == 1 else 's'} {listed}"


def _without_sharing(product: str) -> str:
    """Returns the product without the label's endings for sharing: ``-SHARED``, ``-MIG-1g.5gb``."""
    return product.partition("-MIG-")[0].removesuffix("-SHARED")


def size(number: int) -> str:
    """Formats bytes as in a job file: ``79.64Gi``, ``64Mi``. Rounds down, so that a user can copy a found size."""
    name = next((name for name in reversed(_BINARY) if number >= _BINARY[name]), "")
    whole, hundredths = divmod(number * 100 // _BINARY.get(name, 1), 100)
    return f"{whole}.{hundredths:02}".rstrip("0").rstrip(".") + name


def parse(text: str) -> int:
    """Reads a whole number with a unit: ``40Gi``, ``80G``. Raises ValueError for anything else."""
    units = {**_BINARY, **_DECIMAL}
    number = text.rstrip("".join(units))
    unit = text[len(number) :]
    if unit not in units or not number.isascii() or not number.isdecimal() or not 0 < int(number) < 10**6:
        raise ValueError("not a whole number with a unit: write it as in 40Gi or 80G")
    return int(number) * units[unit]
