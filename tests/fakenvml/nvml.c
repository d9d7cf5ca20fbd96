/*
 * A stand-in for NVIDIA's driver library, for tests: as much of NVML as a program needs to list its devices.
 *
 * It knows eight devices and shows those whose node exists, as the real library shows only the cards that a
 * container was granted. Enumeration, minor numbers and PCI addresses all count in different orders, so that a
 * program that mixes two of them up is found out:
 *
 *   minor   0     1     2     3     4     5     6     7      (/dev/nvidia<minor>, and the last digit of the UUID)
 *   bus     80    70    60    50    40    30    20    10     (hexadecimal: the PCI order is the minors' reverse)
 *   listed  5th   2nd   7th   4th   1st   8th   3rd   6th
 *
 * Variables:
 *   FAKE_NVML_DEV      folder of the device nodes (default /dev)
 *   FAKE_NVML_RESULT   nvmlInit returns this code
 *   FAKE_NVML_HANG     nvmlInit never returns
 *   FAKE_NVML_CRASH    nvmlInit aborts the process
 *   FAKE_NVML_FAULT    what functions do instead, as "nvmlDeviceGetUUID=15,nvmlShutdown=hang": return a code, hang, crash
 *   FAKE_NVML_NAMES    product names by minor number, separated by commas; an empty one keeps the default. A device
 *                      named "Orin (nvgpu)" answers as the GPU of a Jetson Orin: no PCI address, no memory, and a UUID
 *                      without prefix.
 *   FAKE_NVML_DRIVER   the driver's version (default 570.00.00)
 *   FAKE_NVML_MIG      the parts of each device by minor number: ";3g.40gb,,1g.10gb" gives minor 1 three places, of
 *                      which the middle one is empty. A part has its own UUID and its share of the memory.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 8, PLACES = 7 };
enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7 };

typedef struct { int minor, part; } device; /* part 0: the whole card; else the number of the place, from 1 */
typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} pci_info;
typedef struct { unsigned long long total, free, used; } memory_info;

static device listed[COUNT] = {{4, 0}, {1, 0}, {6, 0}, {3, 0}, {0, 0}, {7, 0}, {2, 0}, {5, 0}};
static device parts[COUNT][PLACES];
static int initialized;

static const char *setting(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static int shown(const device *card) {
    const char *folder = setting("FAKE_NVML_DEV");
    char path[4096];
    snprintf(path, sizeof path, "%s/nvidia%d", folder ? folder : "/dev", card->minor);
    return access(path, F_OK) == 0;
}

static int number(const char *digits) {
    int value = 0;
    for (; *digits >= '0' && *digits <= '9'; digits++) value = value * 10 + (*digits - '0');
    return value;
}

/* The field with that number in a list, and where it ends; NULL if the list is too short. */
static const char *field(const char *list, int number, char separator, size_t *size) {
    const char ends[] = {separator, 0};
    for (; list && number > 0; number--) {
        list = strchr(list, separator);
        if (list) list++;
    }
    *size = list ? strcspn(list, ends) : 0;
    return list;
}

/* The profile at a place of a device, as "3g.40gb"; empty if there is none. */
static const char *profile(const device *card, int place, size_t *size) {
    size_t all, one;
    const char *places = field(setting("FAKE_NVML_MIG"), card->minor, ';', &all);
    const char *found = places ? field(places, place, ',', &one) : NULL;
    *size = found && found < places + all ? strcspn(found, ",;") : 0;
    return found;
}

static int is_partitioned(const device *card) {
    size_t size;
    const char *places = field(setting("FAKE_NVML_MIG"), card->minor, ';', &size);
    return !card->part && places && size;
}

static int copy(char *out, unsigned int size, const char *text, size_t length) {
    if (length >= size) return TOO_SMALL;
    memcpy(out, text, length);
    out[length] = 0;
    return OK;
}

/* What a function is told to do instead: 0 for nothing, else the code to return. */
static int fault(const char *function) {
    const char *rule = setting("FAKE_NVML_FAULT");
    size_t length = strlen(function);
    for (; rule; rule = strchr(rule, ',') ? strchr(rule, ',') + 1 : NULL) {
        if (strncmp(rule, function, length) || rule[length] != '=') continue;
        if (rule[length + 1] == 'c') {
            signal(SIGABRT, SIG_DFL); /* or the test run's own handler would tell of it */
            abort();
        }
        while (rule[length + 1] == 'h') pause();
        return number(rule + length + 1);
    }
    return OK;
}

#define ENTER() \
    do { \
        int told = fault(__func__); \
        if (told) return told; \
        if (!initialized) return UNINITIALIZED; \
    } while (0)

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    if (setting("FAKE_NVML_CRASH")) abort();
    while (setting("FAKE_NVML_HANG")) pause();
    if (setting("FAKE_NVML_RESULT")) return number(setting("FAKE_NVML_RESULT"));
    initialized = 1;
    return OK;
}

