#!/usr/bin/env node
import './base/inspector.ts';
import { type Command, CommanderError } from 'commander';
import { OperatorError } from './base/errors.ts';
import { systemReason } from './base/systemReason.ts';
import { ASK } from './cli/completion/scripts.ts';
import { EXIT } from './cli/exit.ts';
import { commandAt, withSubcommands } from './cli/help.ts';
import { programFor } from './cli/program.ts';
import { report } from './cli/report.ts';
import { isJson, note, speakJson } from './cli/terminal.ts';

const NODE_MAJOR_MIN = 24;

async function main(args: string[]): Promise<void> {
  exitOnLostOutput();
  if (isNodeTooOld()) return;
  if (args[0] === ASK) return answer(args.slice(1));
  if (args.includes('--json')) speakJson();
  try {
    await run(await programFor(args), args);
  } catch (error) {
    process.exitCode = report(error);
  }
}

/** Answers a shell that completes a command line; `words` is what was typed so far. */
async function answer(words: string[]): Promise<void> {
  const { answerShell } = await import('./cli/completion/completionCommand.ts');
  answerShell(await programFor(words.slice(0, -1)), words);
}

async function run(program: Command, args: string[]): Promise<void> {
  const said: string[] = [];
  for (const command of withSubcommands(program)) {
    command.exitOverride().configureOutput({ writeErr: (text) => void said.push(text) });
  }
  const path = helpPath(args);
  if (path.length > 0) commandAt(program, path)?.help();
  try {
    await program.parseAsync(path.length > 0 ? path : args, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    const complaint = isOfMissing(error) ? await mistyped(program, args, said, error) : error;
    if (!isJson()) process.stderr.write(said.join(''));
    throw complaint;
  }
}

/** The path of the command whose help is wanted: `help keys issue`, or `keys issue --help`. Empty where no help is wanted. */
function helpPath([first = '', ...others]: string[]): string[] {
  if (first === 'help') return others;
  const names = [first, ...others.slice(0, -1)];
  const isAsked = ['-h', '--help'].includes(others.at(-1) ?? '');
  return isAsked && names.every((name) => /^[a-z]/.test(name)) ? names : [];
}

function isOfMissing({ code }: CommanderError): boolean {
  return code === 'commander.missingMandatoryOptionValue';
}

/** Commander reports a required option as missing even if its name is mistyped. A second run, without required options, finds the mistyped name. */
async function mistyped(
  program: Command,
  args: string[],
  said: string[],
  missing: CommanderError,
): Promise<unknown> {
  const before = said.splice(0);
  for (const command of withSubcommands(program)) {
    for (const option of command.options) option.mandatory = false;
    command.action(() => {});
  }
  const found: unknown = await program.parseAsync(args, { from: 'user' }).catch((error: unknown) => error);
  if (found instanceof CommanderError && found.code !== 'commander.error') return found;
  said.splice(0, said.length, ...before);
  return missing;
}

/** The shebang takes the first node in PATH. An old one would fail later, with a message that nobody understands. */
function isNodeTooOld(): boolean {
  if (Number.parseInt(process.versions.node, 10) >= NODE_MAJOR_MIN) return false;
  note(
    `pdfseal: needs Node.js ${NODE_MAJOR_MIN}, but this is ${process.version}: run it with node_modules/.bin/node`,
  );
  process.exitCode = EXIT.usage;
  return true;
}

/** `pdfseal jobs list | head` must not end with a stack trace, and a full disk must not look like a verdict. */
function exitOnLostOutput(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') process.exit(EXIT.brokenPipe);
      if (stream === process.stdout) report(lostOutput(error));
      process.exit(EXIT.software);
    });
  }
}

function lostOutput(cause: Error): OperatorError {
  return new OperatorError(`standard output cannot be written (${systemReason(cause)})`, {
    cause,
    remedy: 'see whether the command has taken effect before you run it again',
  });
}

await main(process.argv.slice(2));
