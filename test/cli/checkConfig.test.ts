/** What the check says of a configuration, and what a start makes of it: the same. */
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { issueCertificate, makeAuthority } from '../support/certificates.ts';
import { item } from '../support/partitions.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';

const check = (sandbox: Sandbox, ...args: string[]) =>
  sandbox.pdfseal(['check-config', '--config', sandbox.configFile, ...args]);

function edit({ configFile }: Sandbox, change: (text: string) => string): () => void {
  const text = readFileSync(configFile, 'utf8');
  writeFileSync(configFile, change(text));
  return () => writeFileSync(configFile, text);
}

t.test('check-config refuses whatever a start refuses, and names a remedy', async (t) => {
  const sandbox = await openSandbox({ stamped: true });
  t.teardown(() => sandbox.close());
  const authority = makeAuthority(sandbox.dir, 'authority');
  const pair = issueCertificate(sandbox.dir, 'server', authority);
  const other = issueCertificate(sandbox.dir, 'other', authority);
  const withTls = (files = pair) =>
    edit(sandbox, (text) =>
      text.replace(
        '[log]',
        `[http.tls]\ncertificate_file = "${files.certificateFile}"\nkey_file = "${files.keyFile}"\n[log]`,
      ),
    );
  const { pinFile } = item(sandbox.partitions, 0);
  const cases: { name: string; breaks(): (() => void) | Promise<() => void>; says: RegExp }[] = [
    {
      name: 'a key that is of another certificate',
      breaks: () => withTls({ ...pair, keyFile: other.keyFile }),
      says: /✗ TLS pair: .*cannot be used together/,
    },
    {
      name: 'a key that others may read',
      breaks: () => {
        chmodSync(pair.keyFile, 0o644);
        const undo = withTls();
        return () => {
          chmodSync(pair.keyFile, 0o600);
          undo();
        };
      },
      says: /✗ TLS pair: .*chmod o=/,
    },
    {
      name: 'a client CA that is none',
      breaks: () => {
        const file = join(sandbox.dir, 'clients.pem');
        writeFileSync(file, 'nothing');
        const undo = withTls();
        edit(sandbox, (text) => text.replace('[log]', `client_ca_file = "${file}"\n[log]`));
        return undo;
      },
      says: /✗ TLS pair: .*clients\.pem has no certificate/,
    },
    {
      name: 'a port that another program has',
      breaks: async () => {
        const server = createServer();
        await new Promise<void>((resolve) => server.listen(sandbox.port, '127.0.0.1', () => resolve()));
        return () => server.close();
      },
      says: /✗ address 127\.0\.0\.1:\d+: .*address already in use.*ss -ltnp/,
    },
    {
      name: 'a PIN file that others may read',
      breaks: () => {
        chmodSync(pinFile, 0o644);
        return () => chmodSync(pinFile, 0o600);
      },
      says: /✗ PIN of local\/sandbox-2026: .*open to others\n {4}→ .*chmod o=/,
    },
    {
      name: 'the store of another log',
      breaks: () => edit(sandbox, (text) => text.replace('sandbox/2026"', 'sandbox/2027"')),
      says: /✗ store: .*log\.origin/,
    },
    {
      name: 'another quorum than the log has',
      breaks: () => edit(sandbox, (text) => text.replace('authorities = ["built-in"]', 'authorities = []')),
      says: /✗ epoch: .*timestamp\.authorities/,
    },
    {
      name: 'a certificate that is gone',
      breaks: () => {
        const file = join(sandbox.dir, 'state/certificates/local_timestamp-2026.pem');
        const text = readFileSync(file, 'utf8');
        writeFileSync(file, 'nothing');
        return () => writeFileSync(file, text);
      },
      says: /✗ certificate of local\/timestamp-2026: /,
    },
  ];
  const good = await check(sandbox);
  t.match(good, { status: 0, stdout: /^✓ config: .*\n[\s\S]*\.toml: good\n$/ });
  for (const { name, breaks, says } of cases) {
    const mend = await breaks();
    const [found, start] = [await check(sandbox), await sandbox.pdfseald()];
    mend();
    t.match(found, { status: 1, stdout: says }, name);
    t.match(found.stdout, /the daemon would refuse to start\n$/, name);
    t.equal(start.status, 1, `${name}: ${start.stderr}`);
  }

  const old = issueCertificate(sandbox.dir, 'old', authority, 1);
  const mend = withTls(old);
  t.match(await check(sandbox), {
    status: 0,
    stdout: /! certificate http\.tls \(server\): .*[\s\S]*good, except for the warnings above\n$/,
  });
  mend();
  const daemon = await sandbox.start();
  t.match(await check(sandbox), { status: 0, stdout: /✓ address .*: not tried, because a daemon runs/ });
  const ofDaemon = await sandbox.pdfseald(['--check-config', '--config', sandbox.configFile]);
  // The daemon seals its first leaves meanwhile.
  const steady = (text: string) =>
    text.replace(/hash engine: .*/, '').replace(/\d+ leaves, \d+ jobs wait/, '');
  t.equal(ofDaemon.status, 0);
  t.equal(steady(ofDaemon.stdout), steady((await check(sandbox)).stdout), 'the same by its other name');
  t.equal(await daemon.stop(), 0);
});

