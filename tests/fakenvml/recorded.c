/*
 * NVIDIA's driver library as somebody recorded its answers: a table in the file that FAKE_NVML_TABLE names. Its first
 * line is the driver's version and CUDA's number, the others are PCI address, UUID, name and bytes of each device. A tab
 * is between two fields. An empty address means that the driver does not support the question. A part of a GPU (MIG) is
 * a device of its own here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 12, MOST = 1024 };

typedef struct { char pci[32], uuid[96], name[96]; unsigned long long bytes; } device;
typedef struct { char busIdLegacy[16]; unsigned int numbers[5]; char busId[32]; } pci_info;
typedef struct { unsigned long long total, free, used; } memory_info;

static device listed[MOST];
static unsigned int count;
static char driver[80];
static int cuda;

/* The next field, up to a tab or the line's end. */
static char *next(char **line) {
    char *field = *line, *end = field + strcspn(field, "\t\n");
    *line = *end ? end + 1 : end;
    *end = 0;
    return field;
}

int nvmlInit_v2(void) {
    char text[512], *rest = text;
    const char *path = getenv("FAKE_NVML_TABLE");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return NOT_FOUND;
    if (fgets(text, sizeof text, file)) {
        snprintf(driver, sizeof driver, "%s", next(&rest));
        cuda = atoi(next(&rest));
    }
    for (; count < MOST && fgets(text, sizeof text, file); count++) {
        rest = text;
        snprintf(listed[count].pci, sizeof listed->pci, "%s", next(&rest));
        snprintf(listed[count].uuid, sizeof listed->uuid, "%s", next(&rest));
        snprintf(listed[count].name, sizeof listed->name, "%s", next(&rest));
        listed[count].bytes = strtoull(next(&rest), NULL, 10);
    }
    fclose(file);
    return OK;
}

int nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    snprintf(version, length, "%s", driver);
    return OK;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = cuda;
    return cuda ? OK : NOT_SUPPORTED;
}

int nvmlDeviceGetCount_v2(unsigned int *number) {
    *number = count;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device **out) {
    *out = &listed[index];
    return index < count ? OK : INVALID_ARGUMENT;
}

int nvmlDeviceGetPciInfo_v3(device *card, pci_info *pci) {
    memset(pci, 0, sizeof *pci);
    snprintf(pci->busId, sizeof pci->busId, "%s", card->pci);
    return *card->pci ? OK : NOT_SUPPORTED;
}

int nvmlDeviceGetUUID(device *card, char *uuid, unsigned int length) {
    snprintf(uuid, length, "%s", card->uuid);
    return OK;
}

int nvmlDeviceGetName(device *card, char *name, unsigned int length) {
    snprintf(name, length, "%s", card->name);
    return OK;
}

int nvmlDeviceGetMemoryInfo(device *card, memory_info *memory) {
    *memory = (memory_info){.total = card->bytes, .free = card->bytes, .used = 0};
    return card->bytes ? OK : NOT_SUPPORTED;
}
