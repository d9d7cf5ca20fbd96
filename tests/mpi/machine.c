/* A machine of $MACHINE_CPUS CPUs, to preload: any process can be bound to any of them.
 *
 * What a process is bound to stands in $MACHINE_BOUND/PID, and outlives exec as the kernel's own record does. hwloc asks
 * the C library, Intel MPI's reader of CPUs makes the system calls itself. A thread that is bound is told to what, or to what
 * the last thread was made for: oneCCL looks.
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

#define MOST 64 /* threads that are bound, and the sets of CPUs that one mask can hold */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    pthread_t thread;
    cpu_set_t cpus[MOST];
} bound[MOST + 1]; /* the first is of the thread that is made next */
static int known = 0;

/* The thread's place, the first where it was never bound by itself. */
static int place(pthread_t thread)
{
    for (int at = 1; at <= known; at++)
        if (pthread_equal(bound[at].thread, thread)) return at;
    return 0;
}

static void keep(int at, size_t size, const cpu_set_t *mask)
{
    memset(bound[at].cpus, 0, sizeof bound[at].cpus);
    memcpy(bound[at].cpus, mask, size < sizeof bound[at].cpus ? size : sizeof bound[at].cpus);
}

int pthread_attr_setaffinity_np(pthread_attr_t *attributes, size_t size, const cpu_set_t *mask)
{
    (void)attributes;
    pthread_mutex_lock(&lock);
    keep(0, size, mask);
    pthread_mutex_unlock(&lock);
    return 0;
}

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *mask)
{
    pthread_mutex_lock(&lock);
    int at = place(thread);
    if (!at && known < MOST) bound[at = ++known].thread = thread;
    if (at) keep(at, size, mask);
    pthread_mutex_unlock(&lock);
    return at ? 0 : ENOMEM;
}

int pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *mask)
{
    pthread_mutex_lock(&lock);
    cpu_set_t *cpus = bound[place(thread)].cpus;
    int told = CPU_COUNT_S(sizeof bound->cpus, cpus);
    memset(mask, 0, size);
    memcpy(mask, cpus, size < sizeof bound->cpus ? size : sizeof bound->cpus);
    pthread_mutex_unlock(&lock);
    return !told && sched_getaffinity(0, size, mask) ? errno : 0;
}
