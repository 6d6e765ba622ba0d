/** Every command of the table, asked for JSON: on a real environment, and where it fails. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import t, { type Test } from 'tap';
import { ERROR_CODES } from '../../src/base/errorKinds.ts';
import { withSubcommands } from '../../src/cli/help.ts';
import { wholeProgram } from '../../src/cli/program.ts';
import { FAILURES, remedyOf } from '../../src/cli/report.ts';
import type { RunResult } from '../support/commands.ts';
import { item } from '../support/partitions.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';

/** Why these print nothing that a program would read as JSON. */
const WITHOUT_JSON: Record<string, string> = {
  completion: 'it prints a script for a shell',
};

const program = await wholeProgram();
const leaves = withSubcommands(program).filter(({ commands }) => commands.length === 0);

function pathOf(command: Command): string[] {
  return command.parent ? [...pathOf(command.parent), command.name()] : [];
}

const hasOption = (command: Command, name: string) => command.options.some(({ long }) => long === name);

/** Each line of both streams is an object, whose members are in snake_case. */
function checkLines(t: Test, name: string, { stdout, stderr }: RunResult): void {
  for (const line of [...stdout.split('\n'), ...stderr.split('\n')].filter((text) => text !== '')) {
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      t.fail(`${name}: not JSON: ${line}`);
      continue;
    }
    t.type(value, Object, name);
    t.strictSame(camelKeys(value), [], name);
  }
}

/** Names of members that are not as the API writes them. Those of `files` and of a `value` are what somebody else named. */
function camelKeys(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const own = Array.isArray(value) || /^[a-z0-9_]+$/.test(key) ? [] : [key];
    return key === 'files' || key === 'value' ? own : [...own, ...camelKeys(inner)];
  });
}

t.test('every command can speak JSON, and its help says so', async (t) => {
  t.ok(leaves.length > 30, `${leaves.length} commands`);
  for (const command of leaves) {
    const name = pathOf(command).join(' ');
    if (Object.hasOwn(WITHOUT_JSON, name)) continue;
    const option = command.options.find(({ long }) => long === '--json');
    t.equal(option?.description, 'print JSON, one object per line', name);
  }
});

t.test('the output of every command with --json parses', async (t) => {
  const sandbox = await openSandbox({
    stamped: true,
    tables: { webhooks: 'allow = ["127.0.0.0/8"]' },
    tail: '[quotas.default]\njobs = 100',
  });
  t.teardown(() => sandbox.close());
  await sandbox.start();
  const args = await argumentsFor(sandbox);
  const run = async (command: Command): Promise<void> => {
    const name = pathOf(command).join(' ');
    if (Object.hasOwn(WITHOUT_JSON, name)) return;
    const config = hasOption(command, '--config') ? ['--config', sandbox.configFile] : [];
    const { given, status: expected } = args[name] ?? { given: [], status: undefined };
    const result = await sandbox.pdfseal([...pathOf(command), ...given, ...config, '--json']);
    if (expected === undefined) t.not(result.status, 70, name);
    else t.equal(result.status, expected, `${name}: ${result.stderr}`);
    t.ok(result.stdout !== '' || result.status !== 0, `${name} prints something`);
    checkLines(t, name, result);
  };
  // What has to be there for others comes first, what takes something away last.
  const last = ['keys revoke', 'webhooks remove', 'hsm drill', 'restore'];
  const isLast = (command: Command) => last.includes(pathOf(command).join(' '));
  const rest = leaves.filter((command) => !isLast(command));
  for (const command of [...rest, ...leaves.filter(isLast)]) await run(command);
});

interface Given {
  given: string[];
  status: number;
}

