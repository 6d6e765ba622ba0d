/*
 * A PKCS#11 module that is SoftHSM until told otherwise. In the folder $FAULTY_DIR, the file `fault` says what goes wrong
 * from the next call on, and `calls` gets a line for each log-in and each fault played. Holds no lock, so signatures in several
 * sessions go wrong independently of each other. Compiled by faults.ts, which defines REAL_MODULE.
 */
#include <dlfcn.h>
#include <limits.h>
#include <pkcs11.h>
#include <stdatomic.h>
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

/*
 * Whether `fault` names this fault now; `value` gets the number after the name, or 0. With a second number n, the fault comes in
 * one of n calls.
 */
static int told(const char *name, unsigned long *value) {
  static atomic_ulong turns;
  char word[40] = "";
  unsigned long every = 1;
  FILE *fault = open_in_folder("fault", "r");
  *value = 0;
  if (!fault) return 0;
  if (fscanf(fault, "%39s %lu %lu", word, value, &every) < 1) word[0] = 0;
  fclose(fault);
  if (strcmp(word, name) != 0) return 0;
  return every <= 1 || ++turns % every == 0;
}

static void sleep_ms(unsigned long ms) {
  struct timespec pause = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000L};
  nanosleep(&pause, NULL);
}

/* `fault` may name a function and what it returns without having done anything, or `<function>-delay` and milliseconds. */
static CK_RV strike(const char *function) {
  unsigned long value;
  char delay[40];
  snprintf(delay, sizeof delay, "%s-delay", function);
  if (told(delay, &value)) {
    record(delay, value);
    sleep_ms(value);
  }
  if (!told(function, &value)) return CKR_OK;
  record(function, value);
  return value;
}

/*
 * Some modules have no locks, and say so to those who would call from several threads; some refuse to start without locks; and one that
 * misses its device may say first that it cannot lock.
 */
static CK_RV initialize(CK_VOID_PTR arguments) {
  unsigned long value;
  CK_C_INITIALIZE_ARGS *given = arguments;
  int locks = given && given->flags & CKF_OS_LOCKING_OK;
  if (locks && told("no-locks", &value)) {
    record("no-locks", 0);
    return CKR_CANT_LOCK;
  }
  if (!locks && told("locks-only", &value)) {
    record("locks-only", 0);
    return CKR_CANT_LOCK;
  }
  if (told("no-start", &value)) {
    record("no-start", locks);
    return locks ? CKR_NEED_TO_CREATE_THREADS : CKR_GENERAL_ERROR;
  }
  if (given && given->pReserved && told("parameters", &value)) {
    record(given->pReserved, 0);
    given->pReserved = NULL;
  }
  /* Modules print what they miss. */
  if (told("prints", &value))
    for (unsigned long n = 1; n <= value; n++) fprintf(n % 2 ? stderr : stdout, "vendor: cannot reach appliance %lu\n", n);
  fflush(stdout);
  if (told("prints", &value)) return CKR_GENERAL_ERROR;
  CK_RV struck = strike("C_Initialize");
  return struck == CKR_OK ? real->C_Initialize(arguments) : struck;
}

/* Sessions that this process has opened: the number after the fault is how many it gets. */
static atomic_ulong sessions_open;

static CK_RV open_session(CK_SLOT_ID slot, CK_FLAGS flags, CK_VOID_PTR application, CK_NOTIFY notify,
                          CK_SESSION_HANDLE_PTR session) {
  unsigned long value;
  if (told("sessions", &value) && sessions_open >= value) {
    record("sessions", value);
    return CKR_SESSION_COUNT;
  }
  CK_RV struck = strike("C_OpenSession");
  if (struck != CKR_OK) return struck;
  CK_RV result = real->C_OpenSession(slot, flags, application, notify, session);
  if (result == CKR_OK) sessions_open += 1;
  return result;
}

/* Some modules keep the log-in by session, up to the number after the fault, and answer the others that nobody is logged in. */
#define LOGGED_IN_MAX 64
static CK_SESSION_HANDLE logged_in[LOGGED_IN_MAX];
static atomic_ulong logged_in_count;

