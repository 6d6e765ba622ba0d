import { Command } from 'commander';
import { versionLine } from '../base/package.ts';
import { group } from './command.ts';
import { dressCommands } from './help.ts';
import { completeConfig } from './options.ts';

/** Every command with its summary, in the order of the help. */
const SUMMARIES = {
  init: 'create the keys, certificates, store and trust file of an environment',
  status: 'show the state of the running daemon',
  config: 'show the configuration in effect',
  'check-config': 'check whether the daemon would start with a configuration',
  doctor: 'check every part of an installation, and say what to do',
  console: 'open the console of a running daemon, or create a link to it for another person',
  hsm: 'manage the keys in the HSM and their certificates',
  keys: 'issue, list, rotate and revoke API keys',
  jobs: 'list and show the jobs of all clients',
  clock: 'trust a date that is more than a day ahead',
  quotas: 'list how much of their limits clients have used',
  webhooks: 'manage webhook endpoints and their deliveries',
  submit: 'seal documents and save their receipts beside them',
  verify: 'verify a document and its receipt, offline',
  monitor: 'follow a log from outside, and prove that it only grows',
  receipt: 'write a receipt in the formats of other tools',
  check: 'check that the log, the receipts and everything else in the store agree',
  'repair-index': 'rebuild the indexes of the store',
  audit: 'list, export and verify the audit trail',
  backup: 'copy the state of an environment and check the copy',
  restore: 'restore the state of an environment from a backup',
  store: 'move a log from one store to another',
  'last-checkpoint': 'compare the log with the last checkpoint outside the store, or accept a rollback',
  witness: 'let a witness without a network cosign',
  renew: 'renew the time-stamps of the whole log before they end',
  epochs: 'plan new keys, another quorum or other partitions from a date on',
  trust: 'export the trust file that verifiers need',
  completion: 'print the completion script for a shell',
} as const;

/** Loaders, run only when the command is called: `verify` must not need the modules of `init`. */
const LOADED: Record<keyof typeof SUMMARIES, () => Promise<() => Command>> = {
  init: async () => (await import('./init/initCommand.ts')).initCommand,
  status: async () => (await import('./daemon/statusCommand.ts')).statusCommand,
  config: async () => (await import('./daemon/configCommand.ts')).configCommand,
  'check-config': async () => (await import('./daemon/checkConfig.ts')).checkConfigCommand,
  doctor: async () => (await import('./doctor/doctorCommand.ts')).doctorCommand,
  console: async () => (await import('./daemon/consoleCommand.ts')).consoleCommand,
  hsm: async () => (await import('./hsm/hsmCommand.ts')).hsmCommand,
  keys: async () => (await import('./store/keysCommand.ts')).keysCommand,
  jobs: async () => (await import('./store/jobsCommand.ts')).jobsCommand,
  clock: async () => (await import('./daemon/clockCommand.ts')).clockCommand,
  quotas: async () => (await import('./daemon/quotasCommand.ts')).quotasCommand,
  webhooks: async () => (await import('./store/webhooksCommand.ts')).webhooksCommand,
  submit: async () => (await import('./client/submitCommand.ts')).submitCommand,
  verify: async () => (await import('./verifyCommand.ts')).verifyCommand,
  monitor: async () => (await import('./client/monitorCommand.ts')).monitorCommand,
  receipt: async () => (await import('./receiptCommand.ts')).receiptCommand,
  check: async () => (await import('./store/checkCommand.ts')).checkCommand,
  'repair-index': async () => (await import('./store/repairIndex.ts')).repairIndexCommand,
  audit: async () => (await import('./store/auditCommand.ts')).auditCommand,
  backup: async () => (await import('./store/backupCommand.ts')).backupCommand,
  restore: async () => (await import('./store/restoreCommand.ts')).restoreCommand,
  store: async () => (await import('./store/migrateCommand.ts')).storeCommand,
  'last-checkpoint': async () => (await import('./store/lastCheckpointCommand.ts')).lastCheckpointCommand,
  witness: async () => (await import('./daemon/witnessCommand.ts')).witnessCommand,
  renew: async () => (await import('./store/renewCommand.ts')).renewCommand,
  epochs: async () => (await import('./store/epochsCommand.ts')).epochsCommand,
  trust: async () => (await import('./store/trustCommand.ts')).trustCommand,
  completion: async () => (await import('./completion/completionCommand.ts')).completionCommand,
};

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
    .version(versionLine(), '-V, --version', 'print version and commit')
    // Options after the name of a command belong to that command, and not to any above it.
    .enablePositionalOptions();
  for (const [name, summary] of Object.entries(SUMMARIES)) {
    const make = isWanted(name) ? await LOADED[name as keyof typeof SUMMARIES]() : group(name, '', []);
    program.addCommand(make().summary(summary));
  }
  dressCommands(program);
  program.hook('preAction', (_, command) => completeConfig(command));
  return program;
}
