/**
 * The main process of the unit pdfseal-signer@ENVIRONMENT-NAME: it starts a signer for each connection of the daemon. What a signer may
 * sign is determined by the configuration and by the PIN that the service manager passed to this unit, and by nothing that the daemon
 * sends.
 */
import { join } from 'node:path';
import { inspectError } from '../base/ending.ts';
import { fromEnvironment } from '../base/env.ts';
import { OperatorError } from '../base/errors.ts';
import { keepCompanions } from '../base/keeper.ts';
import { loadConfig } from '../config/config.ts';
import { type Charter, PIN_UNFIT_STATUS } from '../kms/protocol.ts';
import { signerProgram } from '../kms/signerProcess.ts';

/** A key has one connection, or two during replacement; a command may add one more. */
const SIGNERS_MAX = 64;

function charterOf(name: string, credentials: string, folder: string): Charter {
  const { log, kms, timestamp } = loadConfig(join(credentials, 'config'), { files: 'unused' });
  const secret = {
    pinFile: join(credentials, 'pin'),
    pinSource: `/etc/pdfseal/signers/${name}/pin`,
    refusedPins: join(folder, 'refused-pins'),
  };
  const credential = `pin_${name.split('/').pop()}`;
  const isOurs = ({ pinCredential }: { pinCredential?: string }) => pinCredential === credential;
  const [partitions, authorities] = [kms.partitions.filter(isOurs), timestamp.keys.filter(isOurs)];
  const tokens = [...partitions, ...authorities].map((token) => ({ ...token, ...secret }));
  const relative = tokens.find(({ module }) => module?.startsWith(`${credentials}/`));
  if (tokens.length === 0)
    throw new OperatorError(
      `no partition and no time-stamping key in the configuration has the credential "${credential}"`,
    );
  if (new Set(tokens.map(({ environment }) => JSON.stringify(environment))).size > 1)
    throw new OperatorError(
      `the keys of the credential "${credential}" need one environment: give each its own PIN file`,
    );
  if (partitions.length > 1)
    throw new OperatorError(
      `${partitions.length} partitions of the log have the credential "${credential}": give each its own PIN file`,
    );
  if (relative !== undefined) throw new OperatorError('the path of the PKCS#11 module must be absolute');
  return {
    tokens,
    duties: {
      ...(partitions.length > 0 && {
        log: { origin: log.origin, folder, sessions: kms.sessions, isUnit: true },
      }),
      ...(authorities.length > 0 && {
        timestamps: { policy: timestamp.policy, accuracyMs: timestamp.accuracyMs },
      }),
    },
  };
}

function main(): void {
  const [name, check] = process.argv.slice(2);
  const [credentials, folder] = [
    fromEnvironment('CREDENTIALS_DIRECTORY'),
    fromEnvironment('STATE_DIRECTORY'),
  ];
  if (name === undefined || credentials === undefined || folder === undefined)
    throw new OperatorError('this program is run by the unit pdfseal-signer@ENVIRONMENT-NAME');
  const charter = charterOf(name, credentials, folder);
  // Checks whether this PIN can have a signer, before separate-signer moves it.
  if (check === '--check') return;
  const { sessions } = charter.duties.log ?? { sessions: SIGNERS_MAX };
  const program = { ...signerProgram(charter, [name], sessions), execArgv: process.execArgv };
  keepCompanions(program, SIGNERS_MAX, PIN_UNFIT_STATUS);
}

try {
  main();
} catch (error) {
  process.stderr.write(
    `pdfseal-signer: ${error instanceof OperatorError ? error.message : inspectError(error)}\n`,
  );
  process.exit(1);
}
