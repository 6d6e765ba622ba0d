import { X509Certificate } from 'node:crypto';
import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fromEnvironment } from '../base/env.ts';
import { OperatorError } from '../base/errors.ts';
import { systemReason } from '../base/systemReason.ts';
import { meetsQuorum } from '../log/quorum.ts';
import type { SignatureAlgorithm } from '../log/verifierKey.ts';
import { parseWitnessPolicy, satisfiesPolicy, WitnessPolicyError } from '../log/witnessPolicy.ts';
import { leavesOf } from './document.ts';
import { type NamedFile, noteOf } from './keys.ts';
import type { ConfigTables } from './schema.ts';
import { fault, type KeyPath } from './toml.ts';

/** The part of the configuration that decides which files a start needs. */
interface Config extends Pick<ConfigTables, 'environment' | 'clock'> {
  log: Pick<ConfigTables['log'], 'origin'>;
  witness: Pick<ConfigTables['witness'], 'required'>;
  file: string;
  document: unknown;
  kms: Pick<ConfigTables['kms'], 'quorum'> & {
    partitions: readonly { region: string; algorithm?: SignatureAlgorithm }[];
  };
  timestamp: { authorities: readonly string[]; keys: readonly { region: string }[] };
}

interface FileCheck {
  /** The text of the configuration, for line numbers. */
  text: string;
  /** Receives a line for each file that a start can do without. */
  tell(line: string): void;
  /** Whether credentials must be there. */
  credentials: boolean;
}

interface FileInUse extends NamedFile {
  /** The key that names the file. */
  path: KeyPath;
  file: string;
}

interface Fault {
  path: KeyPath;
  line: string;
}

/**
 * Throws OperatorError with a line for each file that is named and cannot be used. A start can do without a PIN file if the partitions
 * whose PIN files can be read meet the quorum: then `tell` gets the line.
 */
export function checkFiles(config: Config, { text, tell, credentials }: FileCheck): void {
  const faults = [...namedFiles(config), ...clockProgram(config)].flatMap((named): Fault[] => {
    if (named.isCredential && !credentials) return [];
    const why = whyUnusable(named, config);
    return why === undefined
      ? []
      : [{ path: named.path, line: fault(config.file, text, named.path, why, named.expected) }];
  });
  const spared = sparedPins(config, faults);
  const fatal = faults.filter((one) => !spared.includes(one));
  if (fatal.length > 0)
    throw new OperatorError(fatal.map(({ line }) => line).join('\n'), { code: 'invalid_config' });
  for (const { line } of spared) tell(line);
}

function namedFiles({ document, environment }: Config): FileInUse[] {
  return leavesOf(document).flatMap(({ path, schema, found }) => {
    const { file: named } = noteOf(schema);
    if (named === undefined || typeof found !== 'string') return [];
    if (!named.isCredential) return [{ ...named, path, file: found }];
    return signerSocket(found, environment) === undefined
      ? [{ ...named, path, file: credentialFile(found, environment) }]
      : [];
  });
}

function clockProgram({ timestamp, clock }: Config): FileInUse[] {
  if (clock.trust === 'system' || timestamp.authorities.length === 0) return [];
  const expected = `the program of ${clock.trust}: install it, or choose another clock.trust`;
  return [{ path: ['clock', 'program'], file: clock.program, expected }];
}

/** The faults of files with PINs and software keys that a start can do without. */
function sparedPins({ kms, timestamp }: Config, faults: readonly Fault[]): Fault[] {
  const lists = [
    { table: 'kms', signers: kms.partitions, quorum: kms.quorum },
    { table: 'timestamp', signers: timestamp.keys, quorum: { needed: 1 } },
  ];
  return lists.flatMap(({ table, signers, quorum }) => {
    const pins = faults.filter(
      ({ path }) => path[0] === table && /^(pin|software_key)_/.test(String(path.at(-1))),
    );
    const usable = signers.filter((_, index) => !pins.some(({ path }) => path[2] === index));
    return meetsQuorum(quorum, usable) ? pins : [];
  });
}

/** Path of a credential from systemd: for this process, or else for the daemon's unit while it runs, readable to root. */
export function credentialFile(name: string, environment: string): string {
  return join(
    fromEnvironment('CREDENTIALS_DIRECTORY') ?? `/run/credentials/pdfseald@${environment}.service`,
    name,
  );
}

/** The socket of the unit that holds the credential instead of this process; undefined if this process holds it, or no unit does. */
export function signerSocket(credential: string, environment: string): string | undefined {
  const own = fromEnvironment('CREDENTIALS_DIRECTORY');
  const folder =
    fromEnvironment('PDFSEALD_SIGNERS') ??
    // A command that root runs by hand has neither variable.
    (own === undefined ? `/run/pdfseal-signers/${environment}` : undefined);
  const [, name] = /^pin_(.+)$/.exec(credential) ?? [];
  if (folder === undefined || name === undefined) return undefined;
  if (own !== undefined && existsSync(join(own, credential))) return undefined;
  const socket = join(folder, `${name}.sock`);
  return existsSync(socket) ? socket : undefined;
}

/** The folder of the unit that holds this credential, for a command that logs in with it too; undefined without such a unit. */
export function sharedRefusedPins(credential: string): string | undefined {
  const folder = fromEnvironment('PDFSEALD_REFUSED_PINS');
  const [, name] = /^pin_(.+)$/.exec(credential) ?? [];
  if (folder === undefined || name === undefined) return undefined;
  const shared = join(folder, name);
  return existsSync(shared) ? shared : undefined;
}

const CERTIFICATE =
  /-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----[^-]+-----END (?:TRUSTED |X509 )?CERTIFICATE-----/g;

function whyUnusable({ file, hasCertificates, hasPolicy }: FileInUse, config: Config): string | undefined {
  try {
    accessSync(file, constants.R_OK);
    if (!statSync(file).isFile()) return `cannot read ${file} (not a file)`;
  } catch (cause) {
    return `cannot read ${file} (${systemReason(cause)})`;
  }
  if (hasPolicy) return policyFault(file, config);
  if (!hasCertificates) return undefined;
  const certificates = readFileSync(file, 'latin1').match(CERTIFICATE) ?? [];
  if (certificates.length === 0) return `there is no certificate in ${file}`;
  const bad = certificates.findIndex((pem) => !isCertificate(pem));
  return bad < 0 ? undefined : `certificate ${bad + 1} of ${file} cannot be read`;
}

function policyFault(file: string, { log, witness }: Config): string | undefined {
  try {
    const policy = parseWitnessPolicy(readFileSync(file, 'utf8'), log.origin);
    const asked = policy.witnesses.filter(({ url }) => url !== undefined).map(({ label }) => label);
    const canBeMet = policy.quorum !== undefined && satisfiesPolicy(policy, new Set(asked));
    if (witness.required && !canBeMet)
      return `witness.required is true, and ${file} has no quorum that its witnesses with a URL can meet`;
    return undefined;
  } catch (error) {
    if (error instanceof WitnessPolicyError) return `${file} is not a witness policy: ${error.message}`;
    throw error;
  }
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).subject !== undefined;
  } catch {
    return false;
  }
}
