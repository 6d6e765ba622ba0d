/*
 * A PKCS#11 module that is SoftHSM until told otherwise. In the folder $FAULTY_DIR, the file `fault` says what goes wrong
 * from the next call on, and `calls` gets a line for each login and each fault played. Compiled by faultyModule.ts, which
 * defines REAL_MODULE.
 */
#include <dlfcn.h>
#include <limits.h>
#include <pkcs11.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static CK_FUNCTION_LIST_PTR real;
static CK_FUNCTION_LIST faulty;

static FILE *open_in_folder(const char *name, const char *mode) {
  char path[PATH_MAX];
  const char *folder = getenv("FAULTY_DIR");
  snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", name);
  return fopen(path, mode);
}

static void record(const char *what, unsigned long value) {
  FILE *calls = open_in_folder("calls", "a");
  if (!calls) return;
  fprintf(calls, "%s 0x%lx\n", what, value);
  fclose(calls);
}

/* Whether `fault` names this fault now; `value` gets the number after the name, or 0. */
static int told(const char *name, unsigned long *value) {
  char word[16] = "";
  FILE *fault = open_in_folder("fault", "r");
  *value = 0;
  if (!fault) return 0;
  if (fscanf(fault, "%15s %lu", word, value) < 1) word[0] = 0;
  fclose(fault);
  return strcmp(word, name) == 0;
}

static void sleep_ms(unsigned long ms) {
  struct timespec pause = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000L};
  nanosleep(&pause, NULL);
}

static CK_RV open_session(CK_SLOT_ID slot, CK_FLAGS flags, CK_VOID_PTR application, CK_NOTIFY notify,
                          CK_SESSION_HANDLE_PTR session) {
  unsigned long value;
  if (told("sessions", &value)) {
    record("sessions", 0);
    return CKR_SESSION_COUNT;
  }
  return real->C_OpenSession(slot, flags, application, notify, session);
}

static CK_RV login(CK_SESSION_HANDLE session, CK_USER_TYPE user, CK_UTF8CHAR_PTR pin, CK_ULONG pin_bytes) {
  unsigned long value;
  if (told("login-delay", &value)) sleep_ms(value);
  CK_RV result = real->C_Login(session, user, pin, pin_bytes);
  record("login", result);
  return result;
}

static CK_RV sign(CK_SESSION_HANDLE session, CK_BYTE_PTR data, CK_ULONG data_bytes, CK_BYTE_PTR signature,
                  CK_ULONG_PTR signature_bytes) {
  unsigned long value;
  if (told("sign-delay", &value)) sleep_ms(value);
  if (told("crash", &value)) {
    record("crash", 0);
    *(volatile int *)NULL = 0;
  }
  CK_RV result = real->C_Sign(session, data, data_bytes, signature, signature_bytes);
  if (result == CKR_OK && signature && told("garbage", &value)) {
    record("garbage", 0);
    for (CK_ULONG n = 0; n < *signature_bytes; n++) signature[n] ^= 0x5a;
  }
  return result;
}

CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list) {
  if (!real) {
    void *module = dlopen(REAL_MODULE, RTLD_NOW | RTLD_LOCAL);
    CK_C_GetFunctionList get = module ? (CK_C_GetFunctionList)dlsym(module, "C_GetFunctionList") : NULL;
    if (!get || get(&real) != CKR_OK) return CKR_GENERAL_ERROR;
    faulty = *real;
    faulty.C_GetFunctionList = C_GetFunctionList;
    faulty.C_OpenSession = open_session;
    faulty.C_Login = login;
    faulty.C_Sign = sign;
  }
  *list = &faulty;
  return CKR_OK;
}
