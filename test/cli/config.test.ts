import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { loadConfig, parseConfig } from '../../src/config/config.ts';
import { effectiveSettings } from '../../src/config/effective.ts';
import { hidesSecrets, spelledSettings, toTomlLines } from '../../src/config/settingsToml.ts';
import type { AdminStatus } from '../../src/health/statusSchema.ts';
import { askAdmin } from '../support/admin.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

/** Every kind of value: relative paths, sockets, names with dots, blanks and quotes, tables in tables, what is unlimited. */
const ODD = `
environment = "odd"
state_dir = "../state"
compliance_mode = true
retention.document_hours = 1_000
[http]
listen = ["unix:/run/odd/seal.sock", "[::1]:8400"]
public_url = "https://seal.example.com/"
tls = { certificate_file = "tls/cert.pem", key_credential = "tls_key" }
[admin]
listen = "unix:admin.sock"
[limits]
document_bytes_max = "64MiB"
rate = { requests = 60, window = "60s" }
[quotas."monthly \\"statements\\" 1.5"]
jobs = 5
[quotas.default]
jobs = "unlimited"
[clients.invoices]
quotas.default = { jobs = 7 }
[clients.orders.rate]
requests = "unlimited"
[hash]
cross_check = 1
[log]
origin = "seal.example.com/odd"
last_checkpoint_file = "/elsewhere/last"
[kms]
quorum = "2 of eu, us"
[[kms.partitions]]
region = "eu"
module = "module.so"
token_serial = "0123"
key_label = "key"
pin_file = "pins/eu"
environment = { CONF = "a\\tb", "ODD.NAME" = "x", VENDOR_PIN = "secret" }
[[kms.partitions]]
region = "us"
module = "/module.so"
token_label = "tökén"
key_label = "key"
pin_credential = "pin_us"
[timestamp]
authorities = ["acme"]
[timestamp.remotes.acme]
url = "https://tsa.example.com"
roots_file = "roots.pem"
[clock]
trust = "system"
[organizations.acme]
`;

function effective(file: string) {
  const config = loadConfig(file, { files: 'unused' });
  return { settings: effectiveSettings(config), config };
}

/** Where the source of a credential lies is told from the place of the file. */
function withoutPlace(config: object): unknown {
  return JSON.parse(JSON.stringify(config, (name, value) => (name === 'pinSource' ? '' : value)));
}

t.test('the shown settings are read back as the same configuration from any folder', async (t) => {
  const dir = t.testdir({ conf: { 'odd.toml': ODD.replace('VENDOR_PIN = "secret"', 'VENDOR = "y"') } });
  for (const file of ['config/sandbox.toml', 'config/production.toml', join(dir, 'conf/odd.toml')]) {
    const { settings, config } = effective(file);
    const { file: _, sha256: __, document: ___, ...expected } = config;
    for (const [name, shown] of [
      ['all', settings],
      ['changed', settings.filter(({ changed }) => changed)],
    ] as const) {
      const text = toTomlLines(shown).join('\n');
      const { file, sha256, document, ...found } = parseConfig(text, '/somewhere/else.toml');
      t.strictSame(withoutPlace(found), withoutPlace(expected), `${config.file}: ${name}`);
    }
    t.notOk(hidesSecrets(settings));
  }
});

t.test('each setting is shown with its source, and whether it differs from its default', async (t) => {
  const dir = t.testdir({ 'odd.toml': ODD });
  const { settings } = effective(join(dir, 'odd.toml'));
  const at = (...path: (string | number)[]) => settings.find((one) => one.path.join() === path.join());
  t.match(at('limits', 'document_bytes_max'), { value: '64MiB', source: 'file', changed: true });
  t.match(at('limits', 'rate', 'window'), { value: '60s', source: 'file', changed: false }, 'as long as 1m');
  t.match(at('limits', 'queue_jobs_max'), { value: 50_000, source: 'default', changed: false });
  t.match(at('scan', 'clamd'), { value: undefined, source: 'unset' });
  t.match(at('clock', 'program'), { value: undefined, source: 'unset' }, 'no program is asked');
  t.match(at('kms', 'partitions', 0, 'pin_file'), { value: join(dir, 'pins/eu'), source: 'file' });
  t.match(at('admin', 'listen'), { value: `unix:${join(dir, 'admin.sock')}` });
  const text = toTomlLines(settings).join('\n');
  t.notMatch(text, 'secret"', 'no value of a variable that looks like a secret');
  t.match(text, '"(not shown)"');
  t.ok(hidesSecrets(settings));
});