static int is_logged_in(CK_SESSION_HANDLE session) {
  for (unsigned long n = 0; n < logged_in_count; n++)
    if (logged_in[n] == session) return 1;
  return 0;
}

static CK_RV log_in_session(CK_SESSION_HANDLE session, unsigned long max) {
  record("login-by-session", session);
  if (is_logged_in(session)) return CKR_USER_ALREADY_LOGGED_IN;
  if (max > 0 && logged_in_count >= max) return CKR_GENERAL_ERROR;
  logged_in[logged_in_count] = session;
  logged_in_count += 1;
  return CKR_OK;
}

static CK_RV login(CK_SESSION_HANDLE session, CK_USER_TYPE user, CK_UTF8CHAR_PTR pin, CK_ULONG pin_bytes) {
  unsigned long value;
  CK_RV result = strike("C_Login");
  if (result == CKR_OK) result = real->C_Login(session, user, pin, pin_bytes);
  /* A token that takes its PIN at a pad only wants no PIN here. */
  if (told("pin-pad", &value) && pin) result = CKR_ARGUMENTS_BAD;
  /* Devices differ in their code for a wrong PIN. */
  if (result != CKR_OK && result != CKR_USER_ALREADY_LOGGED_IN && told("wrong-pin-is", &value)) result = value;
  if ((result == CKR_OK || result == CKR_USER_ALREADY_LOGGED_IN) && told("login-by-session", &value))
    result = log_in_session(session, value);
  /* Another program has logged in already. */
  if (result == CKR_OK && told("logged-in", &value)) result = CKR_USER_ALREADY_LOGGED_IN;
  /* With this answer the token has not judged the PIN. */
  record(result == CKR_USER_ALREADY_LOGGED_IN ? "logged-in" : "login", result);
  return result;
}

static CK_RV logout(CK_SESSION_HANDLE session) {
  record("logout", 0);
  return real->C_Logout(session);
}

/* Some tokens keep no public keys, and half a pair may be lost: searches for these find nothing. */
static int hides(CK_ATTRIBUTE_PTR template, CK_ULONG count) {
  unsigned long value;
  CK_OBJECT_CLASS hidden = CKO_VENDOR_DEFINED;
  if (told("no-public", &value)) hidden = CKO_PUBLIC_KEY;
  if (told("no-private", &value)) hidden = CKO_PRIVATE_KEY;
  for (CK_ULONG n = 0; n < count; n++)
    if (template[n].type == CKA_CLASS && *(CK_OBJECT_CLASS *)template[n].pValue == hidden) return 1;
  return 0;
}

static CK_RV find_init(CK_SESSION_HANDLE session, CK_ATTRIBUTE_PTR template, CK_ULONG count) {
  static CK_BYTE nowhere[] = "an object that no token has";
  CK_ATTRIBUTE of_nothing[] = {{CKA_ID, nowhere, sizeof nowhere}};
  CK_RV struck = strike("C_FindObjectsInit");
  if (struck != CKR_OK) return struck;
  return hides(template, count) ? real->C_FindObjectsInit(session, of_nothing, 1)
                                : real->C_FindObjectsInit(session, template, count);
}

static CK_RV find(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE_PTR objects, CK_ULONG room, CK_ULONG_PTR count) {
  CK_RV struck = strike("C_FindObjects");
  return struck == CKR_OK ? real->C_FindObjects(session, objects, room, count) : struck;
}

static CK_RV sign_init(CK_SESSION_HANDLE session, CK_MECHANISM_PTR mechanism, CK_OBJECT_HANDLE key) {
  unsigned long value;
  CK_RV struck = strike("C_SignInit");
  CK_MECHANISM_TYPE asked = mechanism->mechanism;
  if ((asked == CKM_RSA_PKCS && told("no-plain-rsa", &value)) ||
      (asked == CKM_SHA256_RSA_PKCS && told("no-hashed-rsa", &value))) {
    record("no-mechanism", asked);
    return CKR_MECHANISM_INVALID;
  }
  if (struck == CKR_OK && told("login-by-session", &value) && !is_logged_in(session)) struck = CKR_USER_NOT_LOGGED_IN;
  return struck == CKR_OK ? real->C_SignInit(session, mechanism, key) : struck;
}

