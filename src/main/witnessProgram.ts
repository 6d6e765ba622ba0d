#!/usr/bin/env -S node --jitless --disable-sigusr1
import '../base/inspector.ts';
import { existsSync, writeFileSync } from 'node:fs';
import { STATUS_CODES } from 'node:http';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { parseArgs } from 'node:util';
import type { Logger } from 'pino';
import { readWholeFile } from '../base/atomicFile.ts';
import { systemClock } from '../base/clock.ts';
import { EXIT_SOFTWARE, stopSignal } from '../base/ending.ts';
import { inheritedSockets } from '../base/env.ts';
import { OperatorError } from '../base/errors.ts';
import { acquireLock } from '../base/lock.ts';
import { createLogger, endRefused } from '../base/logger.ts';
import { versionLine } from '../base/package.ts';
import { systemReason } from '../base/systemReason.ts';
import { encodeCosigner } from '../log/cosignature.ts';
import { isClassical, type VerifierKey } from '../log/verifierKey.ts';
import { parseWitnessPolicy, WitnessPolicyError } from '../log/witnessPolicy.ts';
import { parseListenAddress } from '../web/address.ts';
import { HeldCheckpoints } from '../witness/heldCheckpoints.ts';
import { openHsmKey } from '../witness/hsmKey.ts';
import { createKeyFile, openKeyFile } from '../witness/keyFile.ts';
import { openAgentKey } from '../witness/sshAgent.ts';
import { type CosigningKey, Witness } from '../witness/witness.ts';
import { openWitnessServer } from '../witness/witnessServer.ts';
import { WITNESS_USAGE } from './witnessUsage.ts';

/** The options that select the key. */
const KEY_OPTIONS = {
  key: { type: 'string' },
  agent: { type: 'string' },
  module: { type: 'string' },
  token: { type: 'string' },
  'key-label': { type: 'string' },
  'pin-file': { type: 'string' },
  environment: { type: 'string', multiple: true },
  name: { type: 'string' },
} as const;

type KeyOptions = { [Option in Exclude<keyof typeof KEY_OPTIONS, 'environment'>]?: string | undefined } & {
  environment?: string[] | undefined;
};

interface Memory {
  key: CosigningKey;
  logs: string;
  state: string;
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      ...KEY_OPTIONS,
      logs: { type: 'string' },
      state: { type: 'string' },
      listen: { type: 'string', default: '127.0.0.1:8410' },
      version: { type: 'boolean' },
      help: { type: 'boolean' },
    },
  });
  if (values.help) return print(WITNESS_USAGE);
  if (values.version) return print(`${versionLine()}\n`);
  const [command, ...more] = positionals;
  const { name, key, logs, state, listen } = values;
  if (command === undefined || more.length > 0)
    throw new OperatorError(`name one command\n\n${WITNESS_USAGE}`);
  if (command === 'keygen') {
    if (name === undefined || key === undefined)
      throw new OperatorError('name the witness with --name and its new file with --key; see --help');
    print(`${encodeCosigner(createKeyFile(key, name))}\n`);
  } else if (command === 'show-key') {
    const { cosigner, close } = await openKey(values, createLogger('info', process.stderr));
    print(`${encodeCosigner(cosigner)}\n`);
    await close?.();
  } else if (command === 'serve' || command === 'answer') {
    if (logs === undefined || state === undefined)
      throw new OperatorError('name the logs with --logs and the folder with --state; see --help');
    const logger = command === 'serve' ? createLogger('info') : createLogger('info', process.stderr);
    const memory = { key: await openKey(values, logger), logs, state };
    await (command === 'serve' ? serve(memory, listen, logger) : answerOnce(memory, logger));
    await memory.key.close?.();
  } else {
    throw new OperatorError(`there is no command ${command}; see --help`);
  }
}

/** Throws OperatorError, also for an option that does not apply to this kind of key. */
async function openKey(options: KeyOptions, logger: Logger): Promise<CosigningKey> {
  const { name = '', key = '', agent = '', module = '', token: tokenLabel = '', environment = [] } = options;
  const { 'key-label': keyLabel = '', 'pin-file': pinFile = '' } = options;
  const given = Object.keys(KEY_OPTIONS).filter(
    (option) => options[option as keyof KeyOptions] !== undefined,
  );
  switch (given.join(' ')) {
    case 'key':
      return openKeyFile(key);
    case 'agent name':
      return openAgentKey(agent, name);
    case 'module token key-label pin-file name':
    case 'module token key-label pin-file environment name': {
      const variables = Object.fromEntries(environment.map(readVariable));
      const refusedPins = join(dirname(pinFile), 'refused-pins');
      const token = { module, tokenLabel, keyLabel, pinFile, refusedPins, environment: variables };
      return openHsmKey(token, name, logger);
    }
    default:
      throw new OperatorError(
        'name the key with --key; with --agent and --name; or with --module, --token, --key-label, --pin-file and --name; see --help',
      );
  }
}