int nvmlInit_v2(void) {
    int told = fault(__func__);
    return told ? told : nvmlInitWithFlags(0);
}
int nvmlInit(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    ENTER();
    initialized = 0;
    return OK;
}

const char *nvmlErrorString(int result) {
    switch (result) {
    case OK: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case TOO_SMALL: return "Insufficient Size";
    case 9: return "Driver Not Loaded";
    case 12: return "NVML Shared Library Not Found";
    case 13: return "Function Not Found";
    case 15: return "GPU is lost";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    const char *given = setting("FAKE_NVML_DRIVER");
    ENTER();
    if (!given) given = "570.00.00";
    return copy(version, length, given, strlen(given));
}

int nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
    ENTER();
    return copy(version, length, "12.570.00.00", 12);
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    ENTER();
    *version = 12080;
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned int *count) {
    ENTER();
    *count = 0;
    for (int i = 0; i < COUNT; i++) *count += shown(&listed[i]);
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device **out) {
    ENTER();
    for (int i = 0; i < COUNT; i++) {
        if (shown(&listed[i]) && index-- == 0) {
            *out = &listed[i];
            return OK;
        }
    }
    return INVALID_ARGUMENT;
}

int nvmlDeviceGetIndex(device *card, unsigned int *index) {
    ENTER();
    *index = 0;
    for (device *other = listed; other < card; other++) *index += shown(other);
    return OK;
}

int nvmlDeviceGetMinorNumber(device *card, unsigned int *minor) {
    ENTER();
    *minor = card->minor;
    return OK;
}

/* NVIDIA/nvidia-container-toolkit pkg/nvcdi/lib-csv.go, isIntegratedGPU and isOrinGPUID. */
static int is_orin(const device *card) {
    const char orin[] = "Orin (nvgpu)";
    size_t size;
    const char *name = field(setting("FAKE_NVML_NAMES"), card->minor, ',', &size);
    return size == sizeof orin - 1 && strncmp(name, orin, size) == 0;
}

int nvmlDeviceGetUUID(device *card, char *uuid, unsigned int length) {
    const char *prefix = is_orin(card) ? "" : card->part ? "MIG-" : "GPU-";
    char text[64];
    ENTER();
    snprintf(text, sizeof text, "%s00000000-0000-0000-%04d-%012d", prefix, card->part, card->minor);
    return copy(uuid, length, text, strlen(text));
}

int nvmlDeviceGetName(device *card, char *name, unsigned int length) {
    size_t size, part = 0;
    char text[96];
    const char *given = field(setting("FAKE_NVML_NAMES"), card->minor, ',', &size);
    const char *kind = card->part ? profile(card, card->part - 1, &part) : "";
    ENTER();
    if (!size) given = "NVIDIA H100 80GB HBM3", size = strlen(given);
    snprintf(text, sizeof text, "%.*s%s%.*s", (int)size, given, card->part ? " MIG " : "", (int)part, kind);
    return copy(name, length, text, strlen(text));
}

int nvmlDeviceGetPciInfo_v3(device *card, pci_info *pci) {
    ENTER();
    if (is_orin(card)) return NOT_SUPPORTED;
    memset(pci, 0, sizeof *pci);
    pci->bus = (COUNT - card->minor) * 0x10;
    pci->pciDeviceId = 0x233010de;
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "0000:%02X:00.0", pci->bus);
    snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", pci->bus);
    return OK;
}

int nvmlDeviceGetMemoryInfo(device *card, memory_info *memory) {
    unsigned long long bytes = card->part ? 10737418240ULL : 85899345920ULL;
    ENTER();
    if (is_orin(card)) return NOT_SUPPORTED;
    *memory = (memory_info){.total = bytes, .free = bytes, .used = 0};
    return OK;
}

int nvmlDeviceGetCudaComputeCapability(device *card, int *major, int *minor) {
    (void)card;
    ENTER();
    *major = 9;
    *minor = 0;
    return OK;
}

int nvmlDeviceGetMigMode(device *card, unsigned int *current, unsigned int *pending) {
    ENTER();
    *current = *pending = is_partitioned(card);
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(device *card, unsigned int *count) {
    ENTER();
    *count = is_partitioned(card) ? PLACES : 0;
    return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(device *card, unsigned int index, device **out) {
    size_t size = 0;
    ENTER();
    if (index >= PLACES) return INVALID_ARGUMENT;
    profile(card, (int)index, &size);
    if (!size) return NOT_FOUND;
    *out = &parts[card->minor][index];
    **out = (device){card->minor, (int)index + 1};
    return OK;
}

int nvmlDeviceIsMigDeviceHandle(device *card, unsigned int *is) {
    ENTER();
    *is = card->part > 0;
    return OK;
}