/** What commands that need more than a config file are given, and how they end then. */
async function argumentsFor(sandbox: Sandbox): Promise<Record<string, Given>> {
  const json = async (...args: string[]) => {
    const { stdout } = await sandbox.pdfseal([...args, '--config', sandbox.configFile, '--json']);
    return JSON.parse(stdout) as { id: string; api_key: string };
  };
  const issue = ['keys', 'issue', '--organization', 'acme', '--client'];
  const key = await json(...issue, 'invoices');
  const other = await json(...issue, 'orders');
  const endpoint = await json('webhooks', 'add', '--client', 'invoices', '--url', 'http://127.0.0.1:9/');
  const files = { document: join(sandbox.dir, 'a.pdf'), key: join(sandbox.dir, 'key') };
  writeFileSync(files.document, '%PDF-1.7 of a test %%EOF');
  writeFileSync(files.key, key.api_key);
  const service = ['--url', sandbox.url, '--key-file', files.key, '--visibility', 'private'];
  const submitted = await sandbox.pdfseal(['submit', files.document, ...service, '--json']);
  const { job_id: jobId } = JSON.parse(submitted.stdout);
  const region = item(sandbox.partitions, 0).region;
  const ok = (...given: string[]): Given => ({ given, status: 0 });
  return {
    init: { given: [], status: 1 },
    'jobs list': ok('--limit', '1'),
    'jobs show': ok(jobId),
    'keys issue': ok('--client', 'invoices', '--organization', 'acme'),
    'keys list': ok(),
    'keys rotate': ok(key.id),
    'keys revoke': ok(other.id),
    'webhooks add': ok('--client', 'invoices', '--url', 'http://127.0.0.1:9/more'),
    'webhooks list': ok(),
    'webhooks test': { given: [endpoint.id], status: 1 },
    ...Object.fromEntries(
      ['show', 'rotate', 'enable', 'disable', 'deliveries', 'replay', 'remove'].map((name) => [
        `webhooks ${name}`,
        ok(endpoint.id),
      ]),
    ),
    submit: ok(files.document, ...service),
    verify: ok(files.document, `${files.document}.receipt.json`, '--trust', sandbox.trustFile),
    'trust export': ok('--output', join(sandbox.dir, 'trust.json')),
    check: ok(),
    'repair-index': ok('--dry-run'),
    backup: ok('--output', join(sandbox.dir, 'backup')),
    restore: { given: ['--input', join(sandbox.dir, 'backup')], status: 1 },
    'hsm list': ok(),
    'hsm certificates': ok(),
    'hsm csr': ok('--subject', 'CN=Unit,O=Example'),
    'hsm drill': ok('--partition', region, '--for', '1s', '--below-quorum'),
    'hsm init-key': ok('--new-label', 'unused', '--key-label', 'sandbox-2026'),
    'hsm destroy-key': { given: [`${region}/none`, '--confirm', 'none'], status: 1 },
    'hsm certify': ok(),
    'hsm revoke-certificate': { given: [`${region}/none`, '--reason', 'superseded'], status: 1 },
    'hsm sign-revocation-list': ok(),
    'hsm install-certificate': { given: [files.document], status: 1 },
    'epochs list': ok(),
    'epochs plan': { given: ['--new-keys', 'none'], status: 1 },
    'epochs cancel': { given: [], status: 1 },
  };
}

t.test('a failure is one object on standard error, with the status it has without --json', async (t) => {
  const sandbox = await openSandbox({ init: false });
  t.teardown(() => sandbox.close());
  const config = ['--config', sandbox.configFile];
  const other = await openSandbox();
  t.teardown(() => other.close());
  const made = ['--config', other.configFile];
  const cases: [args: string[], status: number, code: keyof typeof FAILURES, message: RegExp][] = [
    [['keys', 'lis'], 64, 'wrong_usage', /^unknown command 'lis' \(Did you mean list\?\)$/],
    [['keys', 'list'], 64, 'wrong_usage', /config file.*: name it with --config FILE/],
    [['keys', 'list', '--config', '/nowhere.toml'], 1, 'no_such_file', /cannot read the config file/],
    [['status', ...config], 1, 'no_daemon', /no pdfseald answers/],
    [['hsm', 'drill', ...config, '--partition', 'eu'], 1, 'no_daemon', /no pdfseald answers/],
    [['keys', 'revoke', 'key_1', ...made], 1, 'not_found', /there is no key key_1/],
    [['webhooks', 'show', 'we_1', ...made], 1, 'not_found', /there is no webhook endpoint we_1/],
    [['verify', '/nowhere', '/nowhere', '--trust', '/nowhere'], 2, 'no_such_file', /cannot read \/nowhere/],
    [['audit', 'verify', '--config', '/nowhere.toml'], 2, 'no_such_file', /cannot read the config file/],
  ];
  for (const [args, status, code, message] of cases) {
    const name = args.join(' ');
    const plain = await sandbox.pdfseal(args);
    const json = await sandbox.pdfseal([...args, '--json']);
    t.match([plain.status, json.status, json.stdout], [status, status, ''], name);
    t.match(JSON.parse(json.stderr), { error: { code, message, remedy: /^[\s\S]{10,}/ } }, name);
    t.notMatch(plain.stderr, /^ {4}at /m, 'no stack');
  }
  // Where pdfseal-run calls for a user who may not enter the folder of the caller.
  const astray = await sandbox.pdfseal(['verify', 'a.pdf', 'a.json', '--trust', 'trust.json'], { cwd: '/' });
  t.match(astray, { status: 2, stderr: /cannot read trust\.json .*\n {2}→ the command looked for it in \// });
  for (const code of [...ERROR_CODES, ...Object.keys(FAILURES)]) {
    t.notMatch(remedyOf(code), /\/v1\/|header|request|Idempotency|Retry-After|form|administrator/, code);
  }
  writeFileSync(sandbox.configFile, 'environment = 7\n');
  const { stderr } = await sandbox.pdfseal(['keys', 'list', ...config, '--json']);
  t.match(JSON.parse(stderr), { error: { code: 'invalid_config', message: /:1: environment: found 7/ } });
});
