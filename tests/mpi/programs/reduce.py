"""Adds up all ranks by MPI itself: `reduce.py LIBRARY`, without any binding of Python to it.

The handles are those of mpi.h: MPICH's are numbers, which Intel MPI shares, and Open MPI's are objects of the library.
"""

import ctypes
import os
import sys
from typing import Any

mpi = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
handles: list[Any] = [0x44000000, 0x4C000405, 0x58000003]
if hasattr(mpi, "ompi_mpi_comm_world"):
    objects = ("ompi_mpi_comm_world", "ompi_mpi_int", "ompi_mpi_op_sum")
    handles = [ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name))) for name in objects]
world, integer, add = handles

rank, size, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
mpi.MPI_Init(None, None)
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
mpi.MPI_Allreduce(ctypes.byref(rank), ctypes.byref(total), 1, integer, add, world)
agrees = [os.environ["RANK"], os.environ["WORLD_SIZE"]] == [str(rank.value), str(size.value)]
host = os.uname().nodename
os.write(1, f"rank {rank.value} of {size.value} on {host}: {total.value}, as in the environment: {agrees}\n".encode())
mpi.MPI_Finalize()
