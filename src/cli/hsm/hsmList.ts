import { existsSync } from 'node:fs';
import { Command } from 'commander';
import { OperatorError } from '../../base/errors.ts';
import { loadConfig } from '../../config/config.ts';
import { signerFailureOf } from '../../kms/epochKeys.ts';
import { inspectKey, type KeyInspection } from '../../kms/keyOperations.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import { certificateFile } from '../../tsa/installed.ts';
import { EXIT } from '../exit.ts';
import { explain } from '../help.ts';
import { configOption } from '../options.ts';
import { isJson, note, printJson, printTable } from '../terminal.ts';
import { keysInService, rootBeside, type WantedKey } from './hsmKeys.ts';

/** A key as it was found; `state` is `ready`, `missing`, `exposed` (it can leave the token), or the code of a failure. */
interface KeyReport extends WantedKey {
  state: string;
  /** What is wrong and what to do, for people. */
  detail?: string;
  inspection?: KeyInspection;
}

export function listCommand(): Command {
  return explain(
    new Command('list')
      .summary('sign with every key, and check how its token protects it')
      .description(
        'Signs with every key that is in use or planned, and checks that the token reports the key as protected: ' +
          'CKA_TOKEN, CKA_PRIVATE, CKA_SENSITIVE, not CKA_EXTRACTABLE. A PIN that is refused is tried only once.',
      )
      .addOption(configOption())
      .action(listKeys),
    {
      exit: {
        0: 'every key exists and signs, and none can leave its token; a software key is in a file',
        1: 'a key does not (standard error says why)',
      },
      examples: [
        'pdfseal hsm list --config /etc/pdfseal/production.toml',
        'pdfseal hsm list --config /etc/pdfseal/production.toml --json | jq -r \'select(.state != "ready") | .detail\'',
      ],
    },
  );
}

async function listKeys({ config: file }: { config: string }): Promise<void> {
  const config = loadConfig(file);
  const roots = config.timestamp.keys
    .map(rootBeside)
    .filter((token) => existsSync(certificateFile(config.certificatesDir, token)))
    .map((token) => ({ purpose: 'root' as const, token }));
  const reports: KeyReport[] = [];
  for (const wanted of [...(await keysInService(config)), ...roots]) {
    reports.push(await inspect(wanted));
  }
  if (isJson()) for (const report of reports) printJson(present(report));
  else printReports(reports);
  if (reports.some(({ state }) => state !== 'ready')) process.exitCode = EXIT.failed;
}

async function inspect(wanted: WantedKey): Promise<KeyReport> {
  try {
    return { ...wanted, ...judge(wanted, await inspectKey(wanted.token)) };
  } catch (error) {
    const failure = signerFailureOf(error);
    if (!(error instanceof OperatorError) || failure === undefined) throw error;
    return failure.code === 'key_not_found'
      ? {
          ...wanted,
          state: 'missing',
          detail: `${error.message}; if the key was never created: pdfseal hsm init-key`,
        }
      : { ...wanted, state: failure.code, detail: error.message };
  }
}

function judge({ purpose, token }: WantedKey, inspection: KeyInspection): Omit<KeyReport, keyof WantedKey> {
  const { algorithm, exposures } = inspection;
  const isFit = purpose === 'log' ? algorithm !== 'rsa-3072' : !['ed25519', 'mldsa44'].includes(algorithm);
  if (!isFit) {
    const detail = `${kmsKeyId(token)}: a ${purpose} key cannot be ${algorithm}; choose another key_label`;
    return { state: 'key_unsupported', detail, inspection };
  }
  if (exposures.length === 0) return { state: 'ready', inspection };
  const detail = `${kmsKeyId(token)}: the private key can leave its token (${exposures.join(', ')}); replace it with a key that \`pdfseal hsm init-key\` creates`;
  return { state: 'exposed', detail, inspection };
}

function printReports(reports: KeyReport[]): void {
  printTable(
    ['PURPOSE', 'KEY', 'ALGORITHM', 'STATE', 'PROTECTION'],
    reports.map(({ purpose, token, state, inspection }) => [
      purpose,
      kmsKeyId(token),
      inspection?.algorithm ?? '',
      state,
      inspection === undefined ? '' : describeProtection(inspection),
    ]),
  );
  for (const { detail } of reports) if (detail !== undefined) note(`pdfseal: ${detail}`);
}

function describeProtection({ exposures, wasAlwaysInside, software }: KeyInspection): string {
  if (software) return 'none: a software key';
  if (exposures.length > 0) return exposures.join(', ');
  return wasAlwaysInside
    ? 'created in the token, cannot leave it'
    : 'cannot leave the token, but it may have been imported';
}

function present({ purpose, token, state, detail, inspection }: KeyReport) {
  return {
    purpose,
    region: token.region,
    key_label: token.keyLabel,
    state,
    ...(inspection && {
      algorithm: inspection.algorithm,
      protected: inspection.exposures.length === 0 && !inspection.software,
      ...(inspection.software && { software: inspection.software }),
      exposures: inspection.exposures,
      always_inside: inspection.wasAlwaysInside,
    }),
    ...(detail !== undefined && { detail }),
  };
}
