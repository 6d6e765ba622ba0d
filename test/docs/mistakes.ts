/** Mistakes of administrators, each made in a sandbox of its own, and the pages that list their answers. */
import {
  chmodSync,
  chownSync,
  lchownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import type { Test } from 'tap';
import { issueCertificate, type KeyPair, makeAuthority } from '../support/certificates.ts';
import { makeChronyc, UNSYNCHRONIZED } from '../support/clocks.ts';
import { type RunResult, runProgram } from '../support/commands.ts';
import { ROOT } from '../support/manual.ts';
import { item } from '../support/partitions.ts';
import { programFile } from '../support/programs.ts';
import { openSandbox, type Sandbox, type SandboxOptions } from '../support/sandbox.ts';
import { SmallDisk } from '../support/smallDisk.ts';

/** The user that belongs to nobody's installation. */
const STRANGER = 65_534;

export interface Mistake {
  /** Completes the sentence "The mistake: …", and begins with a small letter. */
  name: string;
  /** The command that answers, as the page shows it. */
  command: string;
  options?: SandboxOptions;
  /** Makes the mistake. */
  make?(sandbox: Sandbox, t: Test): void | Promise<void>;
  /** Runs something else than `pdfseal COMMAND --config FILE`. */
  run?(sandbox: Sandbox, t: Test): Promise<RunResult>;
  status: number;
  /** The place that the answer must name: a file, a setting or an option. */
  where: RegExp;
  /** The words with which the message begins to say what to do, where it has no line of its own for that. */
  advice?: string;
}

function edit(change: (text: string) => string) {
  return ({ configFile }: Sandbox): void => {
    const text = readFileSync(configFile, 'utf8');
    const changed = change(text);
    if (changed === text) throw new Error('the configuration was not changed');
    writeFileSync(configFile, changed);
  };
}

function replace(before: string | RegExp, after: string) {
  return edit((text) => text.replace(before, after));
}

const pinFile = ({ partitions }: Sandbox) => item(partitions, 0).pinFile;

/** Serves TLS with that certificate and that key. */
function withTls(sandbox: Sandbox, certificate: KeyPair, key = certificate, more = ''): void {
  const files = `certificate_file = "${certificate.certificateFile}"\nkey_file = "${key.keyFile}"\n${more}`;
  replace('[log]', `[http.tls]\n${files}\n[log]`)(sandbox);
}

function pairs({ dir }: Sandbox, ...names: string[]): KeyPair[] {
  const authority = makeAuthority(dir, 'authority');
  return names.map((name) => issueCertificate(dir, name, authority));
}

/** Gives everything to another user, and takes the privileges from root: then this user is a stranger there, who can run our programs. */
async function asStranger(name: 'cli' | 'main', args: string[], { dir }: Sandbox): Promise<RunResult> {
  for (const path of ['', ...readdirSync(dir, { recursive: true, encoding: 'utf8' })])
    lchownSync(join(dir, path), STRANGER, STRANGER);
  const without = ['setpriv', '--bounding-set=-all', '--inh-caps=-all'];
  return runProgram([...without, process.execPath, await programFile(name, 'src'), ...args], {});
}

/** Runs `work` on an installation whose disk takes no more. */
async function onFullDisk(t: Test, work: (sandbox: Sandbox) => Promise<RunResult>): Promise<RunResult> {
  const disk = new SmallDisk(24 * 2 ** 20);
  t.teardown(() => disk.close());
  const sandbox = await openSandbox({ parent: disk.dir });
  disk.fill(0);
  return work(sandbox);
}

/** A script of the package, over the folders of a sandbox. */
function script(name: string, { dir }: Sandbox, args: string[]): Promise<RunResult> {
  const text = readFileSync(join(ROOT, 'systemd', name), 'utf8')
    .replaceAll('/etc/pdfseal', dir)
    .replaceAll('/usr/lib/pdfseald', join(ROOT, 'systemd'));
  const copy = join(dir, name);
  writeFileSync(copy, text, { mode: 0o755 });
  return runProgram([copy, ...args], {});
}

export const MISTAKES: Readonly<Record<string, readonly Mistake[]>> = {
  'The configuration': [
    {
      name: 'the file has another name',
      command: 'check-config',
      make: ({ configFile }) => renameSync(configFile, `${configFile}.old`),
      status: 1,
      where: /sandbox\.toml/,
      advice: 'name it with --config',
    },
    {
      name: 'a quotation mark is missing',
      command: 'check-config',
      make: replace('"sandbox"', '"sandbox'),
      status: 1,
      where: /sandbox\.toml:1/,
    },
    {
      name: 'a table is misspelt',
      command: 'check-config',
      make: replace('[limits]', '[limit]'),
      status: 1,
      where: /sandbox\.toml:\d+: limit/,
    },
    {
      name: 'a key is misspelt',
      command: 'check-config',
      make: replace('[limits]', '[limits]\nqueue_job_max = 5'),
      status: 1,
      where: /sandbox\.toml:\d+: limits\.queue_job_max/,
    },
    {
      name: 'a number is written as text',
      command: 'check-config',
      make: replace('[limits]', '[limits]\nqueue_jobs_max = "5000"'),
      status: 1,
      where: /sandbox\.toml:\d+: limits\.queue_jobs_max/,
    },
    {
      name: 'a duration has no unit',
      command: 'check-config',
      make: replace('[webhooks]', '[webhooks]\ntimeout = "15"'),
      status: 1,
      where: /sandbox\.toml:\d+: webhooks\.timeout/,
    },
    {
      name: 'a required key is missing',
      command: 'check-config',
      make: replace('origin = "seal.example.com/sandbox/2026"', ''),
      status: 1,
      where: /log\.origin/,
    },
    {
      name: 'the quorum is larger than the number of partitions',
      command: 'check-config',
      make: replace('[kms]', '[kms]\nquorum = 3'),
      status: 1,
      where: /sandbox\.toml:\d+: kms\.quorum/,
    },
    {
      name: 'two partitions have one name',
      command: 'check-config',
      options: { regions: ['eu', 'us'], quorum: 1 },
      make: replace('region = "us"', 'region = "eu"'),
      status: 1,
      where: /sandbox\.toml:\d+: kms\.partitions\[1\]\.key_label/,
    },
    {
      name: 'the quorum is changed without a new epoch',
      command: 'check-config',
      options: { regions: ['eu', 'us'], quorum: 1 },
      make: replace('quorum = 1', 'quorum = 2'),
      status: 1,
      where: /kms\.quorum/,
    },
    {
      name: 'the file names another log than the store has',
      command: 'check-config',
      make: replace('sandbox/2026"', 'sandbox/2027"'),
      status: 1,
      where: /log\.origin/,
    },
    {
      name: 'others may change the file',
      command: 'doctor',
      make: ({ configFile }) => chmodSync(configFile, 0o666),
      status: 1,
      where: /sandbox\.toml/,
    },
  ],
  'Users, folders and modes': [
    {
      name: 'the state folder is at another path',
      command: 'pdfseald',
      make: replace('state_dir = "state"', 'state_dir = "stat"'),
      run: (sandbox) => sandbox.pdfseald(),
      status: 1,
      where: /stat\/lock/,
      advice: 'make state folder and store',
    },
    {
      name: 'the store belongs to another user',
      command: 'doctor',
      make: ({ dir }) => chownSync(join(dir, 'state/store'), STRANGER, STRANGER),
      status: 1,
      where: /\/var\/lib\/pdfseal\/sandbox\/store/,
    },
    {
      name: 'others may write to the state folder',
      command: 'doctor',
      make: ({ dir }) => chmodSync(join(dir, 'state'), 0o777),
      status: 1,
      where: /state folder/,
    },
    {
      name: 'another user starts the daemon',
      command: 'pdfseald',
      make: ({ dir }) => chmodSync(dir, 0o755),
      run: (sandbox) => asStranger('main', ['--config', sandbox.configFile], sandbox),
      status: 1,
      where: /pin_file/,
    },
    {
      name: 'another user issues a key',
      command: 'keys issue',
      make: ({ dir }) => chmodSync(dir, 0o755),
      run: (sandbox) =>
        asStranger(
          'cli',
          ['keys', 'issue', '--config', sandbox.configFile, '--client', 'a', '--organization', 'b'],
          sandbox,
        ),
      status: 1,
      where: /\/var\/lib\/pdfseal\/sandbox\/admin\.sock/,
      advice: 'run this as',
    },
    {
      name: 'the daemon may not read its configuration',
      command: 'pdfseald',
      make: ({ dir, configFile }) => {
        chmodSync(dir, 0o755);
        chmodSync(configFile, 0o600);
      },
      run: (sandbox) => asStranger('main', ['--config', sandbox.configFile], sandbox),
      status: 1,
      where: /sandbox\.toml/,
      advice: 'run this as root',
    },
    {
      name: 'a backup goes to a folder that exists',
      command: 'backup --output /var/backups/pdfseal/copy',
      make: ({ dir }) => {
        mkdirSync(join(dir, 'copy'));
        writeFileSync(join(dir, 'copy/file'), '');
      },
      run: (sandbox) =>
        sandbox.pdfseal(['backup', '--config', sandbox.configFile, '--output', join(sandbox.dir, 'copy')]),
      status: 1,
      where: /\/var\/backups\/pdfseal\/copy/,
    },
    {
      name: 'an environment is made a second time',
      command: 'init --throwaway',
      status: 1,
      where: /\/var\/lib\/pdfseal\/sandbox/,
    },
  ],
  'TLS and certificates': [
    {
      name: 'the key belongs to another certificate',
      command: 'check-config',
      make: (sandbox) => {
        const [pair, other] = pairs(sandbox, 'server', 'other');
        if (pair !== undefined) withTls(sandbox, pair, other);
      },
      status: 1,
      where: /http\.tls|server\.pem|other\.key/,
    },
    {
      name: 'the key belongs to another certificate, and the daemon runs',
      command: 'check-config --reload',
      make: (sandbox) => {
        const [pair, other] = pairs(sandbox, 'server', 'other');
        if (pair !== undefined) withTls(sandbox, pair, other);
      },
      status: 1,
      where: /http\.tls|server\.pem|other\.key/,
    },
    {
      name: 'others may read the key',
      command: 'check-config',
      make: (sandbox) => {
        const [pair] = pairs(sandbox, 'server');
        if (pair === undefined) return;
        withTls(sandbox, pair);
        chmodSync(pair.keyFile, 0o644);
      },
      status: 1,
      where: /server/,
    },
    {
      name: 'the certificate has expired',
      command: 'doctor',
      make: (sandbox) =>
        withTls(sandbox, issueCertificate(sandbox.dir, 'old', makeAuthority(sandbox.dir, 'a'), -1)),
      status: 1,
      where: /http\.tls/,
    },
    {
      name: 'the file has no certificate',
      command: 'check-config',
      make: (sandbox) => {
        const [pair] = pairs(sandbox, 'server');
        if (pair === undefined) return;
        withTls(sandbox, pair);
        writeFileSync(pair.certificateFile, 'nothing');
      },
      status: 1,
      where: /server/,
    },
    {
      name: 'the authority of client certificates is not a certificate',
      command: 'check-config',
      make: (sandbox) => {
        const [pair] = pairs(sandbox, 'server');
        writeFileSync(join(sandbox.dir, 'clients.pem'), 'nothing');
        const more = `client_ca_file = "${join(sandbox.dir, 'clients.pem')}"\n`;
        if (pair !== undefined) withTls(sandbox, pair, pair, more);
      },
      status: 1,
      where: /clients\.pem/,
    },
    {
      name: 'the certificate of the time-stamping key is gone',
      command: 'check-config',
      options: { stamped: true },
      make: ({ dir }) => rmSync(join(dir, 'state/certificates/local_timestamp-2026.pem')),
      status: 1,
      where: /timestamp-2026/,
    },
  ],
  'Addresses and networks': [
    {
      name: 'another program has the port',
      command: 'check-config',
      make: async ({ port }, t) => {
        const server = createServer();
        await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', () => resolve()));
        t.teardown(() => server.close());
      },
      status: 1,
      where: /http\.listen/,
    },
    {
      name: 'another program has the port, and the daemon is started',
      command: 'pdfseald',
      make: async ({ port }, t) => {
        const server = createServer();
        await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', () => resolve()));
        t.teardown(() => server.close());
      },
      run: (sandbox) => sandbox.pdfseald(),
      status: 1,
      where: /http\.listen/,
      advice: 'another program has that port',
    },
    {
      name: 'the machine does not have the address',
      command: 'check-config',
      make: replace(
        /listen = "127.0.0.1:\d+"/,
        'listen = "192.0.2.1:8400"\nclear_text_beyond_loopback = true',
      ),
      status: 1,
      where: /http\.listen/,
    },
    {
      name: 'the port is not a port',
      command: 'check-config',
      make: replace(/listen = "127.0.0.1:\d+"/, 'listen = "127.0.0.1:84000"'),
      status: 1,
      where: /sandbox\.toml:\d+: http\.listen/,
    },
    {
      name: 'other machines are served without TLS',
      command: 'check-config',
      make: replace(/listen = "127.0.0.1:\d+"/, 'listen = "192.0.2.1:8400"'),
      status: 1,
      where: /sandbox\.toml:\d+: http\.listen/,
    },
    {
      name: 'a target of webhooks is not an origin',
      command: 'check-config',
      make: replace('[webhooks]', '[webhooks]\nallow = ["erp.example.com/hooks"]'),
      status: 1,
      where: /sandbox\.toml:\d+: webhooks\.allow/,
    },
    {
      name: 'a target of webhooks can never be reached',
      command: 'check-config',
      make: replace('[webhooks]', '[webhooks]\nallow = ["https://169.254.169.254"]'),
      status: 0,
      where: /webhooks\.allow/,
    },
    {
      name: 'a target of webhooks is in the internal network, which is not allowed',
      command: 'check-config',
      make: replace('[webhooks]', '[webhooks]\nallow = ["https://10.0.0.7"]'),
      status: 0,
      where: /webhooks\.allow/,
    },
    {
      name: 'an endpoint is not allowed',
      command: 'webhooks add --client quickstart --url https://10.0.0.7/hook',
      make: async (sandbox) => void (await sandbox.issueKey()),
      run: (sandbox) =>
        sandbox.pdfseal([
          'webhooks',
          'add',
          ...['--config', sandbox.configFile, '--client', 'quickstart', '--url', 'https://10.0.0.7/hook'],
        ]),
      status: 1,
      where: /webhooks\.allow/,
    },
    {
      name: 'the virus scanner does not run',
      command: 'doctor',
      options: { tables: { scan: 'clamd = "unix:/run/clamav/none.ctl"' } },
      make: async (sandbox) => void (await sandbox.start()),
      status: 1,
      where: /clamd/,
    },
    {
      name: 'the database is not there',
      command: 'check-config',
      options: { init: false },
      make: replace(
        '[store]',
        '[store]\nengine = "postgresql"\nurl = "postgresql:///pdfseal?host=/run/postgresql-none"',
      ),
      status: 1,
      where: /postgresql/,
    },
  ],
  'HSM and PINs': [
    {
      name: 'the PIN file is not there',
      command: 'check-config',
      make: (sandbox) => rmSync(pinFile(sandbox)),
      status: 1,
      where: /pin_file/,
    },
    {
      name: 'others may read the PIN file',
      command: 'check-config',
      make: (sandbox) => chmodSync(pinFile(sandbox), 0o644),
      status: 1,
      where: /pin/,
    },
    {
      name: 'the PIN is wrong',
      command: 'doctor',
      make: (sandbox) => writeFileSync(pinFile(sandbox), 'wrong-pin', { mode: 0o600 }),
      status: 1,
      where: /local\/sandbox-2026/,
    },
    {
      name: 'the module is at another path',
      command: 'check-config',
      make: replace(/module = "[^"]*"/, 'module = "/usr/lib/libhsm.so"'),
      status: 1,
      where: /sandbox\.toml:\d+: kms\.partitions\[0\]\.module/,
    },
    {
      name: 'the module is not a library',
      command: 'doctor',
      make: (sandbox) => {
        const file = join(sandbox.dir, 'module.so');
        writeFileSync(file, 'nothing');
        replace(/module = "[^"]*"/, `module = "${file}"`)(sandbox);
      },
      status: 1,
      where: /module\.so/,
    },
    {
      name: 'the label of the token is misspelt',
      command: 'doctor',
      make: replace('token_label = "token-local"', 'token_label = "token-locall"'),
      status: 1,
      where: /token-locall/,
    },
    {
      name: 'the label of the key is misspelt',
      command: 'pdfseald',
      make: replace('key_label = "sandbox-2026"', 'key_label = "sandbox-2062"'),
      run: (sandbox) => sandbox.pdfseald(),
      status: 1,
      where: /sandbox-2062/,
      advice: 'put it back',
    },
  ],
  'The clock': [
    {
      name: 'the program of the time service is not installed',
      command: 'check-config',
      options: { stamped: true },
      make: replace('trust = "system"', 'trust = "chrony"\nprogram = "/usr/bin/chronyc-none"'),
      status: 1,
      where: /sandbox\.toml:\d+: clock\.program/,
    },
    {
      name: 'the clock is not synchronized',
      command: 'doctor',
      options: { stamped: true },
      make: (sandbox, t) => {
        const chronyc = makeChronyc(t);
        chronyc.say(UNSYNCHRONIZED);
        replace('trust = "system"', `trust = "chrony"\nprogram = "${chronyc.program}"`)(sandbox);
      },
      status: 1,
      where: /clock/,
    },
  ],
  'Disk and locks': [
    {
      name: 'the disk is full',
      command: 'keys issue',
      run: (_, t) =>
        onFullDisk(t, (sandbox) =>
          sandbox.pdfseal(
            ['keys', 'issue', ...['--config', sandbox.configFile, '--client', 'a', '--organization', 'b']],
            { apart: true },
          ),
        ),
      status: 70,
      where: /store/,
    },
    {
      name: 'the disk of the backup is full',
      command: 'backup',
      run: (_, t) =>
        onFullDisk(t, (sandbox) =>
          sandbox.pdfseal(['backup', '--config', sandbox.configFile, '--output', join(sandbox.dir, 'copy')], {
            apart: true,
          }),
        ),
      status: 1,
      where: /\/var\/backups\/pdfseal\/copy/,
    },
    {
      name: 'the disk is full when the daemon starts',
      command: 'doctor',
      run: (_, t) =>
        onFullDisk(t, (sandbox) =>
          sandbox.pdfseal(['doctor', '--config', sandbox.configFile], { apart: true }),
        ),
      status: 1,
      where: /disk/,
    },
    {
      name: 'a second daemon is started',
      command: 'pdfseald',
      make: async (sandbox) => void (await sandbox.start()),
      run: (sandbox) => sandbox.pdfseald(),
      status: 1,
      where: /\/var\/lib\/pdfseal\/sandbox\/lock/,
    },
    {
      name: 'the state folder is on NFS, which does not lock',
      command: 'pdfseald',
      run: async (sandbox) => {
        const inject = [
          '-f',
          '-qq',
          '-o',
          '/dev/null',
          '-e',
          'trace=flock',
          '-e',
          'inject=flock:error=ENOLCK',
        ];
        const program = await programFile('main', 'src');
        return runProgram(
          ['strace', ...inject, process.execPath, program, '--config', sandbox.configFile],
          {},
        );
      },
      status: 1,
      where: /\/var\/lib\/pdfseal\/sandbox\/lock/,
    },
  ],
  Commands: [
    {
      name: 'the daemon does not run',
      command: 'status',
      status: 1,
      where: /\/var\/lib\/pdfseal\/sandbox/,
    },
    {
      name: 'a command is misspelt',
      command: 'chek-config',
      status: 64,
      where: /chek-config/,
      advice: '(Did you mean',
    },
    {
      name: 'an option is misspelt',
      command: 'keys issue --organisation acme',
      run: (sandbox) =>
        sandbox.pdfseal([
          'keys',
          'issue',
          '--organisation',
          'acme',
          '--client',
          'a',
          '--config',
          sandbox.configFile,
        ]),
      status: 64,
      where: /--organisation/,
      advice: '(Did you mean',
    },
    {
      name: 'an endpoint is added for an unknown client',
      command: 'webhooks add --client quickstrat',
      make: replace('[webhooks]', '[webhooks]\nallow = ["https://erp.example.com"]'),
      run: (sandbox) =>
        sandbox.pdfseal([
          'webhooks',
          'add',
          '--config',
          sandbox.configFile,
          '--client',
          'quickstrat',
          '--url',
          'https://erp.example.com/',
        ]),
      status: 1,
      where: /quickstrat/,
      advice: 'issue one first',
    },
    {
      name: 'a key is revoked that does not exist',
      command: 'keys revoke key_none',
      run: (sandbox) => sandbox.pdfseal(['keys', 'revoke', 'key_none', '--config', sandbox.configFile]),
      status: 1,
      where: /key_none/,
      advice: 'see `pdfseal keys list`',
    },
  ],
  'The package': [
    {
      name: 'a user who is not root calls pdfseal-run',
      command: 'pdfseal-run sandbox status',
      run: async (sandbox) => {
        chmodSync(sandbox.dir, 0o755);
        await script('pdfseal-run', sandbox, []);
        const as = ['setpriv', `--reuid=${STRANGER}`, `--regid=${STRANGER}`, '--clear-groups'];
        return runProgram([...as, join(sandbox.dir, 'pdfseal-run'), 'sandbox', 'status'], {});
      },
      status: 64,
      where: /pdfseal-run/,
      advice: 'run it as root',
    },
    {
      name: 'the name of the environment is misspelt',
      command: 'pdfseal-run sandbx status',
      run: (sandbox) => script('make-environment', sandbox, ['sandbx']),
      status: 64,
      where: /sandbx\.toml/,
      advice: 'there are: sandbox',
    },
  ],
};

/** What was said of a mistake. */
export interface Said {
  message: string;
  /** What to do. */
  remedy: string;
}

/** The part of the output that names the place. Undefined where there is none, or where it does not say what to do. */
export function answerTo({ where, advice }: Mistake, { stdout, stderr }: RunResult): Said | undefined {
  const found = [...stdout.matchAll(/^[✗!] (.*\n(?: {4}.*\n)*)/gm)].map(([, text = '']) => text);
  const said = [
    ...found,
    stderr.replaceAll(/^(?:Write error: .*|\(--help says more\)|pdfseald?: )\n?/gm, ''),
  ];
  const [answer] = said.map(tidy).filter((text) => where.test(text));
  if (answer === undefined) return undefined;
  const words = advice ?? ['→ ', 'expected '].find((one) => answer.includes(one));
  const at = words === undefined ? -1 : answer.indexOf(words);
  if (at < 1) return undefined;
  const clean = (text: string) => text.replace(/^→ /, '').replace(/[ ;:→]+$/, '');
  return { message: clean(answer.slice(0, at)), remedy: clean(answer.slice(at)) };
}

/** The same wherever and whenever it was said, on one line, with the paths of an installation of the package. */
function tidy(text: string): string {
  return text
    .replaceAll(/[\w/.-]*pdfseal-sandbox-\w+\/state/g, '/var/lib/pdfseal/sandbox')
    .replaceAll(/[\w/.-]*pdfseal-sandbox-\w+\/copy/g, '/var/backups/pdfseal/copy')
    .replaceAll(/[\w/.-]*pdfseal-sandbox-\w+/g, '/etc/pdfseal')
    .replaceAll(/(?<=127\.0\.0\.1:|sport = :)\d+/g, '8400')
    .replaceAll(/(?<=sandbox\.toml:)\d+/g, '12')
    .replaceAll(/(?<=process )\d+/g, '4711')
    .replaceAll(/(?<=\(serial )\w+/g, '0123456789abcdef')
    .replaceAll(/\d{4}-\d\d-\d\d(?:T[\d:.]+Z)?/g, '2026-01-01')
    .replaceAll(/(?<=No space left on device): [^)]*/g, '')
    .trim()
    .replaceAll(/\s+/g, ' ');
}

const INTRODUCTION = `# Mistakes and answers

Common mistakes, and for each the command that finds it, its exit status and its message. \`remedies.md\` has what the answer
says to do. Numbers of lines, ports and processes are examples.
`;

type Answers = ReadonlyMap<Mistake, Said>;

/** What each answer says of the mistake. */
export function pageOf(answers: Answers): string {
  const sections = tables(answers, ['Mistake', 'Command: status', 'Message'], (mistake, { message }) => [
    capitalized(mistake.name),
    `\`${mistake.command}\`: ${mistake.status}`,
    escaped(message),
  ]);
  return [INTRODUCTION, ...sections].join('\n');
}

/** What each answer tells the reader to do. */
export function remediesOf(answers: Answers): string {
  const sections = tables(answers, ['Mistake', 'What the answer says to do'], ({ name }, { remedy }) => [
    capitalized(name),
    escaped(remedy),
  ]);
  return ['# Remedies\n', ...sections].join('\n');
}

/** A section with a table for each title of `MISTAKES`. */
function tables(
  answers: Answers,
  headings: string[],
  cells: (mistake: Mistake, said: Said) => string[],
): string[] {
  const row = (texts: string[]) => `| ${texts.join(' | ')} |\n`;
  return Object.entries(MISTAKES).map(([title, mistakes]) => {
    const rows = mistakes.map((one) => row(cells(one, answers.get(one) ?? { message: '', remedy: '' })));
    return `## ${title}\n\n${row(headings)}${row(headings.map(() => '---'))}${rows.join('')}`;
  });
}

function capitalized(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** As Markdown that shows the text as it is. Code are the words between backticks, and what would become a link. */
function escaped(text: string): string {
  const isCode = /`[^`]*`|[^\s`(]*(?:@|:\/\/)(?:[^\s`]*[^\s`.,;)])?/;
  return text.replaceAll(new RegExp(`${isCode.source}|[\\\\*_[\\]<>|]`, 'g'), (one) =>
    one.startsWith('`') ? one : isCode.test(one) ? `\`${one}\`` : `\\${one}`,
  );
}
