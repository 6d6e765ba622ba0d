import { existsSync } from 'node:fs';
import { ownProcess } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import { loadConfig } from '../../config/config.ts';
import { signerFailureOf } from '../../kms/epochKeys.ts';
import { signsLogs } from '../../kms/keyAlgorithm.ts';
import { inspectKey, type KeyInspection } from '../../kms/keyOperations.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import { certificateFile } from '../../tsa/installed.ts';
import { command } from '../command.ts';
import { EXIT } from '../exit.ts';
import { CONFIG } from '../options.ts';
import { isJson, note, printRows } from '../terminal.ts';
import { type KeyPurpose, keysInService, rootBeside, type WantedKey } from './hsmKeys.ts';

/** A key as found on its token. */
interface KeyRow {
  purpose: KeyPurpose;
  region: string;
  key_label: string;
  /** `ready`, `missing`, `exposed` (it can leave the token), or the code of a failure. */
  state: string;
  algorithm?: string;
  protected?: boolean;
  software?: true;
  exposures?: readonly string[];
  always_inside?: boolean;
  /** The fault and its remedy, for people. */
  detail?: string;
}

export const listCommand = command('list', {
  summary: 'sign with every key, and check how its token protects it',
  description:
    'Signs with every key that is in use or planned, and checks that the token reports the key as protected: ' +
    'CKA_TOKEN, CKA_PRIVATE, CKA_SENSITIVE, not CKA_EXTRACTABLE. A PIN that is refused is tried only once.',
  options: [CONFIG],
  exit: {
    0: 'every key exists and signs, and none can leave its token; a software key is in a file',
    1: 'a key does not (standard error says why)',
  },
  examples: [
    'pdfseal hsm list --config /etc/pdfseal/production.toml',
    'pdfseal hsm list --config /etc/pdfseal/production.toml --json | jq -r \'select(.state != "ready") | .detail\'',
  ],
  async run({ config: file }) {
    const config = loadConfig(file);
    const roots = config.timestamp.keys
      .map(rootBeside)
      .filter((token) => existsSync(certificateFile(config.certificatesDir, token)))
      .map((token) => ({ purpose: 'root' as const, token }));
    const rows: KeyRow[] = [];
    for (const wanted of [...(await keysInService(config)), ...roots]) rows.push(await inspect(wanted));
    printRows(rows, {
      PURPOSE: ({ purpose }) => purpose,
      KEY: ({ region, key_label: label }) => `${region}/${label}`,
      ALGORITHM: ({ algorithm = '' }) => algorithm,
      STATE: ({ state }) => state,
      PROTECTION: describeProtection,
    });
    if (!isJson()) for (const { detail } of rows) if (detail !== undefined) note(`pdfseal: ${detail}`);
    if (rows.some(({ state }) => state !== 'ready')) ownProcess().exitCode = EXIT.failed;
  },
});

async function inspect(wanted: WantedKey): Promise<KeyRow> {
  const { purpose, token } = wanted;
  const named = { purpose, region: token.region, key_label: token.keyLabel };
  try {
    const inspection = await inspectKey(token);
    const { algorithm, exposures, wasAlwaysInside, software } = inspection;
    const { state, ...why } = judge(wanted, inspection);
    const found = {
      algorithm,
      protected: exposures.length === 0 && !software,
      ...(software && { software }),
    };
    return { ...named, state, ...found, exposures, always_inside: wasAlwaysInside, ...why };
  } catch (error) {
    const failure = signerFailureOf(error);
    if (!(error instanceof OperatorError) || failure === undefined) throw error;
    if (failure.code !== 'key_not_found') return { ...named, state: failure.code, detail: error.message };
    const detail = `${error.message}; if the key was never created: pdfseal hsm init-key`;
    return { ...named, state: 'missing', detail };
  }
}

function judge(
  { purpose, token }: WantedKey,
  { algorithm, exposures }: KeyInspection,
): Pick<KeyRow, 'state' | 'detail'> {
  const isFit = purpose === 'log' ? signsLogs(algorithm) : !['ed25519', 'mldsa44'].includes(algorithm);
  if (!isFit) {
    const detail = `${kmsKeyId(token)}: a ${purpose} key cannot be ${algorithm}; choose another key_label`;
    return { state: 'key_unsupported', detail };
  }
  if (exposures.length === 0) return { state: 'ready' };
  const detail = `${kmsKeyId(token)}: the private key can leave its token (${exposures.join(', ')}); replace it with a key that \`pdfseal hsm init-key\` creates`;
  return { state: 'exposed', detail };
}

function describeProtection({ exposures, always_inside: wasAlwaysInside, software }: KeyRow): string {
  if (exposures === undefined) return '';
  if (software) return 'none: a software key';
  if (exposures.length > 0) return exposures.join(', ');
  return wasAlwaysInside
    ? 'created in the token, cannot leave it'
    : 'cannot leave the token, but it may have been imported';
}
