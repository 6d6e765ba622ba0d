/** What can happen to a token behind the daemon's back, done to the real one of `partitions.ts`. */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pkcs11 from 'pkcs11js';
import type { PartitionOptions } from '../../src/kms/partitions.ts';

/** The folder that holds the token's objects, as SoftHSM named it. */
export function tokenFolder(token: PartitionOptions): string {
  const tokens = join(token.pinFile, '..', 'tokens');
  const [name] = readdirSync(tokens);
  if (name === undefined) throw new Error(`no token in ${tokens}`);
  return join(tokens, name);
}

/** Takes the token away, as a lost network or a pulled card would; call the result to bring it back. */
export function takeToken(token: PartitionOptions): () => void {
  const folder = tokenFolder(token);
  const away = join(token.pinFile, '..', 'away');
  renameSync(folder, away);
  return () => renameSync(away, folder);
}

/**
 * Makes the module itself hang in its next call: it opens a FIFO that nobody writes to. Call the result to mend the token
 * for those who start afresh; who hangs already goes on hanging.
 */
export function hangModule(token: PartitionOptions): () => void {
  const generation = join(tokenFolder(token), 'generation');
  renameSync(generation, `${generation}.away`);
  execFileSync('mkfifo', [generation]);
  return () => {
    rmSync(generation);
    renameSync(`${generation}.away`, generation);
  };
}

/** Does something to the token behind the daemon's back, logged in as its user. */
export function editToken(
  token: PartitionOptions,
  edit: (module: pkcs11.PKCS11, session: Buffer) => void,
): void {
  process.env.SOFTHSM2_CONF = token.environment?.SOFTHSM2_CONF;
  const module = new pkcs11.PKCS11();
  module.load(token.module ?? '');
  module.C_Initialize();
  try {
    const slot = module
      .C_GetSlotList(true)
      .find((each) => module.C_GetTokenInfo(each).label.trimEnd() === token.tokenLabel);
    if (slot === undefined) throw new Error(`no token ${token.tokenLabel}`);
    const session = module.C_OpenSession(slot, pkcs11.CKF_SERIAL_SESSION | pkcs11.CKF_RW_SESSION);
    module.C_Login(session, pkcs11.CKU_USER, readFileSync(token.pinFile, 'utf8').trimEnd());
    edit(module, session);
  } finally {
    module.C_Finalize();
    module.close();
    delete process.env.SOFTHSM2_CONF;
  }
}

/** Objects of that label, and of that class where one is given (`CKO_…`). */
export function findObjects(
  module: pkcs11.PKCS11,
  session: Buffer,
  label: string,
  objectClass?: number,
): Buffer[] {
  const template = [{ type: pkcs11.CKA_LABEL, value: label }];
  module.C_FindObjectsInit(
    session,
    objectClass === undefined ? template : [...template, { type: pkcs11.CKA_CLASS, value: objectClass }],
  );
  const found = module.C_FindObjects(session, 10);
  module.C_FindObjectsFinal(session);
  return found;
}

/** All objects of the token, as its user sees them. */
export function allObjects(token: PartitionOptions): Buffer[] {
  let found: Buffer[] = [];
  editToken(token, (module, session) => {
    module.C_FindObjectsInit(session, []);
    found = module.C_FindObjects(session, 100);
    module.C_FindObjectsFinal(session);
  });
  return found;
}

/** Gives the token's user another PIN. What is logged in stays so; call the result to write the PIN to the PIN file. */
export function changePin(token: PartitionOptions): () => void {
  const pin = randomBytes(12).toString('hex');
  const old = readFileSync(token.pinFile, 'utf8').trimEnd();
  editToken(token, (module, session) => module.C_SetPIN(session, old, pin));
  return () => writeFileSync(token.pinFile, `${pin}\n`);
}

/** Removes the partition's key pair. */
export function destroyKey(token: PartitionOptions): void {
  editToken(token, (module, session) => {
    for (const object of findObjects(module, session, token.keyLabel))
      module.C_DestroyObject(session, object);
  });
}

/** Gives the key's label to the private half of `otherLabel`, in the place of its own. */
export function mismatchHalves(token: PartitionOptions, otherLabel: string): void {
  editToken(token, (module, session) => {
    for (const object of findObjects(module, session, token.keyLabel, pkcs11.CKO_PRIVATE_KEY)) {
      module.C_DestroyObject(session, object);
    }
    for (const object of findObjects(module, session, otherLabel, pkcs11.CKO_PRIVATE_KEY)) {
      module.C_SetAttributeValue(session, object, [{ type: pkcs11.CKA_LABEL, value: token.keyLabel }]);
    }
  });
}
