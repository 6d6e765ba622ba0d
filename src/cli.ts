#!/usr/bin/env node
import { Command, CommanderError, Help, type Option } from 'commander';
import { OperatorError, ServiceError } from './base/errors.ts';
import { packageVersion } from './base/version.ts';
import { EXIT, EXIT_HELP, note } from './cli/terminal.ts';

interface Entry {
  name: string;
  summary: string;
  /** Loaded when it is called: `verify` must not need what `init` needs. */
  load(): Promise<Command>;
}

const COMMANDS: Entry[] = [
  {
    name: 'init',
    summary: 'make the keys, certificates, store and trust file of an environment',
    load: async () => (await import('./cli/init.ts')).initCommand(),
  },
  {
    name: 'status',
    summary: 'show how the running daemon is',
    load: async () => (await import('./cli/status.ts')).statusCommand(),
  },
  {
    name: 'doctor',
    summary: 'check an installation part by part, and say what to do',
    load: async () => (await import('./cli/doctor.ts')).doctorCommand(),
  },
  {
    name: 'hsm',
    summary: 'look after keys in the HSM and their certificates',
    load: async () => (await import('./cli/hsm.ts')).hsmCommand(),
  },
  {
    name: 'keys',
    summary: 'issue, list, rotate and revoke API keys',
    load: async () => (await import('./cli/keys.ts')).keysCommand(),
  },
  {
    name: 'jobs',
    summary: 'list and show jobs, as the administrator sees them',
    load: async () => (await import('./cli/jobs.ts')).jobsCommand(),
  },
  {
    name: 'webhooks',
    summary: 'look after webhook endpoints and what is sent to them',
    load: async () => (await import('./cli/webhooks.ts')).webhooksCommand(),
  },
  {
    name: 'submit',
    summary: 'seal documents and store their receipts beside them',
    load: async () => (await import('./cli/submit.ts')).submitCommand(),
  },
  {
    name: 'verify',
    summary: 'verify a document and its receipt, offline',
    load: async () => (await import('./cli/verify.ts')).verifyCommand(),
  },
  {
    name: 'log',
    summary: 'check that the log and every receipt hold together',
    load: async () => (await import('./cli/log.ts')).logCommand(),
  },
  {
    name: 'backup',
    summary: 'copy the state of an environment, and check the copy',
    load: async () => (await import('./cli/backup.ts')).backupCommand(),
  },
  {
    name: 'restore',
    summary: 'put a backup in the place of the state, unless it is an older one',
    load: async () => (await import('./cli/restore.ts')).restoreCommand(),
  },
  {
    name: 'epochs',
    summary: 'plan new keys, another quorum or other partitions from a date on',
    load: async () => (await import('./cli/epochs.ts')).epochsCommand(),
  },
  {
    name: 'trust',
    summary: 'export what verifiers need to trust this log',
    load: async () => (await import('./cli/trust.ts')).trustCommand(),
  },
];

const NODE_MAJOR_MIN = 24;

async function main(args: string[]): Promise<void> {
  exitOnBrokenPipe();
  if (isNodeTooOld()) return;
  const program = new Command('pdfseal')
    .description('Administers pdfseald, seals documents with it, and verifies receipts without it.')
    .version(packageVersion(), '-V, --version', 'print the version')
    .helpCommand('help [command]', 'print the help of a command')
    .addHelpText('after', EXIT_HELP);
  const called = args[0] === 'help' ? args[1] : args[0];
  for (const { name, summary, load } of COMMANDS) {
    program.addCommand((name === called ? await load() : new Command(name)).summary(summary));
  }
  for (const command of withSubcommands(program)) {
    command
      .exitOverride()
      .showHelpAfterError('(--help says more)')
      .configureHelp({ optionDescription: describeOption });
  }
  try {
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    process.exitCode = report(error);
  }
}

/** The shebang takes whatever node comes first, and an old one would only fail somewhere in the middle. */
function isNodeTooOld(): boolean {
  if (Number.parseInt(process.versions.node, 10) >= NODE_MAJOR_MIN) return false;
  note(
    `pdfseal: needs Node.js ${NODE_MAJOR_MIN}, and this is ${process.version}: run it with node_modules/.bin/node`,
  );
  process.exitCode = EXIT.usage;
  return true;
}

function withSubcommands(command: Command): Command[] {
  return [command, ...command.commands.flatMap(withSubcommands)];
}

/** Commander tells defaults and choices, but not what cannot be left out. */
function describeOption(option: Option): string {
  const description = new Help().optionDescription(option);
  return option.mandatory ? `${description} (required)` : description;
}

/** Says what went wrong, in one line where somebody outside of this program can mend it; the exit status. */
function report(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  if (error instanceof OperatorError || error instanceof ServiceError) {
    for (const line of error.message.split('\n')) note(`pdfseal: ${line}`);
    return EXIT.failed;
  }
  console.error(error);
  return EXIT.software;
}

/** `pdfseal jobs list | head` is no failure worth a stack. */
function exitOnBrokenPipe(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      process.exit(EXIT.brokenPipe);
    });
  }
}

await main(process.argv.slice(2));