/*
 * Of each two signatures the first one waits until the second one has ended, so they must be under way at the same time. With a
 * number after the fault, the second one fails instead, and the first one waits for ever.
 */
static atomic_ulong overtakers_begun, overtakers_ended;

static CK_RV overtake(unsigned long fails) {
  unsigned long turn = ++overtakers_begun;
  int is_second = turn % 2 == 0;
  record("overtake", turn);
  while (!is_second && (fails || overtakers_ended < turn)) sleep_ms(1);
  return is_second && fails ? CKR_DEVICE_ERROR : CKR_OK;
}

/* What a token loses in the middle of its work: all its sessions, this one, or the log-in. */
static void lose(CK_SESSION_HANDLE session, unsigned long what) {
  CK_SESSION_INFO info;
  record("lose", what);
  if (what == 0 && real->C_GetSessionInfo(session, &info) == CKR_OK) real->C_CloseAllSessions(info.slotID);
  if (what == 1) real->C_CloseSession(session);
  if (what == 2) real->C_Logout(session);
}

/* Signatures that are wrong, from all bits to one, and lengths that no signature of the key has. */
static void forge(CK_BYTE_PTR signature, CK_ULONG_PTR bytes, unsigned long how) {
  record("garbage", how);
  if (how == 0)
    for (CK_ULONG n = 0; n < *bytes; n++) signature[n] ^= 0x5a;
  if (how == 1) signature[*bytes / 2] ^= 1;
  if (how == 2) memset(signature, 0, *bytes);
  if (how == 3) *bytes /= 2;
  if (how == 5) *bytes = 0;
}
/* The buffer has no room for a longer one. */
#define FORGED_LONGER 4
/* Not forged, but over less than was to be signed. */
#define FORGED_OVER_LESS 6

static CK_RV sign(CK_SESSION_HANDLE session, CK_BYTE_PTR data, CK_ULONG data_bytes, CK_BYTE_PTR signature,
                  CK_ULONG_PTR signature_bytes) {
  unsigned long value;
  CK_RV struck = strike("C_Sign");
  if (struck != CKR_OK) return struck;
  if (told("lose", &value)) lose(session, value);
  if (told("crash", &value)) {
    record("crash", 0);
    *(volatile int *)NULL = 0;
  }
  if (told("alone", &value) && sessions_open > 1) {
    record("alone", 0);
    return CKR_OPERATION_ACTIVE;
  }
  CK_ULONG exact = 0;
  if (signature && told("exact-output", &value) &&
      real->C_Sign(session, data, data_bytes, NULL, &exact) == CKR_OK && exact != *signature_bytes) {
    record("exact-output", *signature_bytes);
    return CKR_DEVICE_ERROR;
  }
  int overtakes = told("overtake", &value);
  if (overtakes && overtake(value) != CKR_OK) return CKR_DEVICE_ERROR;
  int forges = told("garbage", &value);
  CK_ULONG less = forges && value == FORGED_OVER_LESS ? 1 : 0;
  CK_RV result = real->C_Sign(session, data, data_bytes - less, signature, signature_bytes);
  if (result == CKR_OK && forges && value == FORGED_LONGER) {
    record("garbage", value);
    *signature_bytes += 1;
    return CKR_BUFFER_TOO_SMALL;
  }
  if (result == CKR_OK && signature && forges) forge(signature, signature_bytes, value);
  if (overtakes) overtakers_ended += 1;
  return result;
}

/* Curves: a module may know Ed25519 by its name only, PrintableString "edwards25519", and says so with a code of PKCS#11 3.0. */
static CK_BYTE ed25519_oid[] = {0x06, 0x03, 0x2b, 0x65, 0x70};
static CK_BYTE ed25519_name[] = "\x13\x0c" "edwards25519";
#define ED25519_NAME_BYTES (sizeof ed25519_name - 1)
#define CURVE_NOT_SUPPORTED 0x140

