import { Command } from 'commander';
import { packageVersion } from '../base/package.ts';
import { dressCommands } from './help.ts';
import { completeConfig } from './options.ts';

interface Entry {
  name: string;
  summary: string;
  /** Loaded only when the command is called: `verify` must not need what `init` needs. */
  load(): Promise<Command>;
}

const COMMANDS: Entry[] = [
  {
    name: 'init',
    summary: 'create the keys, certificates, store and trust file of an environment',
    load: async () => (await import('./init/initCommand.ts')).initCommand(),
  },
  {
    name: 'status',
    summary: 'show the state of the running daemon',
    load: async () => (await import('./daemon/statusCommand.ts')).statusCommand(),
  },
  {
    name: 'config',
    summary: 'show the configuration in effect',
    load: async () => (await import('./daemon/configCommand.ts')).configCommand(),
  },
  {
    name: 'check-config',
    summary: 'check whether the daemon would start with a configuration',
    load: async () => (await import('./daemon/checkConfig.ts')).checkConfigCommand(),
  },
  {
    name: 'doctor',
    summary: 'check every part of an installation, and say what to do',
    load: async () => (await import('./doctor/doctorCommand.ts')).doctorCommand(),
  },
  {
    name: 'console',
    summary: 'open the console of a running daemon, or let somebody open it',
    load: async () => (await import('./daemon/consoleCommand.ts')).consoleCommand(),
  },
  {
    name: 'hsm',
    summary: 'manage the keys in the HSM and their certificates',
    load: async () => (await import('./hsm/hsmCommand.ts')).hsmCommand(),
  },
  {
    name: 'keys',
    summary: 'issue, list, rotate and revoke API keys',
    load: async () => (await import('./store/keysCommand.ts')).keysCommand(),
  },
  {
    name: 'jobs',
    summary: 'list and show the jobs of all clients',
    load: async () => (await import('./store/jobsCommand.ts')).jobsCommand(),
  },
  {
    name: 'quotas',
    summary: 'list how much of their limits clients have used',
    load: async () => (await import('./daemon/quotasCommand.ts')).quotasCommand(),
  },
  {
    name: 'webhooks',
    summary: 'manage webhook endpoints and their deliveries',
    load: async () => (await import('./store/webhooksCommand.ts')).webhooksCommand(),
  },
  {
    name: 'submit',
    summary: 'seal documents and save their receipts beside them',
    load: async () => (await import('./client/submitCommand.ts')).submitCommand(),
  },
  {
    name: 'verify',
    summary: 'verify a document and its receipt, offline',
    load: async () => (await import('./verifyCommand.ts')).verifyCommand(),
  },
  {
    name: 'monitor',
    summary: 'follow a log from outside, and prove that it only grows',
    load: async () => (await import('./client/monitorCommand.ts')).monitorCommand(),
  },
  {
    name: 'receipt',
    summary: 'write a receipt in the formats of other tools',
    load: async () => (await import('./receiptCommand.ts')).receiptCommand(),
  },
  {
    name: 'check',
    summary: 'check that the log, the receipts and everything else in the store agree',
    load: async () => (await import('./store/checkCommand.ts')).checkCommand(),
  },
  {
    name: 'repair-index',
    summary: 'rebuild the indexes of the store',
    load: async () => (await import('./store/repairIndex.ts')).repairIndexCommand(),
  },
  {
    name: 'audit',
    summary: 'list, export and verify the audit trail',
    load: async () => (await import('./store/auditCommand.ts')).auditCommand(),
  },
  {
    name: 'backup',
    summary: 'copy the state of an environment and check the copy',
    load: async () => (await import('./store/backupCommand.ts')).backupCommand(),
  },
  {
    name: 'restore',
    summary: 'restore the state of an environment from a backup',
    load: async () => (await import('./store/restoreCommand.ts')).restoreCommand(),
  },
  {
    name: 'store',
    summary: 'move a log from one store to another',
    load: async () => (await import('./store/migrateCommand.ts')).storeCommand(),
  },
  {
    name: 'last-checkpoint',
    summary: 'compare the log with the last checkpoint outside the store, or accept a rollback',
    load: async () => (await import('./store/lastCheckpointCommand.ts')).lastCheckpointCommand(),
  },
  {
    name: 'witness',
    summary: 'let a witness without a network cosign',
    load: async () => (await import('./daemon/witnessCommand.ts')).witnessCommand(),
  },
  {
    name: 'renew',
    summary: 'renew the time-stamps of the whole log before they end',
    load: async () => (await import('./store/renewCommand.ts')).renewCommand(),
  },
  {
    name: 'epochs',
    summary: 'plan new keys, another quorum or other partitions from a date on',
    load: async () => (await import('./store/epochsCommand.ts')).epochsCommand(),
  },
  {
    name: 'trust',
    summary: 'export the trust file that verifiers need',
    load: async () => (await import('./store/trustCommand.ts')).trustCommand(),
  },
  {
    name: 'completion',
    summary: 'print the completion script for a shell',
    load: async () => (await import('./completion/completionCommand.ts')).completionCommand(),
  },
];

/** The program with the command that `args` call; the other commands have only names and summaries. */
export function programFor(args: readonly string[]): Promise<Command> {
  const called = args.find((arg) => arg !== 'help');
  return assemble((name) => name === called);
}

/** The program with every command, for help tests and manual pages. */
export function wholeProgram(): Promise<Command> {
  return assemble(() => true);
}

async function assemble(isWanted: (name: string) => boolean): Promise<Command> {
  const program = new Command('pdfseal')
    .description('Administers pdfseald, seals documents with it, and verifies receipts without it.')
    .version(packageVersion(), '-V, --version', 'print the version')
    // What follows the name of a command is an option of that command, and of none above it.
    .enablePositionalOptions();
  for (const { name, summary, load } of COMMANDS) {
    program.addCommand((isWanted(name) ? await load() : new Command(name)).summary(summary));
  }
  dressCommands(program);
  program.hook('preAction', (_, command) => completeConfig(command));
  return program;
}
