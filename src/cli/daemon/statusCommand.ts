import { setTimeout as sleep } from 'node:timers/promises';
import { InvalidArgumentError } from 'commander';
import { systemClock } from '../../base/clock.ts';
import { ownProcess } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import { lockHolder } from '../../base/lock.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import type { AdminStatus } from '../../health/statusSchema.ts';
import { readStatusOperation } from '../../ops/daemonOperations.ts';
import { command, option } from '../command.ts';
import { EXIT } from '../exit.ts';
import { CONFIG_DESCRIPTION, parseWaitArgument } from '../options.ts';
import { commandFailure, report } from '../report.ts';
import { isJson, printJson } from '../terminal.ts';
import { NobodyAnswers } from './adminClient.ts';
import { loadedOtherwise } from './configCommand.ts';
import { askOperation } from './operationClient.ts';
import { type Look, render } from './statusReport.ts';

const WATCH_MS = 2_000;
const WATCH_MS_MIN = 200;

export const statusCommand = command('status', {
  description:
    'Shows the state of the running daemon on one screen: its parts, partitions, queue, log, certificates, backup and check, and what ' +
    'to do about each problem. Give --config more than once to see several environments: each has one line, and its problems below it.',
  options: [
    option('--config <file>', CONFIG_DESCRIPTION, {
      isConfig: true,
      parse: (file: string, files: string[] = []) => [...files, file],
    }),
    option('--watch [interval]', 'repeat until Ctrl-C (every 2s, if you give no interval)', parseInterval),
  ],
  exit: { 0: 'ready', 1: 'not ready, or no daemon answers (with --watch: at the last look)' },
  examples: [
    'pdfseal status --config /etc/pdfseal/production.toml',
    'pdfseal status --config /etc/pdfseal/production.toml --config /etc/pdfseal/sandbox.toml --watch 5s',
    'pdfseal status --config /etc/pdfseal/production.toml --json | jq .queue',
  ],
  async run({ config: files, watch }) {
    if (watch === undefined) return show(await lookAt(files));
    // The exit status is that of the last status read. Before the first one, nothing is known to be ready.
    ownProcess().exitCode = EXIT.failed;
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit());
    for (;;) {
      const looks = await lookAt(files);
      if (ownProcess().stdout.isTTY && !isJson()) repaint(looks);
      else show(looks);
      await sleep(watch === true ? WATCH_MS : watch);
    }
  },
});

function show(looks: readonly LookOrError[]): void {
  const [only] = looks;
  if (looks.length === 1 && only && 'error' in only) ownProcess().exitCode = report(only.error);
  else if (isJson()) for (const look of looks) printJson(present(look));
  else {
    const { columns } = ownProcess().stdout;
    for (const line of render(looks, systemClock(), { columns })) ownProcess().stdout.write(`${line}\n`);
  }
}

// ECMA-48. The previous screen is overwritten, so nothing flickers.
const HOME = '\u001b[H';
const END_OF_LINE = '\u001b[K';
const END_OF_SCREEN = '\u001b[J';

function repaint(looks: readonly Look[]): void {
  // The cursor stays in the last line, so the terminal does not scroll.
  const { columns = 80, rows = 24 } = ownProcess().stdout;
  const lines = render(looks, systemClock(), { columns: columns - 1, rows: rows - 1 });
  ownProcess().stdout.write(
    `${HOME}${lines.map((line) => `${line}${END_OF_LINE}\n`).join('')}${END_OF_SCREEN}`,
  );
}

type LookOrError = Look & { error?: unknown };

async function lookAt(files: readonly string[]): Promise<LookOrError[]> {
  const looks = await Promise.all(files.map(lookAtOne));
  const isReady = looks.every((look) => 'status' in look && look.status.ready);
  ownProcess().exitCode = isReady ? EXIT.ok : EXIT.failed;
  return looks;
}

async function lookAtOne(file: string): Promise<LookOrError> {
  try {
    const config = loadConfig(file, { files: 'unused' });
    const status = await readStatus(config);
    return { file, status, trouble: loadedOtherwise(status.config, config.sha256) };
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { file, failure: commandFailure(error), error };
  }
}

/**
 * Returns the status of the daemon of this configuration. Throws OperatorError, with a remedy, that distinguishes: no daemon runs, it is
 * still starting, it does not answer, or the user has no access.
 */
export async function readStatus({ admin, lockFile, environment }: Config): Promise<AdminStatus> {
  try {
    return await askOperation(readStatusOperation, admin.socket, {});
  } catch (error) {
    if (!(error instanceof NobodyAnswers)) throw error;
    const unit = `pdfseald@${environment}`;
    const holder = lockHolder(lockFile);
    if (holder === undefined) {
      const remedy = `start it: systemctl start ${unit}; to see why it ended: journalctl --namespace=+pdfseald -u ${unit}`;
      throw new OperatorError(error.message, { cause: error, code: 'no_daemon', remedy });
    }
    const message = `pdfseald is starting or stopping: process ${holder} uses the state folder, but does not answer yet`;
    const remedy = `wait: pdfseald answers when its tokens are open; to see its progress: journalctl --namespace=+pdfseald -u ${unit}`;
    throw new OperatorError(message, { cause: error, code: 'daemon_starting', remedy });
  }
}

function present(look: Look): object {
  return 'status' in look ? look.status : { ready: false, config: { file: look.file }, error: look.failure };
}

function parseInterval(text: string): number {
  const intervalMs = parseWaitArgument(text);
  if (intervalMs >= WATCH_MS_MIN) return intervalMs;
  throw new InvalidArgumentError(`Expected at least ${WATCH_MS_MIN}ms.`);
}
