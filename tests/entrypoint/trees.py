"""Other vendors' machines as trees of /dev and /sys, as their drivers lay them out."""

from __future__ import annotations

from dataclasses import dataclass

from entrypoint.machines import Box


@dataclass(frozen=True)
class Card:
    """A device behind a render node: of the host in /sys, of this container too if it has its node."""

    minor: int
    bus: str  # "3b" for 0000:3b:00.0, or a whole address; "": the kernel does not say
    vendor: str = "0x8086"
    device: str = "0x0bd5"
    node: bool = True
    driver: str = "i915"


def drm(box: Box, *cards: Card, by_path: bool = True) -> None:
    """Render nodes; in ``by-path``, udev links to each by its PCI address. A container may lack that folder."""
    for card in cards:
        if card.node:
            box.write(f"dev/dri/renderD{card.minor}", "")
            box.write(f"dev/dri/card{card.minor - 128}", "")
        folder = f"sys/class/drm/renderD{card.minor}/device"
        box.write(f"{folder}/vendor", f"{card.vendor}\n")
        box.write(f"{folder}/device", f"{card.device}\n")
        address = card.bus if ":" in card.bus else f"0000:{card.bus}:00.0"
        if by_path and card.node and card.bus:
            link(box, f"pci-{address}-render", f"../renderD{card.minor}")
        box.write(f"{folder}/uevent", f"DRIVER={card.driver}\n" + (f"PCI_SLOT_NAME={address}\n" if card.bus else ""))


def link(box: Box, name: str, target: str) -> None:
    """An entry in /dev/dri/by-path."""
    entry = box.root / "dev/dri/by-path" / name
    entry.parent.mkdir(parents=True, exist_ok=True)
    entry.unlink(missing_ok=True)
    entry.symlink_to(target)


def tiles(box: Box, card: Card, *sizes: int) -> None:
    """A card's tiles as its driver shows them, with the bytes of each: xe's in decimal, Intel's own i915's in hex."""
    device = f"sys/class/drm/renderD{card.minor}/device"
    for number, size in enumerate(sizes):
        if card.driver == "xe":
            box.write(f"{device}/tile{number}/physical_vram_size_bytes", f"{size}\n")
        else:
            box.write(f"{device}/drm/card{card.minor - 128}/gt/gt{number}/addr_range", f"0x{size:016x}\n")


def neuron(box: Box, *numbers: int, cores: int = 2, root: bool = True) -> None:
    """Devices of that many physical cores; without ``root``, their number is a file that cannot be read."""
    for number in numbers:
        box.write(f"dev/neuron{number}", "")
        folder = f"sys/class/neuron_device/neuron{number}"
        box.write(f"{folder}/connected_devices", "\n")
        if root:
            box.write(f"{folder}/core_count", f"{cores}")
        for core in range(cores):
            box.write(f"{folder}/neuron_core{core}/info/architecture/arch_type", "NCv2\n")


def vfio(box: Box, *groups: tuple[int, str, str]) -> None:
    """Groups of VFIO's: (number, PCI address, vendor)."""
    box.write("dev/vfio/vfio", "")
    for number, address, vendor in groups:
        box.write(f"dev/vfio/{number}", "")
        box.write(f"sys/kernel/iommu_groups/{number}/devices/{address}/vendor", f"{vendor}\n")


def kfd(box: Box, *nodes: tuple[int, str], control: bool = True) -> None:
    """KFD's topology, (render minor, gpu_id) by node: minor 0 is a CPU, an empty gpu_id one that cannot be read."""
    if control:
        box.write("dev/kfd", "")
    for number, (minor, gpu) in enumerate(nodes):
        folder = f"sys/class/kfd/kfd/topology/nodes/{number}"
        if gpu:
            box.write(f"{folder}/gpu_id", f"{gpu}\n")
        box.write(
            f"{folder}/properties", f"cpu_cores_count 0\nsimd_count 304\ndrm_render_minor {minor}\nvendor_id 4098\n"
        )


def bank(box: Box, node: int, number: int, heap: int, size: int) -> None:
    """A memory of a node of KFD's: heap 0 is the host's, 1 and 2 are the GPU's own."""
    path = f"sys/class/kfd/kfd/topology/nodes/{node}/mem_banks/{number}/properties"
    box.write(path, f"heap_type {heap}\nsize_in_bytes {size}\nflags 0\nwidth 4096\nmem_clk_max 1300\n")


def amd(*cards: tuple[int, str]) -> list[Card]:
    return [Card(minor, bus, "0x1002", "0x74a1", driver="amdgpu") for minor, bus in cards]


def gaudi(box: Box, *modules: tuple[int, int | None], host: tuple[int, ...] = ()) -> None:
    """(N of accel<N>, module id); ``host``: shown by /sys alone."""
    for number, module in modules:
        box.write(f"dev/accel/accel{number}", "")
        box.write(f"dev/accel/accel_controlD{number}", "")
        if module is not None:
            box.write(f"sys/class/accel/accel{number}/device/module_id", f"{module}\n")
            box.write(f"sys/class/accel/accel{number}/device/pci_addr", f"0000:{number:02x}:00.0\n")
    for number in host:
        box.write(f"sys/class/accel/accel{number}/device/module_id", f"{number}\n")
