import { Command } from 'commander';
import { packageVersion } from '../base/package.ts';
import { dressHelp } from './help.ts';
import { completeConfig } from './options.ts';

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
    load: async () => (await import('./init/initCommand.ts')).initCommand(),
  },
  {
    name: 'status',
    summary: 'show how the running daemon is',
    load: async () => (await import('./daemon/statusCommand.ts')).statusCommand(),
  },
  {
    name: 'config',
    summary: 'show the configuration as it is in effect',
    load: async () => (await import('./daemon/configCommand.ts')).configCommand(),
  },
  {
    name: 'check-config',
    summary: 'say whether the daemon would start with a configuration',
    load: async () => (await import('./daemon/checkConfig.ts')).checkConfigCommand(),
  },
  {
    name: 'doctor',
    summary: 'check an installation part by part, and say what to do',
    load: async () => (await import('./doctor/doctorCommand.ts')).doctorCommand(),
  },
  {
    name: 'hsm',
    summary: 'look after keys in the HSM and their certificates',
    load: async () => (await import('./hsm/hsmCommand.ts')).hsmCommand(),
  },
  {
    name: 'keys',
    summary: 'issue, list, rotate and revoke API keys',
    load: async () => (await import('./store/keysCommand.ts')).keysCommand(),
  },
  {
    name: 'jobs',
    summary: 'list and show jobs, as the administrator sees them',
    load: async () => (await import('./store/jobsCommand.ts')).jobsCommand(),
  },
  {
    name: 'quotas',
    summary: 'list what clients have used of their limits',
    load: async () => (await import('./daemon/quotasCommand.ts')).quotasCommand(),
  },
  {
    name: 'webhooks',
    summary: 'look after webhook endpoints and what is sent to them',
    load: async () => (await import('./store/webhooksCommand.ts')).webhooksCommand(),
  },
  {
    name: 'submit',
    summary: 'seal documents and store their receipts beside them',
    load: async () => (await import('./client/submitCommand.ts')).submitCommand(),
  },
  {
    name: 'verify',
    summary: 'verify a document and its receipt, offline',
    load: async () => (await import('./verifyCommand.ts')).verifyCommand(),
  },
  {
    name: 'check',
    summary: 'check that log, receipts and everything else in the store hold together',
    load: async () => (await import('./store/checkCommand.ts')).checkCommand(),
  },
  {
    name: 'repair-index',
    summary: 'derive the indexes of the store again from what they follow from',
    load: async () => (await import('./store/repairIndex.ts')).repairIndexCommand(),
  },
  {
    name: 'audit',
    summary: 'list, export and verify who administered what, when',
    load: async () => (await import('./store/auditCommand.ts')).auditCommand(),
  },
  {
    name: 'backup',
    summary: 'copy the state of an environment, and check the copy',
    load: async () => (await import('./store/backupCommand.ts')).backupCommand(),
  },
  {
    name: 'restore',
    summary: 'put a backup in the place of the state, unless it is an older one',
    load: async () => (await import('./store/restoreCommand.ts')).restoreCommand(),
  },
  {
    name: 'epochs',
    summary: 'plan new keys, another quorum or other partitions from a date on',
    load: async () => (await import('./store/epochsCommand.ts')).epochsCommand(),
  },
  {
    name: 'trust',
    summary: 'export what verifiers need to trust this log',
    load: async () => (await import('./store/trustCommand.ts')).trustCommand(),
  },
  {
    name: 'completion',
    summary: 'print the script that has a shell complete commands',
    load: async () => (await import('./completion/completionCommand.ts')).completionCommand(),
  },
];

/** The program as far as `args` need it: of the other commands only names and summaries. */
export function programFor(args: readonly string[]): Promise<Command> {
  const called = args.find((arg) => arg !== 'help');
  return assemble((name) => name === called);
}

/** The program with every command, for what looks at all of them. */
export function wholeProgram(): Promise<Command> {
  return assemble(() => true);
}

async function assemble(isWanted: (name: string) => boolean): Promise<Command> {
  const program = new Command('pdfseal')
    .description('Administers pdfseald, seals documents with it, and verifies receipts without it.')
    .version(packageVersion(), '-V, --version', 'print the version');
  for (const { name, summary, load } of COMMANDS) {
    program.addCommand((isWanted(name) ? await load() : new Command(name)).summary(summary));
  }
  dressHelp(program);
  program.hook('preAction', (_, command) => completeConfig(command));
  return program;
}