static CK_RV generate_pair(CK_SESSION_HANDLE session, CK_MECHANISM_PTR mechanism, CK_ATTRIBUTE_PTR public,
                           CK_ULONG public_count, CK_ATTRIBUTE_PTR private, CK_ULONG private_count,
                           CK_OBJECT_HANDLE_PTR public_key, CK_OBJECT_HANDLE_PTR private_key) {
  unsigned long value;
  CK_ATTRIBUTE translated[16];
  if (told("named-curve", &value) && public_count <= 16) {
    memcpy(translated, public, public_count * sizeof *public);
    for (CK_ULONG n = 0; n < public_count; n++) {
      if (translated[n].type != CKA_EC_PARAMS) continue;
      if (translated[n].ulValueLen != ED25519_NAME_BYTES ||
          memcmp(translated[n].pValue, ed25519_name, ED25519_NAME_BYTES) != 0) {
        record("named-curve", 0);
        return CURVE_NOT_SUPPORTED;
      }
      translated[n].pValue = ed25519_oid;
      translated[n].ulValueLen = sizeof ed25519_oid;
    }
    public = translated;
  }
  CK_BBOOL yes = CK_TRUE;
  CK_ATTRIBUTE careful[17];
  if (told("always-authenticate", &value) && private_count <= 16) {
    memcpy(careful, private, private_count * sizeof *private);
    careful[private_count] = (CK_ATTRIBUTE){CKA_ALWAYS_AUTHENTICATE, &yes, sizeof yes};
    private = careful;
    private_count += 1;
  }
  CK_RV result = real->C_GenerateKeyPair(session, mechanism, public, public_count, private, private_count, public_key,
                                         private_key);
  /* The token is full after the first half. */
  if (result == CKR_OK && told("half-made", &value)) {
    real->C_DestroyObject(session, *private_key);
    result = CKR_DEVICE_MEMORY;
  }
  return result;
}

static CK_RV set_attributes(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object, CK_ATTRIBUTE_PTR attributes,
                            CK_ULONG count) {
  unsigned long value;
  if (told("fixed-id", &value)) {
    record("fixed-id", 0);
    return CKR_ATTRIBUTE_READ_ONLY;
  }
  return real->C_SetAttributeValue(session, object, attributes, count);
}

/* Where both halves are one object, the public one is gone with the private one. */
static CK_RV destroy_object(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object) {
  unsigned long value;
  CK_OBJECT_CLASS class = 0, public_class = CKO_PUBLIC_KEY;
  CK_BYTE label[64];
  CK_ATTRIBUTE known[] = {{CKA_CLASS, &class, sizeof class}, {CKA_LABEL, label, sizeof label}};
  CK_OBJECT_HANDLE half;
  CK_ULONG found = 0;
  CK_RV struck = strike("C_DestroyObject");
  if (struck != CKR_OK) return struck;
  if (told("one-object", &value) && real->C_GetAttributeValue(session, object, known, 2) == CKR_OK &&
      class == CKO_PRIVATE_KEY) {
    CK_ATTRIBUTE wanted[] = {{CKA_CLASS, &public_class, sizeof public_class},
                             {CKA_LABEL, label, known[1].ulValueLen}};
    real->C_FindObjectsInit(session, wanted, 2);
    real->C_FindObjects(session, &half, 1, &found);
    real->C_FindObjectsFinal(session);
    if (found == 1) real->C_DestroyObject(session, half);
    record("one-object", found);
  }
  CK_RV result = real->C_DestroyObject(session, object);
  /* Modules differ in their code for an object that is gone. */
  if (result == CKR_OBJECT_HANDLE_INVALID && told("one-object", &value) && value) return value;
  return result;
}

/* A token without a log-in has no private objects. */
static CK_RV get_attributes(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object, CK_ATTRIBUTE_PTR attributes,
                            CK_ULONG count) {
  unsigned long value;
  CK_RV result = real->C_GetAttributeValue(session, object, attributes, count);
  if (result != CKR_OK || !(told("no-login", &value) || told("not-private", &value))) return result;
  for (CK_ULONG n = 0; n < count; n++)
    if (attributes[n].type == CKA_PRIVATE && attributes[n].pValue) *(CK_BBOOL *)attributes[n].pValue = CK_FALSE;
  return result;
}

