/* SPDX-License-Identifier: Apache-2.0
 *
 * syscall-filter.c: the system calls that an executor refuses itself, by seccomp.
 * Owns nothing: the filter is the process's for good, and its children's. [main, before threads]
 * Keeps: a refused call fails with EPERM and kills no process. If a condition cannot be written exactly, more is
 * refused.
 * Does not list what is allowed: plugins are native code that calls what its libraries call. */
#include "executor/syscall-filter.h"

#include <asm/sockios.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"

#define MASK_INT 0xffffffffu

/* Calls that nothing in an executor needs. */
static const char *const refused[] = {
    /* other processes */
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "process_mrelease",
    "pidfd_getfd",
    "kcmp",
    "migrate_pages",
    /* mounts and namespaces */
    "mount",
    "umount",
    "umount2",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsmount",
    "fsconfig",
    "fspick",
    "pivot_root",
    "chroot",
    "setns",
    "unshare",
    /* the kernel, and parts of it that were broken into before */
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "keyctl",
    "add_key",
    "request_key",
    "init_module",
    "finit_module",
    "delete_module",
    "create_module",
    "query_module",
    "get_kernel_syms",
    "kexec_load",
    "kexec_file_load",
    "modify_ldt",
    "iopl",
    "ioperm",
    "uselib",
    "syslog",
    "_sysctl",
    "lookup_dcookie",
    "nfsservctl",
    "fanotify_init",
    "open_by_handle_at",
    /* the machine */
    "reboot",
    "swapon",
    "swapoff",
    "acct",
    "quotactl",
    "quotactl_fd",
    "vhangup",
    "sethostname",
    "setdomainname",
    "settimeofday",
    "stime",
    "clock_settime",
    "clock_adjtime",
    "adjtimex",
    /* memory, semaphores and queues that stay when the last process has ended: System V and POSIX message queues */
    "shmget",
    "shmat",
    "shmctl",
    "semget",
    "semop",
    "semtimedop",
    "semctl",
    "msgget",
    "msgsnd",
    "msgrcv",
    "msgctl",
    "ipc",
    "mq_open",
    "mq_unlink",
    "mq_timedsend",
    "mq_timedreceive",
    "mq_notify",
    "mq_getsetattr",
};

/* In these builds the leak checker looks into its own process by ptrace, at the end, and makes it dumpable for that. */
#if defined(__SANITIZE_ADDRESS__)
#define LEAK_CHECKER true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAK_CHECKER true
#endif
#endif
#ifndef LEAK_CHECKER
#define LEAK_CHECKER false
#endif

struct filter {
    scmp_filter_ctx context;
    int error; /* the first one */
};

static void refuse_call(struct filter *f, int error, const char *name, unsigned n, const struct scmp_arg_cmp *when)
{
    int number = seccomp_syscall_resolve_name(name);

    if (f->error || number < 0) /* this machine has none of that name */
        return;
    int r = seccomp_rule_add_array(f->context, SCMP_ACT_ERRNO((uint32_t)error), number, n, when);
    if (r < 0 && r != -EEXIST)
        f->error = r;
}

#define REFUSE(f, name, ...)                                                                                           \
    do {                                                                                                               \
        const struct scmp_arg_cmp when[] = {__VA_ARGS__};                                                              \
        refuse_call((f), EPERM, (name), ARRAY_SIZE(when), when);                                                       \
    } while (0)

/* Refused as a whole. */
static void refuse_all(struct filter *f, const char *name)
{
    refuse_call(f, EPERM, name, 0, NULL);
}

/* New namespaces by clone(). What clone3() is asked for lies in memory, which a filter cannot see: libraries then go
 * back to clone(). */
static void refuse_namespaces(struct filter *f)
{
    static const uint64_t flags[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                     CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};

    for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
        REFUSE(f, "clone", SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i]));
    refuse_call(f, ENOSYS, "clone3", 0, NULL);
}

static void refuse_reaching_out(struct filter *f)
{
    /* limits of another process, such as wsd's own */
    REFUSE(f, "prlimit64", SCMP_A0(SCMP_CMP_NE, 0));
    /* typing at the terminal that wsd was started from */
    REFUSE(f, "ioctl", SCMP_A1(SCMP_CMP_MASKED_EQ, MASK_INT, TIOCSTI));
    REFUSE(f, "ioctl", SCMP_A1(SCMP_CMP_MASKED_EQ, MASK_INT, TIOCLINUX));
    /* asking which one is in force is harmless */
    REFUSE(f, "personality", SCMP_A0(SCMP_CMP_NE, 0xffffffffu));
    if (LEAK_CHECKER)
        return;
    refuse_all(f, "ptrace");
    REFUSE(f, "prctl", SCMP_A0(SCMP_CMP_MASKED_EQ, MASK_INT, PR_SET_DUMPABLE), SCMP_A1(SCMP_CMP_NE, 0));
}

