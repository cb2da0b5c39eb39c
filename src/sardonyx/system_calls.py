"""The system calls that a confined process may not make, and their numbers on each kind of machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """The numbers of one architecture, what the kernel calls it, and the bit that marks calls of its other ABI."""

    architecture: int
    numbers: Mapping[str, int]
    other_abi: int = 0


# Other processes, the machine itself, and doors that no model needs and that have led out of sandboxes.
NEVER = (
    "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "process_madvise",
    "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick",
    "mount_setattr", "setns", "unshare", "swapon", "swapoff", "reboot", "syslog", "acct", "quotactl", "vhangup",
    "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "iopl", "ioperm",
    "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register",
    "keyctl", "add_key", "request_key", "open_by_handle_at", "name_to_handle_at", "settimeofday", "clock_settime", "adjtimex",
    "sethostname", "setdomainname", "chown", "lchown", "fchown", "fchownat", "mknod", "mknodat",
    "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr",
    "chmod", "fchmodat", "fchmodat2", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups",
    "setpriority", "sched_setscheduler", "shmget", "shmat", "msgget", "semget", "mq_open",
)  # fmt: skip
# A pair of streams that are connected to each other stays allowed.
NETWORK = ("socket", "connect", "bind", "listen", "accept", "accept4")
PROCESSES = (
    "fork",
    "vfork",
    "execve",
    "execveat",
    "pidfd_send_signal",
    "rt_sigqueueinfo",
    "rt_tgsigqueueinfo",
    "tkill",
)

_X86_64 = {
    "ioctl": 16, "shmget": 29, "shmat": 30, "socket": 41, "connect": 42, "accept": 43, "bind": 49,
    "listen": 50, "socketpair": 53, "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "semget": 64, "msgget": 68,
    "chmod": 90,
    "chown": 92, "fchown": 93, "lchown": 94, "ptrace": 101, "syslog": 103, "setuid": 105, "setgid": 106, "setreuid": 113,
    "setregid": 114, "setgroups": 116, "setresuid": 117, "setresgid": 119, "rt_sigqueueinfo": 129, "mknod": 133,
    "setpriority": 141, "sched_setscheduler": 144, "vhangup": 153, "pivot_root": 155, "adjtimex": 159, "chroot": 161, "acct": 163,
    "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170,
    "setdomainname": 171, "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179, "setxattr": 188,
    "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "tkill": 200, "tgkill": 234,
    "clock_settime": 227, "mq_open": 240, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "mknodat": 259,
    "fchownat": 260, "fchmodat": 268, "unshare": 272, "accept4": 288, "rt_tgsigqueueinfo": 297, "perf_event_open": 298,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "seccomp": 317, "kexec_file_load": 320, "bpf": 321,
    "execveat": 322, "userfaultfd": 323,
}  # fmt: skip
_AARCH64 = {
    "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16, "ioctl": 29,
    "mknodat": 33, "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "fchmodat": 53, "fchownat": 54, "fchown": 55,
    "vhangup": 58, "quotactl": 60, "acct": 89, "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106,
    "clock_settime": 112, "syslog": 116, "ptrace": 117, "sched_setscheduler": 119, "kill": 129, "tkill": 130, "tgkill": 131,
    "rt_sigqueueinfo": 138, "setpriority": 140, "reboot": 142, "setregid": 143, "setgid": 144, "setreuid": 145, "setuid": 146,
    "setresuid": 147, "setresgid": 149, "setgroups": 159, "sethostname": 161, "setdomainname": 162, "settimeofday": 170,
    "adjtimex": 171, "mq_open": 180, "msgget": 186, "semget": 190, "shmget": 194, "shmat": 196, "socket": 198, "socketpair": 199,
    "bind": 200,
    "listen": 201, "accept": 202, "connect": 203, "add_key": 217, "request_key": 218,
    "keyctl": 219, "clone": 220, "execve": 221, "swapon": 224, "swapoff": 225, "rt_tgsigqueueinfo": 240, "perf_event_open": 241,
    "accept4": 242,  "name_to_handle_at": 264, "open_by_handle_at": 265, "setns": 268,
    "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273, "seccomp": 277, "bpf": 280,
    "execveat": 281, "userfaultfd": 282, "kexec_file_load": 294,
}  # fmt: skip
# Since Linux 5 a new call has the same number everywhere.
_EVERYWHERE = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435, "pidfd_getfd": 438,
    "process_madvise": 440, "mount_setattr": 442, "fchmodat2": 452,
}  # fmt: skip

TABLES = {
    "x86_64": Table(0xC000003E, {**_X86_64, **_EVERYWHERE}, other_abi=0x40000000),
    "aarch64": Table(0xC00000B7, {**_AARCH64, **_EVERYWHERE}),
}