function readVariable(pair: string): [name: string, value: string] {
  const [, name, value = ''] = /^([^=]+)=(.*)$/s.exec(pair) ?? [];
  if (name === undefined) throw new OperatorError('--environment: write NAME=VALUE');
  return [name, value];
}

async function serve(memory: Memory, listen: string, logger: Logger): Promise<void> {
  const address = inheritedSockets()[0] ?? parseListenAddress(listen);
  if (address === undefined)
    throw new OperatorError('--listen: write an address such as 127.0.0.1:8410 or unix:/path');
  const onFatal = (err: unknown) => {
    logger.fatal({ event: 'cannot_go_on', err }, 'the witness cannot continue');
    process.exit(EXIT_SOFTWARE);
  };
  process.on('uncaughtException', onFatal);
  process.on('unhandledRejection', onFatal);
  const { witness, held, logs, lock } = await openWitness(memory, logger);
  const server = await openWitnessServer({ listen: address, witness, held, logger });
  const fields = { event: 'started', vkey: encodeCosigner(memory.key.cosigner), logs: [...logs.keys()] };
  const port = 'port' in server.address ? server.address.port : 0;
  logger.info({ ...fields, port }, 'the witness answers');
  await stopSignal();
  await server.close();
  lock.release();
  logger.info({ event: 'stopped' }, 'the witness has stopped');
}

/** Answers the request on standard input as the server would, with status and headers, and ends. Messages go to stderr. */
async function answerOnce(memory: Memory, logger: Logger): Promise<void> {
  const { witness, lock } = await openWitness(memory, logger);
  const request = asSent(await text(process.stdin));
  const { status, type = 'text/plain; charset=utf-8', body } = await witness.addCheckpoint(request);
  lock.release();
  const headers = `Content-Type: ${type}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`;
  print(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${headers}\r\n${body}`);
  if (status !== 200 && status !== 409) process.exitCode = 1;
}

/** Mail programs and editors change line ends, and add or remove the last one. A request contains only line feeds, and ends with one. */
function asSent(carried: string): string {
  return `${carried.replaceAll(/\r\n?/g, '\n').trim()}\n`;
}

/** The folder is locked until the lock is released. Throws OperatorError. */
async function openWitness({ key, logs: logsFile, state }: Memory, logger: Logger) {
  const logs = readLogs(logsFile, logger);
  // A new folder would mean a witness that has forgotten everything.
  if (!existsSync(state))
    throw new OperatorError(`there is no folder ${state}: if the witness is new, make it; if not, find it`);
  const lock = acquireLock(join(state, 'lock'), 'pdfseal-witness');
  const held = await HeldCheckpoints.open(state, key.cosigner, logs);
  return { witness: new Witness({ key, logs, held, clock: systemClock, logger }), held, logs, lock };
}

/**
 * The keys of each log whose signature is sufficient for this witness, by the origin of the log. An ML-DSA line does not cover extension
 * lines, but this witness signs them: so the signature of such a key alone does not count. Throws OperatorError.
 */
function readLogs(path: string, logger: Logger): Map<string, VerifierKey[]> {
  const text = readWholeFile(path).toString();
  const logs = new Map<string, VerifierKey[]>();
  try {
    for (const { key } of parseWitnessPolicy(text).logs) {
      if (isClassical(key)) logs.set(key.name, [...(logs.get(key.name) ?? []), key]);
      else
        logger.warn(
          { origin: key.name },
          `${path}: an ML-DSA key is ignored; only Ed25519 and ECDSA keys of a log count for this witness`,
        );
    }
  } catch (cause) {
    if (!(cause instanceof WitnessPolicyError)) throw cause;
    throw new OperatorError(`${path}, ${cause.message}`, { cause });
  }
  if (logs.size === 0)
    throw new OperatorError(`${path} names no log with an Ed25519 or ECDSA key: add lines \`log <vkey>\``);
  return logs;
}

/** Throws OperatorError. */
function print(text: string): void {
  try {
    writeFileSync(1, text);
  } catch (cause) {
    throw new OperatorError(`cannot write to standard output (${systemReason(cause)})`, { cause });
  }
}

main().catch((error: unknown) => endRefused('pdfseal-witness', error));
