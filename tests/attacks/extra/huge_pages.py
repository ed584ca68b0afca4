"""Memory from the host's pool of huge pages, which the control group of memory is not charged for."""
import errno
import mmap

from attack import HIGH, attempt, finish, syscall

MMAP, MEMFD_CREATE, SHMGET = 9, 319, 29
MAP_HUGETLB, MFD_HUGETLB, SHM_HUGETLB = 0x40000, 4, 0o4000
SIZES = {"default": (0, 2 << 20), "2 MiB": (21 << 26, 2 << 20), "1 GiB": (30 << 26, 1 << 30)}


def go():
    found = []
    for name, (which, size) in SIZES.items():
        for kind in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            for upper in (0, HIGH):
                flags = kind | mmap.MAP_ANONYMOUS | MAP_HUGETLB | which | upper
                result, error = syscall(MMAP, None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
                if result != -1 or error != errno.EPERM:  # ENOMEM: it is only that the pool is empty
                    found.append("mmap of %s (errno %d)" % (name, error))
        if syscall(MEMFD_CREATE, b"huge", MFD_HUGETLB | which)[0] >= 0:
            found.append("memfd_create of " + name)
        if syscall(SHMGET, 0, size, SHM_HUGETLB | which | 0o1600)[0] >= 0:
            found.append("shmget of " + name)
    return " ".join(dict.fromkeys(found))


finish(attempt(go))
