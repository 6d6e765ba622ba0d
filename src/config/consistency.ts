import { isIP } from 'node:net';
import type * as z from 'zod';
import { encodeQuorum, quorumFault } from '../log/quorum.ts';
import { databaseUrlFault, withoutPassword } from '../store/postgresql/databaseUrl.ts';
import { formatAddress, isLoopback } from '../web/address.ts';
import { BUILT_IN, type ConfigTables } from './schema.ts';
import type { KeyPath } from './toml.ts';

const HOUR_MS = 3_600_000;

/** A table of a log key, which can also be in a file, or of another key. */
type TokenTable = ConfigTables['kms']['partitions'][number];

type Refuse = (path: KeyPath, expected: string, found?: unknown) => void;

/**
 * Checks rules that involve several keys. Each issue carries the key that an administrator would change. A front has no keys of the log.
 */
export function consistent(payload: z.core.ParsePayload<ConfigTables>, isFront: boolean): void {
  const { http, console, complianceMode, pdf, sealing, retention, log, kms, timestamp, renewal, witness } =
    payload.value;
  const refuse: Refuse = (path, message, input) => {
    payload.issues.push({ code: 'custom', path: [...path], message, input });
  };
  if (http.uploadsPerClientMax > http.uploadsMax) {
    const expected = `at most http.uploads_max, ${http.uploadsMax} (left out it is 512)`;
    refuse(['http', 'uploads_per_client_max'], expected, http.uploadsPerClientMax);
  }
  const hours = retention.documentMs / HOUR_MS;
  const hoursMin = Math.ceil(sealing.giveUpAfterMs / HOUR_MS) + 1;
  if ((complianceMode || pdf.attach) && hours < hoursMin) {
    const expected = `at least ${hoursMin}, an hour more than sealing.give_up_after: until then a job may have no receipt`;
    refuse(['retention', 'document_hours'], expected, hours);
  }
  if (complianceMode && payload.value.store.engine !== 'lmdb')
    refuse(
      ['compliance_mode'],
      'false while store.engine is "postgresql": copies are files of one machine',
      true,
    );
  if (pdf.attach && payload.value.store.engine !== 'lmdb')
    refuse(
      ['pdf', 'attach'],
      'false while store.engine is "postgresql": the documents are files of one machine',
      true,
    );
  if (http.reusePort && payload.value.store.engine === 'lmdb')
    refuse(['http', 'reuse_port'], 'false while store.engine is "lmdb": one daemon serves that store', true);
  if (witness.required && witness.policy === undefined)
    refuse(['witness', 'policy'], 'the policy of the witnesses that must cosign', witness.policy);
  // Each login is recorded on the audit trail, to which a front cannot write.
  if (isFront && console !== undefined)
    refuse(['console'], 'no console on a front: configure it on the daemons that seal', {});
  checkAddresses(http, refuse);
  checkTlsKey(['http', 'tls'], http.tls, refuse);
  checkTlsKey(['console', 'tls'], console?.tls, refuse);
  if (console !== undefined) checkPeople(console, refuse);
  checkStore(payload.value.store, refuse);
  const fault = isFront ? undefined : quorumFault(kms.quorum, kms.partitions);
  if (!isFront && kms.partitions.length === 0)
    refuse(['kms', 'partitions'], 'one [[kms.partitions]] table for each partition, at least one', []);
  else if (fault !== undefined) {
    refuse(['kms', 'quorum'], `what kms.partitions can meet: ${fault}`, encodeQuorum(kms.quorum));
  }
  const isPostQuantum = kms.partitions.some(({ algorithm }) => algorithm === 'mldsa44');
  if (isPostQuantum && Buffer.byteLength(log.origin) > 255)
    refuse(
      ['log', 'origin'],
      'at most 255 bytes, which is all that a post-quantum key signs of it',
      log.origin,
    );
  checkTokens(['kms', 'partitions'], kms.partitions, refuse);
  checkTokens(['timestamp', 'keys'], timestamp.keys, refuse);
  checkAuthorities(timestamp, refuse);
  const known = Object.keys(timestamp.remotes).length + Number(timestamp.authorities.includes(BUILT_IN));
  if (renewal.authorities > Math.max(known, 1)) {
    const expected = `at most the number of authorities, ${known} here: ${BUILT_IN} and each [timestamp.remotes]`;
    refuse(['renewal', 'authorities'], expected, renewal.authorities);
  }
}

const EVERYWHERE = new Set(['0.0.0.0', '::']);

/** Names are looked up only when the daemon listens; their addresses are checked then. */
function checkAddresses({ listen, publicUrl, tls, ...http }: ConfigTables['http'], refuse: Refuse): void {
  const tcp = listen.filter((address) => 'host' in address);
  const open = tcp.find(({ host }) => isIP(host) !== 0 && !isLoopback(host));
  if (open && !tls && !http.clearTextBeyondLoopback) {
    const expected =
      'an address of this machine alone, such as "127.0.0.1:8400"; or [http.tls]; or, if something else protects API keys and ' +
      'documents on the way, http.clear_text_beyond_loopback = true';
    refuse(['http', 'listen'], expected, formatAddress(open));
  }
  if (publicUrl === undefined && (tcp[0] === undefined || EVERYWHERE.has(tcp[0].host))) {
    refuse(['http', 'public_url'], 'the URL clients use: http.listen does not tell it', publicUrl);
  }
  if (tls?.clientCrlFile !== undefined && tls.clientCaFile === undefined) {
    const expected = 'the authorities that the revocation lists are of';
    refuse(['http', 'tls', 'client_ca_file'], expected, tls.clientCaFile);
  }
}