/* A slot in front of the others holds a card that nobody here can read. */
#define FOREIGN_SLOT 987654

static CK_RV list_slots(CK_BBOOL present, CK_SLOT_ID_PTR slots, CK_ULONG_PTR count) {
  unsigned long value;
  if (!told("foreign-card", &value)) return real->C_GetSlotList(present, slots, count);
  CK_ULONG room = *count;
  if (slots && room > 0) room -= 1;
  CK_RV result = real->C_GetSlotList(present, slots ? slots + 1 : NULL, &room);
  if (slots) slots[0] = FOREIGN_SLOT;
  *count = room + 1;
  return result;
}

static CK_RV token_info(CK_SLOT_ID slot, CK_TOKEN_INFO_PTR info) {
  unsigned long value;
  if (slot == FOREIGN_SLOT) {
    record("foreign-card", 0);
    return CKR_TOKEN_NOT_RECOGNIZED;
  }
  CK_RV result = real->C_GetTokenInfo(slot, info);
  if (result == CKR_OK && told("token-flags", &value)) info->flags |= value;
  if (result == CKR_OK && told("pin-pad", &value)) info->flags |= CKF_PROTECTED_AUTHENTICATION_PATH;
  if (result == CKR_OK && told("nul-padding", &value)) {
    for (size_t n = sizeof info->label; n > 0 && info->label[n - 1] == ' '; n--) info->label[n - 1] = 0;
    /* SoftHSM's serial numbers have 16 characters. */
    memset(info->serialNumber + 12, 0, 4);
  }
  if (result == CKR_OK && told("no-login", &value)) info->flags &= ~(CK_FLAGS)CKF_LOGIN_REQUIRED;
  return result;
}

/* What the module does at its end, which a process that is killed does not reach. */
static CK_RV finalize(CK_VOID_PTR reserved) {
  CK_RV struck = strike("C_Finalize");
  if (struck != CKR_OK) return struck;
  record("finalize", sessions_open);
  return real->C_Finalize(reserved);
}

/* Another instance, which was not initialised. */
static CK_RV login_to_another(CK_SESSION_HANDLE session, CK_USER_TYPE user, CK_UTF8CHAR_PTR pin, CK_ULONG pin_bytes) {
  (void)session, (void)user, (void)pin, (void)pin_bytes;
  record("instances", 0);
  return CKR_CRYPTOKI_NOT_INITIALIZED;
}

CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list) {
  unsigned long value;
  if (real && told("instances", &value)) {
    static CK_FUNCTION_LIST another;
    another = faulty;
    another.C_Login = login_to_another;
    *list = &another;
    return CKR_OK;
  }
  if (!real) {
    void *module = dlopen(REAL_MODULE, RTLD_NOW | RTLD_LOCAL);
    CK_C_GetFunctionList get = module ? (CK_C_GetFunctionList)dlsym(module, "C_GetFunctionList") : NULL;
    if (!get || get(&real) != CKR_OK) return CKR_GENERAL_ERROR;
    faulty = *real;
    faulty.C_GetFunctionList = C_GetFunctionList;
    faulty.C_Initialize = initialize;
    faulty.C_Finalize = finalize;
    faulty.C_OpenSession = open_session;
    faulty.C_Login = login;
    faulty.C_Logout = logout;
    faulty.C_FindObjectsInit = find_init;
    faulty.C_FindObjects = find;
    faulty.C_SignInit = sign_init;
    faulty.C_Sign = sign;
    faulty.C_GenerateKeyPair = generate_pair;
    faulty.C_SetAttributeValue = set_attributes;
    faulty.C_GetAttributeValue = get_attributes;
    faulty.C_DestroyObject = destroy_object;
    faulty.C_GetSlotList = list_slots;
    faulty.C_GetTokenInfo = token_info;
  }
  *list = &faulty;
  return CKR_OK;
}
