"""What a reader must know to judge the figures; written below the tables."""
from __future__ import annotations

from cells import ROUNDS_A_SESSION
from load import LONG, QUICK, WORKERS
from memory import CLEAR, LEAST_NOISE

RUN = (
    "Method: peers take turns, the order reversed every other round; 15 ms of rest after every sample; two runs "
    "of each thrown away first; every output is compared with what it must be. Times are from before the start "
    "until the complete result is in hand; for a process, until it has ended.",
    "Warm and not: Hutch's engine runs, its templates have imported their libraries, and sandboxes made in advance "
    "wait in its pool; every other peer starts from nothing, with its files in the page cache.")
CELL = (
    "Every peer gets a fresh session every %d rounds. A Jupyter cell is timed in the process that talks to the "
    "kernel; the others here, with the way to their process and back." % ROUNDS_A_SESSION,)
AT_ONCE = (
    "As many as fit into memory, by a guess of what one takes. The time is that of the last one that was answered, and "
    "shared by those that were; what takes longer than %g s is asked for once." % LONG,)
SUSTAINED = (
    "%d workers per core, threads of this one Python process, ask back to back, without rest, of whoever answers "
    "within %g s. Nothing made in advance lasts then; the time ends when the last answer is there and its sandbox is "
    "taken apart." % (WORKERS, QUICK),)
MEMORY = (
    "What MemAvailable was less while all sessions were open, compared with the mean of before and after; one session "
    "was opened and thrown away before. Noise is the difference between before and after, at least %d MB for all "
    "sessions together; a figure of less than %d times that is not told." % (LEAST_NOISE >> 20, CLEAR),)
ATTACKS = (
    "Everything is run as root where the harness is root, and each peer as it is set up below.",
    "In gVisor a program talks to another kernel than the host's: what is open there of seccomp_missing, "
    "unshare_user, chroot_pivot and capability_sets is open in that kernel.",
    "Pyodide has no system calls, which the programs are told; canary_by_javascript is asked of it alone.")
BETTER = (
    "What no figure here shows: gVisor puts another kernel between the program and the host's, Pyodide an instruction "
    "set; Hutch shares the host's kernel, as containers do. Containers have images, a network and packages that are "
    "installed while they run; Hutch has templates, and none of the others.",)
OF = {"cell": CELL, "at_once": AT_ONCE, "sustained": SUSTAINED, "memory": MEMORY, "attacks": ATTACKS}