t.test('a secret is not shown, whatever a vendor calls it', async (t) => {
  const names = ['VENDOR_PIN', 'HSM_PWD', 'ACCESS_KEY', 'API_AUTH', 'n3_PASSPHRASE', 'session_token'];
  for (const name of names) {
    const setting = {
      path: ['environment'],
      value: { CONF: 'a', [name]: 'hidden' },
      source: 'file',
      changed: true,
    } as const;
    t.strictSame(toTomlLines([setting]).join().includes('hidden'), false, name);
    t.ok(hidesSecrets([setting]), name);
    const shown = spelledSettings([{ ...setting, key: 'environment', next: { value: setting.value } }], {
      isWhole: true,
    });
    const value = `{ CONF = "a", ${name} = "(not shown)" }`;
    t.match(shown, [{ key: 'environment', value, source: 'file', next: { value } }]);
  }
});

t.test('a secret inside a URL or a PKCS #11 URI is not shown', async (t) => {
  const cases: [value: unknown, spelled: string][] = [
    ['https://tsa.example/tsr?apikey=hidden', '"https://tsa.example/tsr?(not shown)"'],
    [['https://tsa.example/a?hidden', 'b?c'], '["https://tsa.example/a?(not shown)", "b?c"]'],
    [{ P11_URI: 'pkcs11:token=a;pin-value=hidden' }, '{ P11_URI = "(not shown)" }'],
    ['https://tsa.example/tsr', '"https://tsa.example/tsr"'],
  ];
  for (const [value, spelled] of cases) {
    const setting = { path: ['one'], value, source: 'file', changed: true } as const;
    t.match(spelledSettings([{ ...setting, key: 'one' }], { isWhole: true }), [{ value: spelled }]);
    t.notMatch(toTomlLines([setting]).join(), 'hidden');
    t.equal(hidesSecrets([setting]), spelled.includes('(not shown)'), spelled);
  }
});

t.test('a path of a URL and a variable are shown to administrators only', async (t) => {
  const shown = (value: unknown, isWhole: boolean) =>
    spelledSettings([{ path: ['one'], key: 'one', value, source: 'file', changed: true }], { isWhole })[0]
      ?.value;
  const pin = 'pkcs11:token=a;PIN-value=1234';
  for (const isWhole of [true, false]) {
    t.equal(shown(pin, isWhole), '"(not shown)"');
    t.equal(shown({ P11_URI: pin }, isWhole), '{ P11_URI = "(not shown)" }');
    t.equal(shown(['a', 'pkcs11:pin-source=/pin'], isWhole), '["a", "(not shown)"]');
    t.equal(shown('https://tsa.example', isWhole), '"https://tsa.example"');
    t.equal(shown('unix:/run/a.sock', isWhole), '"unix:/run/a.sock"');
  }
  const url = 'https://tsa.example:8443/S3CRET/tsr';
  t.equal(shown(url, true), `"${url}"`);
  t.equal(shown(url, false), '"https://tsa.example:8443/…"');
  t.equal(shown('postgresql://db.example/log?x=S3CRET', false), '"postgresql://db.example/…"');
  t.equal(shown({ CONF: 'a' }, true), '{ CONF = "a" }');
  t.equal(shown({ CONF: 'a' }, false), '{ CONF = "(not shown)" }');
});

t.test('config show warns if the running daemon has loaded another content of the file', async (t) => {
  const sandbox = await openSandbox();
  t.teardown(() => sandbox.close());
  const show = (...args: string[]) =>
    sandbox.pdfseal(['config', 'show', '--config', sandbox.configFile, ...args]);
  t.match(await show(), {
    status: 0,
    stdout: /\n\[\[kms\.partitions\]\]\nregion = "local" +# file\n/,
    stderr: '',
  });
  const daemon = await sandbox.start();
  t.match(await show('--changed'), { status: 0, stderr: '' }, 'the same content');

  const text = readFileSync(sandbox.configFile, 'utf8');
  const edited = text.replace('[limits]', '[limits]\nqueue_jobs_max = 7\ndocument_bytes_max = "1MiB"');
  writeFileSync(sandbox.configFile, edited);
  t.match(
    (await show()).stderr,
    /^pdfseal: .*sandbox\.toml has changed since the running daemon loaded it at .*Z: reload the daemon/,
  );

  daemon.child.kill('SIGHUP');
  const loaded = async () => (await askAdmin(sandbox, '/status')).json<AdminStatus>().config;
  await until('it is read again', async () => (await loaded()).pending.length > 0);
  t.strictSame((await loaded()).pending, ['limits.document_bytes_max']);
  const { stdout, stderr } = await show('--changed', '--json');
  t.strictSame(JSON.parse(stderr), {
    note: 'pdfseal: these keys take effect when you restart the daemon: limits.document_bytes_max',
  });
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  t.match(
    lines.find(({ key }) => key === 'limits.queue_jobs_max'),
    { value: 7, source: 'file', changed: true },
  );
  const doctor = await sandbox.pdfseal(['doctor', '--config', sandbox.configFile]);
  t.match(doctor.stdout, /^! configuration: these keys take effect when you restart the daemon/m);
});