t.test('before the first start, check-config warns of a missing store and an unchecked PIN', async (t) => {
  const sandbox = await openSandbox({ init: false });
  t.teardown(() => sandbox.close());
  t.match(await check(sandbox), { status: 0, stdout: /! store: .* does not exist yet\n {4}→ .*init/ });

  edit(sandbox, (text) => text.replace(/pin_file = .*/, 'pin_credential = "pin_eu"'));
  const byHand = await check(sandbox);
  const names = `${join(sandbox.dir, 'sandbox.pins/eu')} \\(credential pin_eu\\)`;
  t.match(byHand, {
    status: 0,
    stdout: new RegExp(`! PIN of .*: not checked: .*${names}.*\\n {4}→ pdfseal-run sandbox check-config`),
  });
  const credentials = join(sandbox.dir, 'credentials');
  const env = { CREDENTIALS_DIRECTORY: credentials };
  const asUnit = () => sandbox.pdfseal(['check-config', '--config', sandbox.configFile], { env });
  t.match(
    await asUnit(),
    { status: 1, stdout: /✗ PIN of .*: cannot open the PIN file .*pin_eu/ },
    'as the unit',
  );
  t.match(await sandbox.pdfseald(), { status: 1, stderr: /pin_credential: cannot read/ }, 'and as a start');

  writeFileSync(join(sandbox.dir, 'eu.sock'), '');
  const withSigner = { env: { ...env, PDFSEALD_SIGNERS: sandbox.dir } };
  t.match(
    await sandbox.pdfseal(['check-config', '--config', sandbox.configFile], withSigner),
    { status: 0, stdout: /✓ PIN of .*: only its signer has it, which answers at .*eu\.sock/ },
    'a signer with a unit of its own',
  );
});

t.test('a reload is refused for a TLS key that is not that of its certificate', async (t) => {
  const sandbox = await openSandbox({ init: false });
  t.teardown(() => sandbox.close());
  const authority = makeAuthority(sandbox.dir, 'authority');
  const [pair, other] = ['server', 'other'].map((name) => issueCertificate(sandbox.dir, name, authority));
  edit(sandbox, (text) =>
    text.replace(
      '[log]',
      `[http.tls]\ncertificate_file = "${pair?.certificateFile}"\nkey_file = "${join(sandbox.dir, 'tls.key')}"\n[log]`,
    ),
  );
  const put = (key = '') => writeFileSync(join(sandbox.dir, 'tls.key'), readFileSync(key), { mode: 0o600 });
  put(pair?.keyFile);
  t.match(await check(sandbox, '--reload'), { status: 0 }, 'neither log nor PIN is looked at');
  put(other?.keyFile);
  t.match(await check(sandbox, '--reload'), { status: 1, stdout: /✗ TLS pair: .*cannot be used together/ });
  edit(sandbox, (text) => text.replace('[log]', 'listens = 1\n[log]'));
  t.match(await check(sandbox, '--reload'), { status: 1, stderr: /listens/ });
});

t.test('check-config --json prints one object per line', async (t) => {
  const sandbox = await openSandbox({ init: false });
  t.teardown(() => sandbox.close());
  const { stdout } = await check(sandbox, '--json');
  const lines = stdout.trimEnd().split('\n');
  for (const line of lines) t.match(JSON.parse(line), { check: String, verdict: /^(good|warning)$/ });
});