/** Keys of which the table must have exactly one; at most one if it needs none. */
function checkOneOf(table: KeyPath, keys: Record<string, unknown>, refuse: Refuse, isNeeded = true): void {
  const [first = ''] = Object.keys(keys);
  const count = Object.values(keys).filter((found) => found !== undefined).length;
  if (count > 1 || (isNeeded && count === 0))
    refuse([...table, first], `either ${Object.keys(keys).join(' or ')}, and only one of them`, keys[first]);
}

function checkStore({ engine, urls, ...keys }: ConfigTables['store'], refuse: Refuse): void {
  const password = { password_file: keys.passwordFile, password_credential: keys.passwordCredential };
  const acceptanceKey = {
    acceptance_key_file: keys.acceptanceKeyFile,
    acceptance_key_credential: keys.acceptanceKeyCredential,
  };
  if (engine === 'lmdb') {
    for (const [key, found] of Object.entries({ url: urls, ...password, ...acceptanceKey }))
      if (found !== undefined) refuse(['store', key], 'nothing while store.engine is "lmdb"', '…');
    return;
  }
  if (urls === undefined) refuse(['store', 'url'], 'the URL of the database, for engine = "postgresql"');
  for (const url of urls ?? []) {
    const fault = databaseUrlFault(url);
    if (fault !== undefined) refuse(['store', 'url'], fault, withoutPassword(url));
  }
  checkOneOf(['store'], password, refuse, false);
  checkOneOf(['store'], acceptanceKey, refuse, false);
}

function checkTlsKey(
  table: KeyPath,
  tls: Pick<NonNullable<ConfigTables['http']['tls']>, 'keyFile' | 'keyCredential'> | undefined,
  refuse: Refuse,
): void {
  if (tls !== undefined)
    checkOneOf(table, { key_file: tls.keyFile, key_credential: tls.keyCredential }, refuse);
}

function checkPeople({ tls }: NonNullable<ConfigTables['console']>, refuse: Refuse): void {
  const names = (tls?.people ?? []).map(({ certificateName }) => certificateName);
  for (const [index, name] of names.entries())
    if (names.indexOf(name) !== index)
      refuse(['console', 'tls', 'people', index, 'certificate_name'], 'each certificate once', name);
}

function checkTokens(list: KeyPath, tokens: TokenTable[], refuse: Refuse): void {
  for (const [index, token] of tokens.entries()) {
    const { region, keyLabel, softwareKeyFile, softwareKeyCredential } = token;
    const at = [...list, index];
    if (softwareKeyFile === undefined && softwareKeyCredential === undefined) checkToken(at, token, refuse);
    else checkSoftwareKey(at, token, refuse);
    const first = tokens.findIndex((other) => other.region === region && other.keyLabel === keyLabel);
    if (first !== index) {
      refuse([...at, 'key_label'], 'region and key_label together to name one partition only', keyLabel);
    }
  }
}

function checkToken(at: KeyPath, token: TokenTable, refuse: Refuse): void {
  const { module, tokenLabel, tokenSerial, pinFile, pinCredential } = token;
  if (module === undefined)
    refuse([...at, 'module'], 'the PKCS#11 module of the token; for a software key, software_key_file');
  checkOneOf(at, { token_label: tokenLabel, token_serial: tokenSerial }, refuse);
  checkOneOf(at, { pin_file: pinFile, pin_credential: pinCredential }, refuse);
}

/** A classical key is always in an HSM; a post-quantum one may be in a file if no HSM can hold it. */
function checkSoftwareKey(at: KeyPath, token: TokenTable, refuse: Refuse): void {
  const { algorithm, softwareKeyFile, softwareKeyCredential } = token;
  checkOneOf(
    at,
    { software_key_file: softwareKeyFile, software_key_credential: softwareKeyCredential },
    refuse,
  );
  if (algorithm !== 'mldsa44')
    refuse([...at, 'algorithm'], '"mldsa44": no other key may be a software key', algorithm);
  const ofToken = {
    module: token.module,
    token_label: token.tokenLabel,
    token_serial: token.tokenSerial,
    pin_file: token.pinFile,
    pin_credential: token.pinCredential,
    public_key_file: token.publicKeyFile,
    environment: token.environment,
    library_parameters: token.libraryParameters,
  };
  for (const [name, found] of Object.entries(ofToken)) {
    if (found !== undefined) refuse([...at, name], 'nothing: a software key is on no token', found);
  }
}

function checkAuthorities({ authorities, keys, remotes }: ConfigTables['timestamp'], refuse: Refuse): void {
  for (const [index, name] of authorities.entries()) {
    const at = ['timestamp', 'authorities', index];
    if (authorities.indexOf(name) !== index) refuse(at, 'each authority once', name);
    else if (name === BUILT_IN && keys.length === 0) {
      refuse(at, 'a key for the built-in authority: [[timestamp.keys]]', name);
    } else if (name !== BUILT_IN && !Object.hasOwn(remotes, name)) {
      refuse(at, `"${BUILT_IN}" or the name of a [timestamp.remotes] table`, name);
    } else if (name !== BUILT_IN && remotes[name]?.url === undefined) {
      refuse(at, `an authority with a url in [timestamp.remotes.${name}]`, name);
    }
  }
}
