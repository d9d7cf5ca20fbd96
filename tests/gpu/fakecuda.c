/*
 * A stand-in for NVIDIA's libcuda.so.1, for the tests of the GPU tests: the devices of ../fakenvml/nvml.c whose nodes
 * are in FAKE_NVML_DEV, through CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER as the CUDA programming guide says
 * ("CUDA Environment Variables"). Without PCI_BUS_ID the order is the reverse one, so that it matters.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 8, OK = 0, INVALID_VALUE = 1, NO_DEVICE = 100 };

static int visible[COUNT], count; /* minor numbers */

static int present(int minor) {
    char path[4096];
    const char *folder = getenv("FAKE_NVML_DEV");
    snprintf(path, sizeof path, "%s/nvidia%d", folder ? folder : "/dev", minor);
    return access(path, F_OK) == 0;
}

/* The device that a word of the mask names, -1 if none. */
static int named(const char *word, const int *all, int number) {
    char uuid[64];
    for (int i = 0; i < number; i++) {
        snprintf(uuid, sizeof uuid, "GPU-00000000-0000-0000-0000-%012d", all[i]);
        if (strlen(word) > 4 && strncmp(uuid, word, strlen(word)) == 0) return all[i];
    }
    char *end;
    long index = strtol(word, &end, 10);
    return *word && !*end && index >= 0 && index < number ? all[index] : -1;
}

int cuInit(unsigned int flags) {
    const char *order = getenv("CUDA_DEVICE_ORDER"), *mask = getenv("CUDA_VISIBLE_DEVICES");
    if (getenv("FAKE_CUDA_NO_MASK")) mask = NULL; /* a driver that does not read it */
    int all[COUNT], number = 0, by_pci = order && strcmp(order, "PCI_BUS_ID") == 0;
    (void)flags;
    for (int i = 0; i < COUNT; i++) { /* by PCI address, the highest minor comes first */
        int minor = by_pci ? COUNT - 1 - i : i;
        if (present(minor)) all[number++] = minor;
    }
    count = 0;
    if (!mask) {
        memcpy(visible, all, sizeof all);
        count = number;
    } else {
        char words[4096];
        snprintf(words, sizeof words, "%s", mask);
        for (char *word = strtok(words, ","); word && count < COUNT; word = strtok(NULL, ",")) {
            int device = named(word, all, number);
            if (device < 0) break; /* the first that is none ends the list */
            visible[count++] = device;
        }
    }
    return count ? OK : NO_DEVICE;
}

int cuDeviceGetCount(int *out) {
    *out = count;
    return OK;
}

int cuDeviceGetUuid(unsigned char *uuid, int device) {
    if (device < 0 || device >= count) return INVALID_VALUE;
    memset(uuid, 0, 16);
    uuid[15] = (unsigned char)visible[device]; /* one digit, so that hexadecimal is decimal */
    return OK;
}
