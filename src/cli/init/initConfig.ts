import { existsSync, rmSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { InvalidArgumentError } from 'commander';
import { createFileAtomically } from '../../base/atomicFile.ts';
import { OperatorError } from '../../base/errors.ts';
import { parseConfig } from '../../config/config.ts';
import { hostOfOrigin, isPlaceholder } from '../../config/placeholder.ts';
import { signerFailureOf } from '../../kms/epochKeys.ts';
import { probeToken } from '../../kms/keyOperations.ts';
import type { PartitionOptions } from '../../kms/partitions.ts';
import { isPinRefusal } from '../../kms/signerFailure.ts';
import { encodeQuorum, meetsQuorum, parseQuorum, type QuorumPolicy } from '../../log/quorum.ts';
import { certificatesIn } from '../../tsa/pki.ts';
import { parseListenAddress } from '../../web/address.ts';
import { assertFree } from '../../web/listen.ts';
import { type Given, option } from '../command.ts';
import { Questions, type ReadAnswer } from '../questions.ts';
import { note } from '../terminal.ts';

interface PartitionAnswer {
  region: string;
  module: string;
  tokenLabel: string;
  pinFile: string;
  environment: Record<string, string>;
}

const LISTEN_DEFAULT = '127.0.0.1:8400';
const MODULE_DEFAULT = '/usr/lib/softhsm/libsofthsm2.so';
const PARTITION_FORM =
  'region=NAME,module=FILE,token=LABEL,pin-file=FILE, and for each variable of the module env.NAME=VALUE';

/** Input for a new configuration; absent values are asked for, or have the default. */
export const ANSWER_OPTIONS = [
  option('--throwaway', 'the log is for a trial: its origin may be an example, such as seal.example.com'),
  option(
    '--interactive',
    'ask for what a configuration needs, try each answer, and write the config file first',
  ),
  option(
    '--environment <name>',
    'write the config file first, of this environment (default: the name of the file)',
  ),
  option('--origin <origin>', '… whose log has this origin'),
  option('--listen <address>', '… whose API listens there'),
  option('--add-partition <list>', '… which has this partition; may be repeated', parsePartitionArgument),
  option('--quorum <rule>', '… and this quorum: how many of them must sign (default: most of them)'),
  option('--authority <name>', '… with this time-stamp authority: built-in, none, or URL,FILE'),
  option('--clock <name>', '… whose clock chrony, timedatectl or system vouches for'),
] as const;

type InitAnswers = Given<typeof ANSWER_OPTIONS> & { config: string };

/** Whether the options request a new configuration. */
export function isWanted({ interactive, environment, origin, addPartition }: InitAnswers): boolean {
  return interactive === true || [environment, origin, addPartition].some((one) => one !== undefined);
}

/** Argument parser of `--add-partition`, which may be given several times. */
function parsePartitionArgument(text: string, before: PartitionAnswer[] = []): PartitionAnswer[] {
  const pairs = text.split(',').map((part): [string, string] => {
    const at = part.indexOf('=');
    return [part.slice(0, at), part.slice(at + 1)];
  });
  const { region, module, token, 'pin-file': pinFile, ...more } = Object.fromEntries(pairs);
  const variables = Object.entries(more).map(([name, value]) => [name.replace(/^env\./, ''), value] as const);
  const isGood = Object.keys(more).every((name) => /^env\.\w+$/.test(name));
  if (!region || !module || !token || !pinFile || !isGood)
    throw new InvalidArgumentError(`Expected ${PARTITION_FORM}.`);
  const environment = Object.fromEntries(variables);
  return [...before, { region, module, tokenLabel: token, pinFile, environment }];
}

/**
 * Makes a configuration of the values that differ from the defaults. Each answer is tried at once: origin, port, token and PIN, the latter
 * once. Throws OperatorError, and writes nothing, if an option is not acceptable or the file exists.
 */
export async function makeConfig(given: InitAnswers): Promise<void> {
  const file = resolve(given.config);
  if (existsSync(file))
    throw new OperatorError(
      `${file} exists already: a configuration is never overwritten; omit the options that create one`,
    );
  const questions = given.interactive === true ? new Questions() : undefined;
  try {
    const text = await gather(given, file, questions);
    parseConfig(text, file);
    try {
      createFileAtomically(file, text);
    } catch (cause) {
      if (!(cause instanceof OperatorError)) throw cause;
      const remedy =
        'run this as a user that may write there; in the package that is root, without pdfseal-run';
      throw new OperatorError(cause.message, { cause, remedy });
    }
    note(`${file} is written: every key that it does not name has its default`);
  } finally {
    questions?.close();
  }
}

async function gather(given: InitAnswers, file: string, questions: Questions | undefined): Promise<string> {
  /** The option, or else the answer, or else the default. */
  const get = async <T>(
    name: 'environment' | 'origin' | 'listen' | 'quorum' | 'authority' | 'clock',
    question: string,
    read: ReadAnswer<T>,
    fallback?: string,
  ): Promise<T> => {
    const value = given[name];
    if (value !== undefined) return read(value);
    if (questions !== undefined) return questions.ask(question, read, fallback);
    if (fallback !== undefined) return read(fallback);
    throw new OperatorError(`--${name} is missing: ${question}`);
  };
  const folder = dirname(file);
  const environment = await get(
    'environment',
    'Name of the environment, permanent (a-z, 0-9, dashes)',
    matching(/^[a-z][a-z0-9-]{0,31}$/, 'a name begins with a letter and has a-z, 0-9 and dashes, at most 32'),
    basename(file, '.toml'),
  );
  const origin = await get(
    'origin',
    `Origin of the log, permanent: a URL without scheme that you own, such as seal.<your domain>/${environment}`,
    (text) => readOrigin(text, given.throwaway),
  );
  const listen = await get('listen', 'Address and port of the API', readFreeAddress, LISTEN_DEFAULT);
  const partitions = await getPartitions(given, questions, { folder, environment });
  const quorum = await get(
    'quorum',
    `How many of the ${partitions.length} partitions must sign`,
    (text) => readQuorum(text, partitions),
    String(Math.floor(partitions.length / 2) + 1),
  );
  const authority = await get(
    'authority',
    'Time-stamp authority: built-in, none, or URL,FILE of an external one and its root certificates',
    readAuthority,
    'built-in',
  );
  const clock = await get(
    'clock',
    'How the clock is checked: chrony, timedatectl or system (not checked)',
    matching(/^(chrony|timedatectl|system)$/, 'one of chrony, timedatectl, system'),
    ['chrony', 'timedatectl'].find((_, n) => existsSync(CLOCK_PROGRAMS[n] ?? '')) ?? 'system',
  );
  rmSync(refusedPinsIn({ folder, environment }), { recursive: true, force: true });
  return toToml({ environment, origin, listen, partitions, quorum, authority, clock, folder });
}

const CLOCK_PROGRAMS = ['/usr/bin/chronyc', '/usr/bin/timedatectl'];

function matching(pattern: RegExp, expected: string): ReadAnswer<string> {
  return (text) => {
    if (pattern.test(text)) return text;
    throw new OperatorError(`"${text}" is not accepted: ${expected}`);
  };
}

function readOrigin(text: string, throwaway: true | undefined): string {
  if (!/^(?!.*:\/\/)[^\s+]{1,255}$/u.test(text) || !text.includes('.'))
    throw new OperatorError(`"${text}" is not accepted: a host name and a path, without scheme and blanks`);
  requireOwned('the origin', hostOfOrigin(text), throwaway);
  return text;
}

/** Throws OperatorError for a host of an example, unless the environment is a throwaway. */
export function requireOwned(what: string, host: string, throwaway: true | undefined): void {
  if (throwaway || !isPlaceholder(host)) return;
  throw new OperatorError(
    `${what} names ${host}, an example host, which every receipt would name permanently: use one that you own; ` +
      'only for a log that you will throw away, use --throwaway',
  );
}

async function readFreeAddress(text: string): Promise<string> {
  const address = parseListenAddress(text);
  if (address === undefined)
    throw new OperatorError(`"${text}" is not accepted: an address such as ${LISTEN_DEFAULT}`);
  if (!('path' in address)) await assertFree(address, 'http.listen');
  return text;
}

interface Place {
  /** Folder of the configuration. */
  folder: string;
  environment: string;
}

async function getPartitions(
  { addPartition }: InitAnswers,
  questions: Questions | undefined,
  place: Place,
): Promise<PartitionAnswer[]> {
  if (addPartition !== undefined) {
    for (const one of addPartition) await tryToken(one, place);
    return addPartition;
  }
  if (questions === undefined) throw new OperatorError(`--add-partition is missing: ${PARTITION_FORM}`);
  const partitions: PartitionAnswer[] = [];
  let more = true;
  while (more) {
    partitions.push(await askPartition(questions, partitions.at(-1), place));
    const read = matching(/^(y|n)$/, 'y or n');
    more = (await questions.ask('Another partition (y or n)', read, 'n')) === 'y';
  }
  return partitions;
}

/** Asks for all values again while token and PIN do not fit together: any of the answers may be wrong. */
async function askPartition(
  questions: Questions,
  last: PartitionAnswer | undefined,
  place: Place,
): Promise<PartitionAnswer> {
  let earlier: Partial<PartitionAnswer> = { module: last?.module };
  for (;;) {
    const answer = await askToken(questions, earlier, place);
    if (await questions.accepts(() => tryToken(answer, place))) return answer;
    earlier = answer;
  }
}

async function askToken(
  questions: Questions,
  earlier: Partial<PartitionAnswer>,
  place: Place,
): Promise<PartitionAnswer> {
  const region = await questions.ask(
    'Region of the partition, such as eu-west',
    matching(/^[a-z0-9][a-z0-9-]{0,62}$/, 'a-z, 0-9 and dashes'),
    earlier.region,
  );
  const module = await questions.ask('PKCS#11 module', readExisting, earlier.module ?? MODULE_DEFAULT);
  const environment = await questions.ask(
    'Variables of the module, NAME=VALUE with blanks between, or none',
    readVariables,
    wordsOf(earlier.environment),
  );
  const pinFile = await questions.ask(
    'File with the PIN, and nothing else',
    readExisting,
    earlier.pinFile ?? join(place.folder, `${place.environment}.pins`, region),
  );
  const read = matching(/./, 'the label that the token was initialised with');
  const tokenLabel = await questions.ask('Label of the token', read, earlier.tokenLabel);
  return { region, module, tokenLabel, pinFile, environment };
}

function readExisting(text: string): string {
  const path = resolve(text);
  if (existsSync(path)) return path;
  throw new OperatorError(`${path} does not exist, or is not accessible to this user`);
}

/** Spells variables as {@link readVariables} reads them. */
function wordsOf(variables: Record<string, string> = {}): string {
  return (
    Object.entries(variables)
      .map(([name, value]) => `${name}=${value}`)
      .join(' ') || 'none'
  );
}

function readVariables(text: string): Record<string, string> {
  if (text === 'none') return {};
  const pairs = text.split(/ +/).map((part) => /^(\w+)=(.*)$/.exec(part));
  if (pairs.some((pair) => pair === null)) throw new OperatorError('each is NAME=VALUE');
  return Object.fromEntries(pairs.map((pair) => [pair?.[1] ?? '', pair?.[2] ?? '']));
}

/** The folder to use until the configuration names the state folder. */
function refusedPinsIn({ folder, environment }: Place): string {
  return join(folder, `${environment}.refused-pins`);
}

/** Checks that the token is there and accepts the PIN, which is presented once. */
async function tryToken(answer: PartitionAnswer, place: Place): Promise<void> {
  const refusedPins = refusedPinsIn(place);
  try {
    await probeToken({ ...answer, refusedPins, keyLabel: 'none yet' } satisfies PartitionOptions);
  } catch (cause) {
    if (!isPinRefusal(signerFailureOf(cause)?.code ?? '')) throw cause;
    const remedy = `; before the config file is written, remove ${refusedPins} instead`;
    throw new OperatorError(`${(cause as OperatorError).message}${remedy}`, { cause });
  }
  note(`  ✓ the token "${answer.tokenLabel}" exists and accepts the PIN`);
}

function readQuorum(text: string, partitions: readonly PartitionAnswer[]): QuorumPolicy {
  const quorum = parseQuorum(/^\d+$/.test(text) ? Number(text) : text);
  if (quorum !== undefined && meetsQuorum(quorum, partitions)) return quorum;
  throw new OperatorError(
    `"${text}" is not accepted: a number from 1 to ${partitions.length}, or "2 of eu, us, ap"`,
  );
}

type Authority = 'built-in' | 'none' | { url: string; rootsFile: string };

function readAuthority(text: string): Authority {
  if (text === 'built-in' || text === 'none') return text;
  const at = text.indexOf(',');
  const [url, rootsFile] = [text.slice(0, at), readExisting(text.slice(at + 1))];
  if (at < 0 || !URL.canParse(url))
    throw new OperatorError(`"${text}" is not accepted: built-in, none, or URL,FILE`);
  certificatesIn(rootsFile);
  return { url, rootsFile };
}

interface Settings extends Place {
  origin: string;
  listen: string;
  partitions: readonly PartitionAnswer[];
  quorum: QuorumPolicy;
  authority: Authority;
  clock: string;
}

const quote = (text: string) => JSON.stringify(text);

function toToml(settings: Settings): string {
  const { environment, origin, listen, partitions, quorum, authority, clock, folder } = settings;
  const isPackaged = folder === '/etc/pdfseal';
  const stateDir = isPackaged ? `/var/lib/pdfseal/${environment}` : join(folder, environment);
  const names = { 'built-in': ['built-in'], none: [] as string[] };
  const authorities = typeof authority === 'string' ? names[authority] : ['external'];
  const [first] = partitions;
  const token = (table: string, one: PartitionAnswer, keyLabel: string) =>
    `\n[[${table}]]\nregion = ${quote(one.region)}\nmodule = ${quote(one.module)}\ntoken_label = ${quote(one.tokenLabel)}\n` +
    `key_label = ${quote(keyLabel)}\n${pinLine(one, settings)}\n${variablesLine(one)}`;
  return [
    '# What differs from the defaults. Every key is explained in production.toml, and in pdfseald.toml(5).\n',
    `environment = ${quote(environment)}\nstate_dir = ${quote(stateDir)}\n`,
    ...(listen === LISTEN_DEFAULT ? [] : [`\n[http]\nlisten = ${quote(listen)}\n`]),
    // The folder of the package, for the group that may use the administration.
    ...(isPackaged ? [`\n[admin]\nlisten = ${quote(`unix:/run/pdfseal/${environment}/admin.sock`)}\n`] : []),
    `\n[log]\norigin = ${quote(origin)}\n`,
    `\n[kms]\nquorum = ${JSON.stringify(encodeQuorum(quorum))}\n`,
    ...partitions.map((one) => token('kms.partitions', one, environment)),
    `\n[timestamp]\nauthorities = ${JSON.stringify(authorities)}\n`,
    ...(authority === 'built-in' && first
      ? [token('timestamp.keys', first, `${environment}-timestamp`)]
      : []),
    ...(typeof authority === 'string'
      ? []
      : [
          `\n[timestamp.remotes.external]\nurl = ${quote(authority.url)}\nroots_file = ${quote(authority.rootsFile)}\n`,
        ]),
    ...(clock === 'chrony' ? [] : [`\n[clock]\ntrust = ${quote(clock)}\n`]),
  ].join('');
}

/** A file in the folder from which the unit takes its credentials is one of them. */
function pinLine({ pinFile }: PartitionAnswer, { folder, environment }: Place): string {
  const name = relative(join(folder, `${environment}.pins`), resolve(pinFile));
  return /^[\w-][\w.-]*$/.test(name)
    ? `pin_credential = ${quote(`pin_${name}`)}`
    : `pin_file = ${quote(resolve(pinFile))}`;
}

function variablesLine({ environment }: PartitionAnswer): string {
  const pairs = Object.entries(environment).map(([name, value]) => `${name} = ${quote(value)}`);
  return pairs.length === 0 ? '' : `environment = { ${pairs.join(', ')} }\n`;
}
