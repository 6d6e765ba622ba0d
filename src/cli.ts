#!/usr/bin/env node
import './base/inspector.ts';
import { fromEnvironment } from './base/env.ts';
import { OperatorError } from './base/errors.ts';
import { systemReason } from './base/systemReason.ts';
import { EXIT } from './cli/exit.ts';
import { report } from './cli/report.ts';
import { run } from './cli/run.ts';

const NODE_MAJOR_MIN = 24;

async function main(): Promise<void> {
  exitOnLostOutput();
  if (isNodeTooOld()) return;
  // lmdb-js prints the stack of an error that it also throws, such as that of a full disk.
  if (fromEnvironment('PDFSEAL_STACK') === undefined) console.error = () => {};
  await run(process);
}

/** The shebang takes the first node in PATH. An old one would fail later, with a message that nobody understands. */
function isNodeTooOld(): boolean {
  if (Number.parseInt(process.versions.node, 10) >= NODE_MAJOR_MIN) return false;
  process.stderr.write(
    `pdfseal: needs Node.js ${NODE_MAJOR_MIN}, but this is ${process.version}: run it with node_modules/.bin/node\n`,
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

await main();