/* The kernel sends the signal of a descriptor to its owner, whichever process the owner is. Landlock keeps such signals
 * inside from version 6 on only, so descriptors get neither an owner nor a signal at any version. */
static void refuse_descriptor_owners(struct filter *f)
{
    static const int commands[] = {F_SETOWN, F_SETOWN_EX, F_SETSIG};

    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        REFUSE(f, "fcntl", SCMP_A1(SCMP_CMP_MASKED_EQ, MASK_INT, (scmp_datum_t)commands[i]));
    REFUSE(f, "ioctl", SCMP_A1(SCMP_CMP_MASKED_EQ, MASK_INT, FIOSETOWN));
    REFUSE(f, "ioctl", SCMP_A1(SCMP_CMP_MASKED_EQ, MASK_INT, SIOCSPGRP));
}

/* Where Landlock does not keep them inside: to this process only. A filter cannot tell children from others. */
static void refuse_signals(struct filter *f)
{
    uint64_t self = (uint64_t)getpid();

    REFUSE(f, "kill", SCMP_A0(SCMP_CMP_NE, self));
    REFUSE(f, "tgkill", SCMP_A0(SCMP_CMP_NE, self));
    REFUSE(f, "rt_sigqueueinfo", SCMP_A0(SCMP_CMP_NE, self));
    REFUSE(f, "rt_tgsigqueueinfo", SCMP_A0(SCMP_CMP_NE, self));
    refuse_all(f, "tkill");
    refuse_all(f, "pidfd_send_signal");
}

/* Where no command is run: what only commands need, and what would reach others of the same user. */
static void refuse_commands(struct filter *f)
{
    refuse_all(f, "execve");
    refuse_all(f, "execveat");
    /* a plugin could speak to wsd as if it were wsd's own user */
    REFUSE(f, "socket", SCMP_A0(SCMP_CMP_MASKED_EQ, MASK_INT, AF_UNIX));
    REFUSE(f, "sched_setscheduler", SCMP_A0(SCMP_CMP_NE, 0));
    REFUSE(f, "sched_setparam", SCMP_A0(SCMP_CMP_NE, 0));
    REFUSE(f, "sched_setattr", SCMP_A0(SCMP_CMP_NE, 0));
    REFUSE(f, "setpriority", SCMP_A0(SCMP_CMP_NE, PRIO_PROCESS));
    REFUSE(f, "setpriority", SCMP_A1(SCMP_CMP_NE, 0));
    REFUSE(f, "ioprio_set", SCMP_A0(SCMP_CMP_NE, IOPRIO_WHO_PROCESS));
    REFUSE(f, "ioprio_set", SCMP_A1(SCMP_CMP_NE, 0));
}

static void refuse_configured(struct filter *f, const char *names)
{
    _cleanup_(freep) char *copy = strdup(names);
    char *save = NULL;

    if (!copy)
        f->error = -ENOMEM;
    for (char *name = copy ? strtok_r(copy, " ", &save) : NULL; name; name = strtok_r(NULL, " ", &save)) {
        if (seccomp_syscall_resolve_name(name) == __NR_SCMP_ERROR)
            f->error = -EINVAL; /* wsd has looked at them */
        refuse_all(f, name);
    }
}

int syscall_filter_enter(const struct sandbox *s, bool signals)
{
    struct filter f = {.context = seccomp_init(SCMP_ACT_ALLOW)};

    if (!f.context)
        return -ENOMEM;
    /* 32-bit programs would go round the rules */
    f.error = seccomp_attr_set(f.context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM));
    if (f.error == 0)
        f.error = seccomp_attr_set(f.context, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a tree: few steps for each call */
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        refuse_all(&f, refused[i]);
    refuse_namespaces(&f);
    refuse_reaching_out(&f);
    refuse_descriptor_owners(&f);
    if (signals)
        refuse_signals(&f);
    if (!s->commands)
        refuse_commands(&f);
    refuse_configured(&f, s->deny);
    if (f.error == 0)
        f.error = seccomp_load(f.context);
    seccomp_release(f.context);
    return f.error;
}
