/** The samples of docs/clients.md that present a client certificate, as they stand there, against the real daemon. */
import { spawnSync } from 'node:child_process';
import { copyFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { issueCertificate, issueClient, makeAuthority } from '../support/certificates.ts';
import { blocksUnder, pageAt } from '../support/manual.ts';
import { openSandbox } from '../support/sandbox.ts';

const dir = t.testdir();
const authority = makeAuthority(dir, 'ca');
const server = issueCertificate(dir, 'server', authority);
issueClient(dir, 'client', authority, { subject: '/O=Acme/CN=invoices' });
const sandbox = await openSandbox({
  tail: `[http.tls]
certificate_file = "${server.certificateFile}"
key_file = "${server.keyFile}"
client_ca_file = "${authority.certificateFile}"
`,
});
t.teardown(() => sandbox.close());
await sandbox.issueKey('invoices', 'acme', '--certificate-name', 'CN=invoices,O=Acme');
await sandbox.start();

const under = (fence: string) => blocksUnder(pageAt('docs/clients.md'), 'With a client certificate', fence);
const run = (command: string, ...args: string[]) => {
  const env = { PATH: process.env.PATH, PDFSEAL_URL: sandbox.url.replace('http:', 'https:') };
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: dir, env, encoding: 'utf8' });
  return { status, stdout, stderr };
};
const [shell = ''] = under('bash');
const [convert = ''] = under('sh');
const programs: Record<string, [file: string, fence: string, command: string[]]> = {
  Node: ['list.mjs', 'js', [process.execPath]],
  Python: ['list.py', 'python', ['python3']],
  Java: ['Certified.java', 'java', ['java', '-XX:TieredStopAtLevel=1']],
};
t.match(run('sh', '-c', convert), { status: 0 });
for (const [file, fence] of Object.values(programs)) writeFileSync(join(dir, file), under(fence)[0] ?? '');

function all(): [name: string, answer: ReturnType<typeof run>][] {
  return [
    ['curl', run('sh', '-c', shell)],
    ...Object.entries(programs).map(
      ([name, [file, , [command = '', ...args]]]) =>
        [name, run(command, ...args, file)] as [string, ReturnType<typeof run>],
    ),
  ];
}

t.test('the example authenticates with the certificate of the client', async (t) => {
  for (const [name, answer] of all()) t.match(answer, { status: 0, stdout: /\[\]/ }, name);
});

t.test('a certificate of another authority is refused', async (t) => {
  const other = issueClient(dir, 'other', makeAuthority(dir, 'others'), { subject: '/O=Acme/CN=invoices' });
  renameSync(other.certificateFile, join(dir, 'client.pem'));
  copyFileSync(other.keyFile, join(dir, 'client.key'));
  t.match(run('sh', '-c', convert), { status: 0 });
  for (const [name, { status }] of all()) t.not(status, 0, name);
});
