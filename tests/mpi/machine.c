/* A machine of $MACHINE_CPUS CPUs, to preload: any process can be bound to any of them.
 *
 * What a process is bound to stands in $MACHINE_BOUND/PID, and outlives exec as the kernel's own record does. hwloc asks
 * the C library, Intel MPI's reader of CPUs makes the system calls itself. A thread that is bound is told that it is, as the
 * last one of its process that was: oneCCL looks.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static FILE *record(pid_t pid, const char *mode)
{
    char name[4096];
    snprintf(name, sizeof name, "%s/%d", getenv("MACHINE_BOUND"), (int)(pid ? pid : getpid()));
    return fopen(name, mode);
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *mask)
{
    FILE *file = record(pid, "w");
    if (!file) return -1;
    for (int cpu = 0; cpu < (int)(8 * size); cpu++)
        if (CPU_ISSET_S(cpu, size, mask)) fprintf(file, "%d\n", cpu);
    return fclose(file);
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask)
{
    int cpu, all = atoi(getenv("MACHINE_CPUS"));
    FILE *file = record(pid, "r");
    if ((int)(8 * size) < all) {
        errno = EINVAL;
        return -1;
    }
    memset(mask, 0, size);
    if (!file)
        for (cpu = 0; cpu < all; cpu++) CPU_SET_S(cpu, size, mask);
    else {
        while (fscanf(file, "%d", &cpu) == 1) CPU_SET_S(cpu, size, mask);
        fclose(file);
    }
    return 0;
}

long syscall(long number, ...)
{
    long a[6], (*real)(long, ...);
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_sched_setaffinity) return sched_setaffinity((pid_t)a[0], (size_t)a[1], (cpu_set_t *)a[2]);
    if (number == SYS_sched_getaffinity)
        return sched_getaffinity((pid_t)a[0], (size_t)a[1], (cpu_set_t *)a[2]) ? -1 : atoi(getenv("MACHINE_CPUS")) / 8;
    *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

long sysconf(int name)
{
    long (*real)(int);
    *(void **)&real = dlsym(RTLD_NEXT, "sysconf");
    return name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF ? atoi(getenv("MACHINE_CPUS")) : real(name);
}

static cpu_set_t told[64];

static int tell(size_t size, const cpu_set_t *mask)
{
    memset(told, 0, sizeof told);
    memcpy(told, mask, size < sizeof told ? size : sizeof told);
    return 0;
}

int pthread_attr_setaffinity_np(pthread_attr_t *attributes, size_t size, const cpu_set_t *mask)
{
    (void)attributes;
    return tell(size, mask);
}

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *mask)
{
    (void)thread;
    return tell(size, mask);
}

int pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *mask)
{
    (void)thread;
    if (!CPU_COUNT_S(sizeof told, told)) return sched_getaffinity(0, size, mask) ? errno : 0;
    memset(mask, 0, size);
    memcpy(mask, told, size < sizeof told ? size : sizeof told);
    return 0;
}
