import { existsSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { AUTHORITY_ALGORITHMS, type AuthorityAlgorithm } from '../../asn1/signatureAlgorithm.ts';
import { writeFileAtomically } from '../../base/atomicFile.ts';
import { systemClock } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { makeFolder } from '../../base/folders.ts';
import { acquireLock } from '../../base/lock.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import { hostOfOrigin } from '../../config/placeholder.ts';
import { rootsNow, trustOf } from '../../config/trustAnchors.ts';
import { asLogKey } from '../../kms/epochKeys.ts';
import type { HeldKey } from '../../kms/keyAlgorithm.ts';
import { initKey } from '../../kms/keyOperations.ts';
import type { Epoch } from '../../log/epochs.ts';
import {
  CLASSICAL_ALGORITHMS,
  describeKey,
  kmsKeyId,
  type SignatureAlgorithm,
} from '../../log/verifierKey.ts';
import { sealedForm } from '../../manifest/sealedForm.ts';
import { encodeTrust } from '../../manifest/trustFile.ts';
import { actOfProcess } from '../../store/acts.ts';
import { assertMayCreateAt, createStoreAt, describeStore, storeExists } from '../../store/engines.ts';
import { certificateFile } from '../../tsa/installed.ts';
import { command, type Given, option } from '../command.ts';
import {
  certifyKeys,
  parseValidityArgument,
  ROOT_VALIDITY_DEFAULT_MS,
  VALIDITY_DEFAULT_MS,
} from '../hsm/authorityCertificates.ts';
import {
  asAuthorityKey,
  configuredKeys,
  findKey,
  type KeyPurpose,
  rootBeside,
  type WantedKey,
} from '../hsm/hsmKeys.ts';
import { parseNamePart } from '../hsm/subject.ts';
import { CONFIG } from '../options.ts';
import { instanceOf } from '../systemd.ts';
import { isJson, note, print, printJson } from '../terminal.ts';
import { ANSWER_OPTIONS, isWanted, makeConfig, requireOwned } from './initConfig.ts';

const INIT_OPTIONS = [
  CONFIG,
  option('--algorithm <name>', 'algorithm of the log keys, if their tables in the config file name none', {
    choices: CLASSICAL_ALGORITHMS,
    default: 'ed25519',
  }),
  option('--timestamp-algorithm <name>', 'algorithm of the time-stamping keys and the root', {
    choices: AUTHORITY_ALGORITHMS,
    default: 'ecdsa-p256',
  }),
  option(
    '--use-existing-keys',
    'use the keys that exist in the partitions, and create those that are missing',
  ),
  option('--external-ca', 'create no root and no certificates: your own authority issues them'),
  option('--subject-organization <name>', 'organization (O) in root and certificates', parseNamePart),
  option('--root-validity <duration>', 'how long the root is valid', {
    parse: parseValidityArgument,
    default: ROOT_VALIDITY_DEFAULT_MS,
    shown: '9125d',
  }),
  option('--certificate-validity <duration>', 'how long the time-stamping certificates are valid', {
    parse: parseValidityArgument,
    default: VALIDITY_DEFAULT_MS,
    shown: '1825d',
  }),
  ...ANSWER_OPTIONS,
] as const;

type InitOptions = Given<typeof INIT_OPTIONS>;

export const initCommand = command('init', {
  description:
    'Creates what a new environment needs: a signing key in every HSM partition of the config file, the keys of its ' +
    'time-stamp authority and their certificates, an empty log and store, and the trust file. Run it as the ' +
    "daemon's user, for example with pdfseal-run. It never overwrites anything.",
  options: INIT_OPTIONS,
  formerly: { '--organization-name': '--subject-organization' },
  notes: `A root certifies the time-stamping keys. The command makes the root in the token of the first of these keys, with "-root" at the end
of its label; like them, it never leaves the HSM. If you have a certificate authority of your own, add --external-ca, send the output
of \`pdfseal hsm csr\` to the authority, and install its answer with \`pdfseal hsm install-certificate\`.`,
  examples: [
    'pdfseal init --interactive --config /etc/pdfseal/production.toml',
    'pdfseal init --config /etc/pdfseal/production.toml --origin seal.acme.com/production --add-partition ' +
      'region=eu,module=/usr/lib/softhsm/libsofthsm2.so,token=seal-eu,pin-file=/etc/pdfseal/production.pins/eu',
    'pdfseal init --config /etc/pdfseal/sandbox.toml --throwaway',
    'pdfseal-run production init --subject-organization "Example Corp"',
    'pdfseal init --config /etc/pdfseal/production.toml --external-ca --timestamp-algorithm rsa-3072',
  ],
  misuse: ({ rootValidity, certificateValidity }) =>
    rootValidity < certificateValidity
      ? '--certificate-validity: a certificate cannot outlive its root (--root-validity)'
      : undefined,
  async run(options) {
    if (isWanted(options)) {
      await makeConfig(options);
      if (tellOtherUser(options.config)) return;
    }
    const config = loadConfig(options.config);
    if (config.isFront)
      throw new OperatorError(
        `${config.file}: without [kms] this is the configuration of a front, which does not create a log`,
        {
          remedy: 'run it with the configuration of the daemon that seals',
        },
      );
    requireOwned('log.origin', hostOfOrigin(config.log.origin), options.throwaway);
    requireOwned('http.public_url', new URL(config.http.publicUrl).hostname, options.throwaway);
    await refuseExisting(config, options);
    makeFolder(config.stateDir, 0o700);
    using _lock = acquireLock(config.lockFile);
    await make(config, options);
    tellNext(config, options);
  },
});

const WORDS: Record<KeyPurpose, string> = { log: 'key', 'time-stamp': 'stamp', root: 'root' };

/** In the package, root writes the configuration, and the daemon's user makes everything else. */
function tellOtherUser(file: string): boolean {
  const instance = instanceOf(resolve(file));
  if (instance === undefined || process.geteuid?.() !== 0) return false;
  note(`Next: check that the daemon can use it:  pdfseal-run ${instance} check-config`);
  note(`      create keys, log and store:          pdfseal-run ${instance} init`);
  return true;
}

async function make(config: Config, options: InitOptions): Promise<void> {
  const keys = await makeKeys(wantedKeys(config, options), options);
  const files = await makeCertificates(config, keys, options);
  const logKeys = keys.filter(({ wanted }) => wanted.purpose === 'log').map(({ key }) => asLogKey(key));
  const identity = {
    environment: config.environment,
    logOrigin: config.log.origin,
    createdAt: systemClock(),
  };
  const epoch: Epoch = {
    from: identity.createdAt,
    keys: logKeys.map((key) => ({ ...key, partition: key.keyLabel })),
    quorum: config.kms.quorum,
    timestamps: config.timestamp.authorities.length > 0 ? 'required' : 'none',
    roots: lacksCertificates(config) ? [] : rootsNow(config),
  };
  // The store comes last, and whole: if we stop before it, the same command (with --use-existing-keys) goes on.
  if (!lacksCertificates(config))
    writeFileAtomically(config.trustFile, encodeTrust(trustOf(identity, [epoch], config, new Map())));
  const act = actOfProcess('command', 'log.create', {
    log_origin: config.log.origin,
    ...sealedForm(config.log.origin, epoch),
    keys: keys.map(({ key }) => kmsKeyId(key)),
  });
  await createStoreAt(config.store, { identity, epoch, act });
  const trustFile = lacksCertificates(config) ? undefined : config.trustFile;
  if (isJson()) {
    printJson({
      environment: config.environment,
      log_origin: config.log.origin,
      keys: keys.map(presentKey),
      chains: files,
      store: describeStore(config.store),
      trust_file: trustFile ?? null,
    });
    return;
  }
  for (const file of files) print(`chain  ${file}`);
  print(`log    ${config.log.origin}`);
  print(`store  ${describeStore(config.store)}`);
  if (trustFile !== undefined) print(`trust  ${trustFile}`);
}

function presentKey({ wanted, key, found }: MadeKey) {
  const { region, keyLabel, algorithm } = key;
  return { purpose: wanted.purpose, region, key_label: keyLabel, algorithm, found };
}

/** Without certificates there is no root that a trust file could name. */
function lacksCertificates({ timestamp, certificatesDir }: Config): boolean {
  return timestamp.keys.some((key) => !existsSync(certificateFile(certificatesDir, key)));
}

function tellNext(config: Config, { config: file }: InitOptions): void {
  if (lacksCertificates(config)) {
    note(
      'Next: have every time-stamping key certified, named by --region and --key-label if there are several:',
    );
    note(`        pdfseal hsm csr --config ${file} --subject "CN=…,O=…"`);
    note(`        pdfseal hsm install-certificate FILE --config ${file}`);
    note(`      export the trust file: pdfseal trust export --config ${file} --output ${config.trustFile}`);
  }
  const instance = instanceOf(config.file);
  if (instance === undefined) {
    note(`Next: issue an API key:  pdfseal keys issue --config ${file} --client NAME --organization NAME`);
    note(`      and start:         pdfseald --config ${file}`);
    return;
  }
  const backup = config.store.engine === 'lmdb' ? ['pdfseald-backup@.timer'] : [];
  const units = ['pdfseald@.service', 'pdfseald-check@.timer', ...backup, 'pdfseald.target'];
  const names = units.map((unit) => unit.replace('@', `@${instance}`)).join(' ');
  note(`Next: issue an API key:  pdfseal-run ${instance} keys issue --client NAME --organization NAME`);
  note(`      keep PINs and network from the daemon:  /usr/lib/pdfseald/harden ${instance}`);
  note(`      and start:         systemctl enable --now ${names}`);
}

async function refuseExisting({ stateDir, ...config }: Config, options: InitOptions): Promise<void> {
  if (await storeExists(config.store))
    throw new OperatorError(`${describeStore(config.store)} exists already: a store is never overwritten`, {
      remedy:
        'start the daemon: the environment is complete; for another log, choose another state_dir or store.url',
    });
  await assertMayCreateAt(config.store);
  const home = existsSync(stateDir) ? stateDir : dirname(stateDir);
  if (!existsSync(home))
    throw new OperatorError(`${home} does not exist: create the folder, owned by the daemon's user`);
  const owner = statSync(home).uid;
  if (home === stateDir && owner !== process.geteuid?.()) {
    throw new OperatorError(
      `${stateDir} belongs to the user with id ${owner}: run this command as that user`,
    );
  }
  const files = config.timestamp.keys.map((key) => certificateFile(config.certificatesDir, key));
  const installed = files.find((file) => existsSync(file));
  if (installed !== undefined && !options.useExistingKeys) {
    throw new OperatorError(
      `${installed} exists already, and nothing is overwritten: move it away, or keep it and its key with --use-existing-keys`,
    );
  }
}

/** Keys in the order in which they are made: the root comes last, and only if it has keys to certify. */
function wantedKeys(config: Config, { externalCa }: InitOptions): WantedKey[] {
  const [first] = config.timestamp.keys;
  const root: WantedKey[] =
    first === undefined || externalCa ? [] : [{ purpose: 'root', token: rootBeside(first) }];
  return [...configuredKeys(config), ...root];
}

interface MadeKey {
  wanted: WantedKey;
  key: HeldKey;
  /** Whether the key already existed. */
  found: boolean;
}

/** Makes or finds all keys. All of them are checked before the first is made. */
async function makeKeys(
  wanted: WantedKey[],
  { algorithm, timestampAlgorithm, useExistingKeys }: InitOptions,
): Promise<MadeKey[]> {
  const found: (HeldKey | undefined)[] = [];
  for (const one of wanted) found.push(await findKey(one));
  const existing = found.filter((key) => key !== undefined).filter(({ software }) => !software);
  if (existing.length > 0 && !useExistingKeys) {
    throw new OperatorError(
      `there is a key already: ${existing.map(kmsKeyId).join(', ')}. If nothing else ever signed with it, use it: --use-existing-keys`,
    );
  }
  const made: MadeKey[] = [];
  for (const [index, one] of wanted.entries()) {
    const chosen = one.purpose === 'log' ? (one.token.algorithm ?? algorithm) : timestampAlgorithm;
    const key = found[index] ?? (await makeOne(one, chosen, made.length > 0));
    const what = WORDS[one.purpose].padEnd(5);
    const isFound = found[index] !== undefined;
    if (!isJson()) print(`${what}  ${describeKey(key)}  ${key.algorithm}  ${isFound ? 'found' : 'made'}`);
    made.push({ wanted: one, key, found: isFound });
  }
  return made;
}

async function makeOne(
  wanted: WantedKey,
  algorithm: SignatureAlgorithm | AuthorityAlgorithm,
  othersMade: boolean,
): Promise<HeldKey> {
  try {
    return await initKey(wanted.token, algorithm);
  } catch (error) {
    if (othersMade)
      note(
        'The keys above were created. Correct this fault, and repeat the command with --use-existing-keys:',
      );
    throw error;
  }
}

/** Makes the root and the certificates that it issues; returns the files with the chains. Does nothing if another authority issues them. */
async function makeCertificates(
  config: Config,
  keys: readonly MadeKey[],
  { subjectOrganization, rootValidity, certificateValidity }: InitOptions,
): Promise<string[]> {
  const root = keys.find(({ wanted }) => wanted.purpose === 'root');
  if (root === undefined) return [];
  const own = keys.filter(({ wanted }) => wanted.purpose === 'time-stamp');
  return certifyKeys(
    config,
    own.map(({ key }) => asAuthorityKey(key)),
    root.wanted.token,
    {
      organization: subjectOrganization,
      rootValidityMs: rootValidity,
      certificateValidityMs: certificateValidity,
    },
  );
}
