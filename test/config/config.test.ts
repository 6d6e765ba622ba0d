import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { OperatorError } from '../../src/base/errors.ts';
import { type Config, loadConfig, parseConfig } from '../../src/config/config.ts';
import { everyKey, meaningOf } from '../../src/config/document.ts';
import { mergeConfig, settingsInEffect } from '../../src/config/reload.ts';
import { encodeVkey } from '../../src/log/verifierKey.ts';
import { makeKey } from '../support/sealing.ts';
import { makeTls } from '../support/sources.ts';
import litewitness from '../vectors/witness/litewitness.json' with { type: 'json' };

const MINIMAL = `timestamp.authorities = []
environment = "test"
state_dir = "state"
[log]
origin = "seal.example.com/test/2026"
[[kms.partitions]]
region = "one"
module = "module.so"
token_label = "token"
key_label = "key"
pin_file = "pin"
`;

t.test('the shipped files load', async (t) => {
  const sandbox = loadConfig('config/sandbox.toml', { files: 'unused' });
  t.equal(sandbox.environment, 'sandbox');
  t.equal(sandbox.limits.documentBytesMax, 64 * 2 ** 20);
  const production = loadConfig('config/production.toml', { files: 'unused' });
  t.match(production, {
    http: { listen: [{ host: '127.0.0.1', port: 8400 }], publicUrl: 'https://seal.example.com' },
    kms: { quorum: { needed: 1 }, partitions: [{ region: 'eu-west' }, { region: 'eu-north' }] },
    timestamp: {
      authorities: ['built-in'],
      keys: [{ keyLabel: 'timestamp-2026' }],
    },
    clock: { trust: 'chrony', program: '/usr/bin/chronyc' },
    scan: { clamd: { path: '/run/clamav/clamd.ctl' }, connectionsMax: 64, encrypted: 'refuse' },
    organizations: { acme: { partners: ['beta'] } },
    policies: {
      rate: { requests: 12_000, windowMs: 60_000 },
      quotas: { default: { jobs: Number.POSITIVE_INFINITY, windowMs: 86_400_000 } },
      clients: { invoices: { rate: { requests: 6000 }, quotas: { default: { jobs: 1_000_000 } } } },
    },
  });
});

t.test('a configuration without keys and with a database is that of a front', (t) => {
  t.ok(loadConfig('config/front.toml', { files: 'unused' }).isFront);
  const store = '[store]\nengine = "postgresql"\nurl = "postgresql:///pdfseal?host=/run/postgresql"\n';
  const front = `environment = "test"\nstate_dir = "state"\n[log]\norigin = "seal.example.com/test/2026"\n`;
  t.match(parseConfig(front + store, 'test.toml'), { isFront: true, kms: { partitions: [] } });
  t.match(parseConfig(MINIMAL + store, 'test.toml'), { isFront: false });
  const refused: [text: string, message: RegExp][] = [
    [front, /kms: missing/],
    [`${front}${store}[console]\n`, /console: .*no console on a front/],
    [`${front}${store}[kms]\nquorum = 1\n`, /kms\.partitions: missing|timestamp: missing/],
    [`${MINIMAL.replace(/\[\[kms.*/s, '')}[kms]\npartitions = []\n${store}`, /at least one/],
  ];
  for (const [text, message] of refused)
    t.throws(() => parseConfig(text, 'test.toml'), { name: 'OperatorError', message }, text);
  t.end();
});

t.test('production.toml explains every key with its default', async (t) => {
  const text = readFileSync('config/production.toml', 'utf8');
  const names = everyKey().flatMap(({ table, name }) => [name, ...(/\w+(?=\]+$)/.exec(table) ?? [])]);
  t.ok(names.length > 30, 'the schema was walked to its leaves');
  for (const name of names)
    t.match(text, new RegExp(`^(# )?${name} = |^(# )?\\[+.*\\b${name}\\b`, 'm'), name);

  // A table in comments is an example: there is none by default.
  const keys = text.replaceAll(/^# \[.*\n(#.*\n)*/gm, '');
  const uncommented = keys.replaceAll(/^# (\w+ = .*)$/gm, (line, key) =>
    WITHOUT_DEFAULT.test(key) ? line : key,
  );
  const defaults = parseConfig(text, 'config/production.toml');
  const config = parseConfig(uncommented, 'config/production.toml');
  const hash = { ...config.hash, workers: defaults.hash.workers };
  t.strictSame({ ...config, hash, document: defaults.document, sha256: defaults.sha256 }, defaults);
});

/** Of two keys either, and files that are there only where somebody put one. */
const WITHOUT_DEFAULT =
  /^(token_serial|pin_file|public_key_file|password_\w+|acceptance_key_\w+|url|library_parameters|algorithm|ca_file|policy(?= = "[^"]*\.policy")) /;

t.test('defaults, units and relative paths are resolved', async (t) => {
  const config = parseConfig(MINIMAL, '/etc/pdfseal/test.toml');
  t.match(config, {
    file: '/etc/pdfseal/test.toml',
    store: { engine: 'lmdb', path: '/etc/pdfseal/state/store' },
    diskDir: '/etc/pdfseal/state/store',
    lockFile: '/etc/pdfseal/state/lock',
    trustFile: '/etc/pdfseal/state/trust.json',
    drainTimeoutMs: 30_000,
    http: {
      listen: [{ host: '127.0.0.1', port: 8400 }],
      clearTextBeyondLoopback: false,
      publicUrl: 'http://127.0.0.1:8400',
      uploadsPerClientMax: 512,
    },
    limits: { documentBytesMax: 2 ** 30, queueJobsMax: 50_000 },
    sealing: { giveUpAfterMs: 24 * 3_600_000, batchJobsMax: 4096 },
    kms: { partitions: [{ module: '/etc/pdfseal/module.so', pinFile: '/etc/pdfseal/pin' }] },
    logging: { level: 'info' },
  });
  t.ok(config.hash.workers >= 1);
  t.match(config.hash, { engine: 'auto', crossCheckShare: 0.01 });
  t.throws(
    () => Object.assign(config.kms.partitions[0] ?? {}, { region: 'two' }),
    TypeError,
    'frozen to the leaves',
  );
});

t.test('the store is in state_dir, or in PostgreSQL over a safe connection', async (t) => {
  const at = (lines: string) => parseConfig(`${MINIMAL}[store]\n${lines}`, '/etc/pdfseal/test.toml').store;
  t.strictSame(at(''), { engine: 'lmdb', path: '/etc/pdfseal/state/store' });
  const socket = 'postgresql:///pdfseal?host=/run/postgresql';
  const remote = 'postgresql://pdfseal@db1.example.com:5433/pdfseal?sslmode=verify-full';
  for (const url of [
    socket,
    `${socket}&port=5433&user=pdfseal`,
    'postgres://%2Frun%2Fpostgresql/pdfseal',
    remote,
    `${remote}&sslrootcert=/etc/ca.pem`,
    'postgresql://[2001:db8::1]/pdfseal?sslmode=verify-full',
  ])
    t.strictSame(at(`engine = "postgresql"\nurl = "${url}"`), { engine: 'postgresql', urls: [url] }, url);
  t.strictSame(at(`engine = "postgresql"\nurl = ["${socket}", "${remote}"]\npassword_file = "secret"`), {
    engine: 'postgresql',
    urls: [socket, remote],
    passwordFile: '/etc/pdfseal/secret',
  });
  t.match(at(`engine = "postgresql"\nurl = "${remote}"\npassword_credential = "db"`), {
    passwordFile: '/run/credentials/pdfseald@test.service/db',
  });
  t.match(at(`engine = "postgresql"\nurl = "${socket}"\nacceptance_key_file = "acceptance"`), {
    acceptanceKeyFile: '/etc/pdfseal/acceptance',
  });
  t.match(at(`engine = "postgresql"\nurl = "${socket}"\nacceptance_key_credential = "pin_acceptance"`), {
    acceptanceKeyFile: '/run/credentials/pdfseald@test.service/pin_acceptance',
  });

  t.throws(() => parseConfig(`${MINIMAL}\n[http]\nreuse_port = true`, '/etc/pdfseal/test.toml'), {
    message: /http\.reuse_port: .*; expected false while store\.engine is "lmdb"/,
  });
  const url = (text: string) => `engine = "postgresql"\nurl = "${text}"`;
  const refused: [lines: string, message: RegExp][] = [
    ['engine = "postgresql"', /store\.url: missing; expected the URL of the database/],
    [`url = "${socket}"`, /store\.url: .*; expected nothing while store\.engine is "lmdb"/],
    ['engine = "postgresql"\nurl = []', /expected the URL of a PostgreSQL database, or a list/],
    [`engine = "postgresql"\nurl = ["${socket}", "${socket}"]`, /or a list of them, one for each server/],
    [url('mysql://db/pdfseal'), /expected a URL such as "postgresql:/],
    [url('postgresql:///?host=/run/postgresql'), /the path names the database/],
    [url('postgresql:///pdfseal'), /host names the folder of its Unix socket, or a server/],
    [url('postgresql:///pdfseal?host=a.example,b.example'), /one host; a list of URLs/],
    [url(`${socket}&port=0`), /a port from 1 to 65535/],
    [url(`postgresql:///pdfseal?host=/${'x'.repeat(100)}`), /at most 107 bytes/],
    [url(`${socket}&sslmode=verify-full`), /no TLS on a Unix socket/],
    [url('postgresql://db1.example.com/pdfseal'), /sslmode=verify-full, because the server is reached over/],
    [url('postgresql://localhost/pdfseal?sslmode=require'), /sslmode=verify-full, because/],
    [url(`${remote}&sslrootcert=ca.pem`), /the absolute path of a PEM file/],
    [
      url(`${remote}&options=-cfsync=off`),
      /a URL whose parameters are host, port, user, sslmode, sslrootcert/,
    ],
    [url(`${socket}&host=/tmp`), /each at most once/],
    [
      `${url(remote)}\npassword_file = "a"\npassword_credential = "b"`,
      /either password_file or password_credential/,
    ],
    [
      `${url(remote)}\nacceptance_key_file = "a"\nacceptance_key_credential = "b"`,
      /either acceptance_key_file or acceptance_key_credential/,
    ],
    [
      'acceptance_key_file = "a"',
      /store\.acceptance_key_file: .*; expected nothing while store\.engine is "lmdb"/,
    ],
  ];
  for (const [lines, message] of refused) t.throws(() => at(lines), { message }, lines);

  t.throws(
    () => parseConfig(`compliance_mode = true\n${MINIMAL}[store]\n${url(remote)}`, '/etc/pdfseal/test.toml'),
    { message: /compliance_mode: .*; expected false while store\.engine is "postgresql"/ },
  );

  for (const secret of ['postgresql://u:s3cr3t@db/d?sslmode=verify-full', `${socket}&password=s3cr3t`]) {
    const error = (() => {
      try {
        return at(url(secret));
      } catch (error) {
        return error;
      }
    })();
    t.match(error, { message: /a URL without a password: store\.password_file or store\.password_cred/ });
    t.notMatch(String(error), 's3cr3t');
  }
});

t.test('former names of keys and of a file still work, and are reported', async (t) => {
  const dir = t.testdir({ state: {} });
  const read = (inLog: string) =>
    parseConfig(MINIMAL.replace('[log]', `[log]\n${inLog}`), join(dir, 'pdfseal.toml'));
  const state = join(dir, 'state');
  t.match(read(''), { log: { lastCheckpointFile: join(state, 'last-checkpoint') }, formerNames: [] });
  const former = read('witness_file = "../seen/x"\nwitness_interval = "3s"');
  t.match(former, {
    log: { lastCheckpointFile: join(dir, '../seen/x'), lastCheckpointIntervalMs: 3000 },
    formerNames: [
      /^log.witness_file is now called log.last_checkpoint_file/,
      /^log.witness_interval is now called log.last_checkpoint_interval/,
    ],
  });
  const present = read('last_checkpoint_file = "../seen/x"\nlast_checkpoint_interval = "3s"');
  t.strictSame(meaningOf(former.document), meaningOf(present.document));
  t.strictSame(present.formerNames, []);
  const both = 'witness_interval = "3s"\nlast_checkpoint_interval = "3s"';
  t.throws(() => read(both), { message: /:5: log.witness_interval: unknown key/ });
  t.throws(() => read('witness_interval = 3'), {
    message: /log.last_checkpoint_interval: found 3; expected how often/,
  });

  writeFileSync(join(state, 'witness'), '');
  t.match(read(''), {
    log: { lastCheckpointFile: join(state, 'witness') },
    formerNames: [/witness is now called last-checkpoint: rename it while the daemon is stopped$/],
  });
  t.match(read('last_checkpoint_file = "seen"').formerNames, []);
  writeFileSync(join(state, 'last-checkpoint'), '');
  t.match(read(''), { log: { lastCheckpointFile: join(state, 'last-checkpoint') }, formerNames: [] });
});

t.test('addresses are ports, sockets and hosts, and others are refused', async (t) => {
  const at = (http: string) => parseConfig(`${MINIMAL}\n[http]\n${http}`, 'c.toml').http;
  t.match(at('listen = "[::1]:0"'), { listen: [{ host: '::1', port: 0 }], publicUrl: 'http://[::1]:0' });
  t.match(at('listen = ["unix:/run/a.sock", "localhost:1"]'), {
    listen: [{ path: '/run/a.sock' }, { host: 'localhost', port: 1 }],
    publicUrl: 'http://localhost:1',
  });
  const tls = '[http.tls]\ncertificate_file = "a.pem"\nkey_file = "a.key"';
  t.match(at(`listen = "192.0.2.1:443"\n${tls}\nclient_ca_file = "/c.pem"`), {
    publicUrl: 'https://192.0.2.1:443',
    tls: { certificateFile: join(process.cwd(), 'a.pem'), clientCaFile: '/c.pem' },
  });
  t.match(at('listen = "192.0.2.1:80"\nclear_text_beyond_loopback = true'), {
    publicUrl: 'http://192.0.2.1:80',
  });
  t.match(at('public_url = "https://a.example/seal/"'), { publicUrl: 'https://a.example/seal' });
});

t.test('[webhooks] has defaults, and wrong values are refused', async (t) => {
  const at = (text: string) => parseConfig(`${MINIMAL}\n[webhooks]\n${text}`, '/etc/c.toml').webhooks;
  const hour = 3_600_000;
  t.strictSame(at(''), {
    allow: [],
    inFlightMax: 32,
    perEndpointMax: 4,
    timeoutMs: 15_000,
    retryDelaysMs: [5000, 300_000, hour / 2, ...[2, 5, 10, 14, 20, 24].map((hours) => hours * hour)],
    probeIntervalMs: 60_000,
    backlogMax: 50_000,
    deadLetterMs: 30 * 24 * hour,
    publicCas: false,
  });
  t.match(at('backlog_max = 60_000'), { backlogMax: 60_000 });
  t.match(at('backlog_max = 1'), { backlogMax: 50_000 }, 'as many as jobs may wait');
  t.match(at('ca_file = "ca.pem"\nretries = []'), { caFile: '/etc/ca.pem', retryDelaysMs: [] });
  const refused: [text: string, message: RegExp][] = [
    ['allow = "https://a.example"', /webhooks\.allow: .* expected a list of origins and networks/],
    ['allow = ["a.example"]', /webhooks\.allow\[0\]: found "a.example"; expected an origin/],
    ['retries = ["5"]', /webhooks\.retries\[0\]: found "5"; expected the delay before a retry: a duration/],
    ['backlog_max = 0', /webhooks\.backlog_max: found 0/],
  ];
  for (const [text, message] of refused) t.throws(() => at(text), { message }, text);
});

t.test('the address of clamd is a socket or a host with a port', async (t) => {
  const at = (clamd: string) => parseConfig(`${MINIMAL}\n[scan]\nclamd = "${clamd}"`, 'c.toml').scan.clamd;
  t.strictSame(at('unix:/run/clamav/clamd.ctl'), { path: '/run/clamav/clamd.ctl' });
  t.strictSame(at('tcp:127.0.0.1:3310'), { host: '127.0.0.1', port: 3310 });
  t.strictSame(at('tcp:[::1]:3310'), { host: '::1', port: 3310 });
  t.equal(parseConfig(MINIMAL, 'c.toml').scan.clamd, undefined);
  for (const wrong of [
    '',
    '/run/clamd.ctl',
    'unix:clamd.ctl',
    'tcp:3310',
    'tcp:a:0',
    `unix:/${'x'.repeat(107)}`,
  ]) {
    t.throws(() => at(wrong), { message: /scan\.clamd: found .*; expected where clamd listens/ }, wrong);
  }
  for (const other of ['{}', '["unix:/run/clamav/clamd.ctl"]', '{ path = "/run/clamav/clamd.ctl" }']) {
    const text = `${MINIMAL}\n[scan]\nclamd = ${other}`;
    t.throws(
      () => parseConfig(text, 'c.toml'),
      { name: 'OperatorError', message: /scan\.clamd: .*expected/ },
      other,
    );
  }
});

t.test('the administration listens on a socket, and on a loopback port if configured', async (t) => {
  const at = (listen: string) =>
    parseConfig(`${MINIMAL}\n[admin]\nlisten = "${listen}"`, '/etc/c.toml').admin;
  t.strictSame(parseConfig(MINIMAL, '/etc/c.toml').admin, { socket: { path: '/etc/state/admin.sock' } });
  t.strictSame(at('unix:/run/a.sock'), { socket: { path: '/run/a.sock' } });
  t.strictSame(at('unix:a.sock'), { socket: { path: '/etc/a.sock' } });
  const socket = { path: '/etc/state/admin.sock' };
  t.strictSame(at('127.3.2.1:1'), { socket, port: { host: '127.3.2.1', port: 1 } });
  t.strictSame(at('[::1]:8401'), { socket, port: { host: '::1', port: 8401 } });
  for (const open of [
    '0.0.0.0:1',
    '[::]:1',
    '192.0.2.1:1',
    'localhost:1',
    '[::ffff:192.0.2.1]:1',
    '/run/a.sock',
    'unix:',
  ]) {
    t.throws(
      () => at(open),
      { message: /admin\.listen: found .*; expected "unix:" and the path of a socket/ },
      open,
    );
  }
});

t.test('the console listens next to the administration, or on loopback', async (t) => {
  const at = (lines: string) => parseConfig(`${MINIMAL}\n${lines}`, '/etc/pdfseal/test.toml').console;
  t.equal(at(''), undefined, 'there is none');
  const beside = { sealedPdfs: false, listen: { path: '/etc/pdfseal/state/console.sock' } };
  t.strictSame(at('[console]'), beside);
  t.strictSame(at('[console]\n[admin]\nlisten = "unix:/run/x/admin.sock"'), {
    sealedPdfs: false,
    listen: { path: '/run/x/console.sock' },
  });
  t.strictSame(at('[console]\nlisten = "127.0.0.1:8402"\nsealed_pdfs = true'), {
    sealedPdfs: true,
    listen: { host: '127.0.0.1', port: 8402 },
  });
  t.strictSame(at('[console]\nlisten = "unix:console.sock"'), {
    sealedPdfs: false,
    listen: { path: '/etc/pdfseal/console.sock' },
  });
  for (const address of ['0.0.0.0:8402', 'seal.example.com:8402', '8402'])
    t.throws(() => at(`[console]\nlisten = "${address}"`), { message: /console\.listen: .*loopback/ });
});

t.test('the console over TLS names the people whose certificates open it', async (t) => {
  const read = (lines: string) => parseConfig(`${MINIMAL}\n${lines}`, '/etc/pdfseal/test.toml');
  const tls =
    '[console.tls]\nlisten = "[::]:8443"\ncertificate_file = "a.pem"\nclient_ca_file = "c.pem"\nkey_file = "a.key"\n';
  t.match(read(tls), {
    console: {
      listen: { path: '/etc/pdfseal/state/console.sock' },
      tls: {
        listen: { host: '::', port: 8443 },
        keyFile: '/etc/pdfseal/a.key',
        clientCaFile: '/etc/pdfseal/c.pem',
      },
    },
    people: [],
  });
  const person = (certificate: string, name: string, role: string) =>
    `[[console.tls.people]]\ncertificate_name = "${certificate}"\nname = "${name}"\nrole = "${role}"\n`;
  const anna = person('CN=Anna', 'Anna e\u0301', 'auditor');
  t.strictSame(read(tls + anna).people, [
    { certificateName: 'CN=Anna', name: 'Anna \u00e9', role: 'auditor' },
  ]);
  t.match(read(tls.replace('key_file = "a.key"', 'key_credential = "console-key"')).console, {
    tls: { keyFile: '/run/credentials/pdfseald@test.service/console-key' },
  });
  for (const [lines, message] of [
    [tls.replace('key_file = "a.key"\n', ''), /console\.tls\.key_file: .*either key_file or key_credential/],
    [tls.replace('client_ca_file = "c.pem"\n', ''), /console\.tls\.client_ca_file: missing/],
    [tls.replace('"[::]:8443"', '"unix:/run/x.sock"'), /console\.tls\.listen: .*an address with a port/],
    [tls + anna + anna, /people\[1\]\.certificate_name: .*each certificate once/],
    [tls + person('CN=Eve', 'Eve\u202e', 'auditor'), /people\[0\]\.name: .*letters that can be seen/],
    [tls + person('CN=Eve', 'Eve', 'root'), /people\[0\]\.role: .*one of auditor/],
  ] as const)
    t.throws(() => read(lines), { message });
});

t.test('authorities must be configured, and named once', async (t) => {
  const AUTHORITIES = 'timestamp.authorities = []';
  const refused: [list: string, expected: RegExp][] = [
    ['["built-in"]', /expected a key for the built-in authority: \[\[timestamp.keys\]\]/],
    ['["acme"]', /timestamp\.authorities\[0\]: found "acme"; expected "built-in" or the name/],
    ['["__proto__"]', /timestamp\.authorities\[0\]/],
    ['"built-in"', /expected a list in the order of preference/],
  ];
  for (const [list, expected] of refused) {
    const text = MINIMAL.replace(AUTHORITIES, `timestamp.authorities = ${list}`);
    t.throws(() => parseConfig(text, 'c.toml'), { message: expected }, list);
  }
  t.throws(
    () => parseConfig(MINIMAL.replace(AUTHORITIES, ''), 'c.toml'),
    { message: /timestamp/ },
    'going without is said explicitly',
  );
  const remote = '\n[timestamp.remotes.acme]\nurl = "http://127.0.0.1:1/"\nroots_file = "roots.pem"\n';
  const twice = MINIMAL.replace(AUTHORITIES, 'timestamp.authorities = ["acme", "acme"]') + remote;
  t.throws(() => parseConfig(twice, 'c.toml'), { message: /each authority once/ });
  const byFile = '\n[timestamp.remotes.acme]\nroots_file = "roots.pem"\n';
  t.match(parseConfig(MINIMAL + byFile, 'c.toml').timestamp.remotes, { acme: { url: undefined } });
  t.throws(
    () => parseConfig(MINIMAL.replace(AUTHORITIES, 'timestamp.authorities = ["acme"]') + byFile, 'c.toml'),
    {
      message: /timestamp\.authorities\[0\]: found "acme"; expected an authority with a url/,
    },
  );
  const clock = (text: string) => parseConfig(`${MINIMAL}\n[clock]\n${text}`, '/etc/c.toml').clock;
  t.strictSame(clock('trust = "system"'), { trust: 'system' });
  t.strictSame(clock('trust = "timedatectl"\nprogram = "bin/t"'), {
    trust: 'timedatectl',
    program: '/etc/bin/t',
  });
});

t.test('a fault is reported with file, line, key, the value found and the one expected', async (t) => {
  const cases: [name: string, edit: (text: string) => string, ...expected: string[]][] = [
    [
      'unknown key',
      (s) => s.replace('[log]', '[log]\norigins = 1'),
      'c.toml:5: log.origins: unknown key',
      'origin, public',
    ],
    ['unknown table', (s) => `${s}[htpp]\n`, 'c.toml:12: htpp: unknown key'],
    [
      'missing key',
      (s) => s.replace(/origin.*/, ''),
      'c.toml:4: log.origin: missing; expected the origin line',
    ],
    ['missing table', (s) => s.replace(/\[log\]\n.*/, ''), 'c.toml: log: missing; expected a table'],
    ['wrong type', (s) => s.replace('"test"', '3'), 'c.toml:2: environment: found 3; expected the name'],
    [
      'origin with a scheme',
      (s) => s.replace('origin = "', 'origin = "https://'),
      'c.toml:5: log.origin: found',
    ],
    [
      'origin with a control character, which no signed note can have',
      (s) => s.replace('origin = "', String.raw`origin = "\u0007`),
      'c.toml:5: log.origin: found',
    ],
    ['underscore', (s) => s.replace('"test"', '"a_b"'), 'c.toml:2: environment: found "a_b"'],
    [
      'number for a duration',
      (s) => `drain_timeout = 30\n${s}`,
      'c.toml:1: drain_timeout: found 30',
      '(units ms, s, m, h, d)',
    ],
    [
      'duration out of range',
      (s) => `drain_timeout = "2h"\n${s}`,
      'drain_timeout: found "2h"',
      'from "1s" to "1h"',
    ],
    [
      'size without unit',
      (s) => `${s}[limits]\ndocument_bytes_max = "10"`,
      'c.toml:13: limits.document_bytes_max: found "10"',
    ],
    [
      'unknown word',
      (s) => `${s}[hash]\nengine = "gpu"`,
      'hash.engine: found "gpu"',
      '"auto", "native" or "wasm"',
    ],
    ['percentage', (s) => `${s}[hash]\ncross_check = 5`, 'hash.cross_check: found 5', 'a number from 0 to 1'],
    ['fraction', (s) => `${s}[hash]\nworkers = 1.5`, 'hash.workers: found 1.5', 'a whole number from 1'],
    [
      'text for a flag',
      (s) => s.replace('[log]', '[log]\npublic = "yes"'),
      'c.toml:5: log.public: found "yes"',
      'without quotes',
    ],
    ['table for a value', (s) => `${s}[http.listen]\nport = 1`, 'http.listen: found a table'],
    ['value for a table', (s) => `http = 1\n${s}`, 'c.toml:1: http: found 1; expected a table'],
    [
      'an address of the network',
      (s) => `${s}[http]\nlisten = "192.0.2.1:80"`,
      'c.toml:13: http.listen: found "192.0.2.1:80"',
      'clear_text_beyond_loopback = true',
    ],
    [
      'the same address twice',
      (s) => `${s}[http]\nlisten = ["127.0.0.1:1", "127.0.0.1:1"]`,
      'http.listen: found a list',
      'or a list of them',
    ],
    [
      'every address',
      (s) => `${s}[http]\nclear_text_beyond_loopback = true\nlisten = "0.0.0.0:1"`,
      'http.public_url: missing',
      'does not tell it',
    ],
    [
      'TLS without a key',
      (s) => `${s}[http.tls]\ncertificate_file = "a"`,
      'http.tls.key_file: missing',
      'either key_file or key_credential',
    ],
    [
      'TLS with two keys',
      (s) => `${s}[http.tls]\ncertificate_file = "a"\nkey_file = "b"\nkey_credential = "c"`,
      'http.tls.key_file: found "b"',
      'only one',
    ],
    ['bad port', (s) => `${s}[http]\nlisten = "127.0.0.1:70000"`, 'http.listen: found "127.0.0.1:70000"'],
    [
      'public_url with /v1',
      (s) => `${s}[http]\npublic_url = "https://a.example/v1"`,
      'http.public_url',
      'without /v1',
    ],
    [
      'credentials in public_url',
      (s) => `${s}[http]\npublic_url = "https://a:b@a.example"`,
      'http.public_url',
    ],
    [
      'no partition',
      (s) => s.replace(/\[\[kms[\s\S]*/, '[kms]\npartitions = []'),
      'kms.partitions: found a list',
      'at least one',
    ],
    [
      'key of a partition',
      (s) => s.replace('key_label = "key"', 'key_label = 1'),
      'c.toml:10: kms.partitions[0].key_label',
    ],
    ['two token names', (s) => `${s}token_serial = "1"`, 'kms.partitions[0].token_label', 'only one of them'],
    [
      'no pin',
      (s) => s.replace(/pin_file.*/, ''),
      'c.toml:6: kms.partitions[0].pin_file: missing',
      'pin_credential',
    ],
    ['a pin in the file', (s) => `${s}pin = "1234"`, 'kms.partitions[0].pin: unknown key'],
    [
      'same key twice',
      (s) => s + s.slice(s.indexOf('[[')),
      'c.toml:16: kms.partitions[1].key_label',
      'one partition only',
    ],
    [
      'quorum',
      (s) => `${s.replace('[[kms', '[kms]\nquorum = 2\n[[kms')}`,
      'kms.quorum: found 2',
      '2 of 1 keys can never sign',
    ],
    [
      'uploads',
      (s) => `${s}[http]\nuploads_max = 5`,
      'http.uploads_per_client_max: found 512',
      'at most http.uploads_max',
    ],
    [
      'authorities of a renewal',
      (s) => `${s}[renewal]\nauthorities = 2`,
      'renewal.authorities: found 2',
      'at most the number of authorities',
    ],
    [
      'the last day of an algorithm',
      (s) => `${s}[[renewal.sunset]]\nalgorithm = "sha512"\nuntil = "2031-02-29"\nsource = "a"`,
      'renewal.sunset[0].until: found "2031-02-29"',
      'a date such as',
    ],
    ['rate', (s) => `${s}[limits.rate]\nrequests = 0`, 'limits.rate.requests: found 0', 'or "unlimited"'],
    ['rate window', (s) => `${s}[limits.rate]\nwindow = "2h"`, 'limits.rate.window: found "2h"', 'to "1h"'],
    ['quota', (s) => `${s}[quotas.default]\njobs = "no"`, 'c.toml:13: quotas.default.jobs: found "no"'],
    [
      'quota window',
      (s) => `${s}[quotas."a b"]\nwindow = "1m"`,
      'quotas.a b.window: found "1m"',
      'from "1h"',
    ],
    ['purpose', (s) => `${s}[quotas.${'x'.repeat(129)}]`, '1 to 128 characters'],
    ['client', (s) => `${s}[clients.A]`, 'clients.A', 'the name of a client'],
    ['key of a client', (s) => `${s}[clients.a]\nquota = 1`, 'clients.a.quota: unknown key', 'rate, quotas'],
    ['organization', (s) => `${s}[organizations.ACME]`, 'organizations.ACME', 'an organization name'],
    [
      'partners',
      (s) => `${s}[organizations.acme]\npartners = "beta"`,
      'organizations.acme.partners: found "beta"',
    ],
    ['level', (s) => `${s}[logging]\nlevel = "loud"`, 'logging.level: found "loud"; expected one of trace'],
    ['prototype', (s) => `${s}[__proto__]\na = 1`, 'c.toml:12'],
    ['syntax', (s) => s.replace('"test"', 'test'), 'c.toml:2', 'not TOML'],
  ];
  for (const [name, edit, ...expected] of cases) {
    const message = messageOf(() => parseConfig(edit(MINIMAL), 'c.toml'));
    for (const part of expected) t.ok(message.includes(part), name, { message, part });
    t.notMatch(message, /1234/, 'no value of an unknown key');
  }
});

t.test('all faults are reported at once, one per line', async (t) => {
  const message = messageOf(() => parseConfig('environment = 1\nstate = 2\n', 'c.toml'));
  t.strictSame(
    message
      .split('\n')
      .map((line) => line.split(': ')[1])
      .sort(),
    ['environment', 'kms', 'log', 'state', 'state_dir', 'timestamp'],
  );
});

t.test('missing files of the HSM are reported', async (t) => {
  const dir = t.testdir({ 'c.toml': MINIMAL, 'module.so': '' });
  const file = join(dir, 'c.toml');
  t.match(
    messageOf(() => loadConfig(file)),
    /c\.toml:11: kms\.partitions\[0\]\.pin_file: cannot read .*\/pin \(no such file or directory\)/,
  );
  t.doesNotThrow(() => loadConfig(file, { files: 'unused' }));
  mkdirSync(join(dir, 'pin'));
  t.match(
    messageOf(() => loadConfig(file)),
    /pin_file: cannot read .* \(not a file\)/,
  );
  t.match(
    messageOf(() => loadConfig(join(dir, 'none.toml'))),
    /none\.toml: cannot read the config file \(no such file or directory\)/,
  );
});

t.test('a file of certificate authorities must have certificates', async (t) => {
  const good = makeTls(t).cert;
  const dir = t.testdir({
    'module.so': '',
    pin: '1234',
    'good.pem': `Ours:\n${good}`,
    'none.pem': 'nothing',
  });
  writeFileSync(join(dir, 'bad.pem'), `${good}${good.replace(/MII.{20}/, 'MIIA')}`);
  const file = join(dir, 'c.toml');
  const faultsOf = (more: string): string => {
    writeFileSync(file, `${MINIMAL}\n${more}`);
    return messageOf(() => loadConfig(file));
  };
  for (const table of ['sources', 'webhooks']) {
    t.equal(faultsOf(`[${table}]\nca_file = "good.pem"`), '');
    const expected = 'expected a PEM file with certificates, readable to this user';
    const at = (name: string) => faultsOf(`[${table}]\nca_file = "${name}.pem"`);
    t.match(
      at('none'),
      new RegExp(`c\\.toml:14: ${table}\\.ca_file: there is no certificate in .*; ${expected}`),
    );
    t.match(
      at('bad'),
      new RegExp(`c\\.toml:14: ${table}\\.ca_file: certificate 2 of .*bad\\.pem cannot be read; ${expected}`),
    );
    t.match(at('away'), new RegExp(`${table}\\.ca_file: cannot read .*away\\.pem \\(no such file`));
  }
  const remote = '[timestamp.remotes.acme]\nurl = "https://tsa.example.com"\nroots_file = "good.pem"\n';
  t.match(
    faultsOf(`${remote}tls_ca_file = "none.pem"`),
    /remotes\.acme\.tls_ca_file: there is no certificate/,
  );
});

t.test('a faulty witness policy is reported with its line', async (t) => {
  const dir = t.testdir({ 'module.so': '', pin: '1234', 'c.toml': `${MINIMAL}\n[witness]\npolicy = "p"\n` });
  const faultOf = () => messageOf(() => loadConfig(join(dir, 'c.toml')));
  const where =
    /c\.toml:14: witness\.policy: .*; expected a witness policy \(C2SP tlog-policy\), readable to this user$/;
  t.match(faultOf(), where);
  t.match(faultOf(), /cannot read .*\/p \(no such file/);
  writeFileSync(join(dir, 'p'), '# nobody yet\nquorum any\n');
  t.match(faultOf(), where);
  t.match(faultOf(), /\/p is not a witness policy: line 2: "any" is not a witness or group of a line above/);
  writeFileSync(join(dir, 'p'), 'quorum none\n');
  t.equal(faultOf(), '');
  const config = (more: string) => writeFileSync(join(dir, 'c.toml'), `${MINIMAL}\n[witness]\n${more}\n`);
  config('policy = "p"\nrequired = true');
  t.match(
    faultOf(),
    /witness\.required is true, and .*\/p has no quorum that its witnesses with a URL can meet/,
  );
  writeFileSync(join(dir, 'p'), `witness w ${litewitness.witness}\nquorum w\n`);
  t.match(faultOf(), /has no quorum that its witnesses with a URL can meet/);
  writeFileSync(join(dir, 'p'), `witness w ${litewitness.witness} https://w.example\nquorum w\n`);
  t.equal(faultOf(), '');
  const self = encodeVkey('seal.example.com/test/2026', makeKey('mldsa44', 'eu'));
  writeFileSync(join(dir, 'p'), `witness w ${self} https://w.example\nquorum w\n`);
  t.match(
    faultOf(),
    /line 1: the key of a witness has the name of the log, "seal\.example\.com\/test\/2026"/,
  );
  config('required = true');
  t.match(faultOf(), /witness\.policy: missing; expected the policy of the witnesses that must cosign/);
});

t.test('missing files for time-stamps are reported if time-stamps are used', async (t) => {
  const dir = t.testdir({ 'module.so': '', pin: '1234', 'roots.pem': '' });
  const file = join(dir, 'c.toml');
  const faultsOf = (authorities: string, more: string): string => {
    writeFileSync(file, `${MINIMAL.replace(/authorities = .*/, `authorities = ${authorities}`)}\n${more}`);
    return messageOf(() => loadConfig(file));
  };
  const remote = '[timestamp.remotes.acme]\nurl = "https://tsa.example.com"\nroots_file = "roots.pem"\n';
  t.match(
    faultsOf('["acme"]', `${remote}tls_ca_file = "none.pem"\n[clock]\ntrust = "system"`),
    /timestamp\.remotes\.acme\.tls_ca_file: cannot read .*none\.pem/,
  );
  t.match(
    faultsOf('["acme"]', `${remote}[clock]\nprogram = "none"`),
    /c\.toml:\d+: clock\.program: cannot read .*none .*; expected the program of chrony: install it/,
  );
  writeFileSync(file, `${MINIMAL}\n[clock]\nprogram = "none"`);
  t.doesNotThrow(() => loadConfig(file), 'nobody asks the clock when nothing is stamped');
});

/** What becomes of the running configuration when its file is read again. */
const reload = (started: Config, running = started) =>
  mergeConfig(started, running, loadConfig(started.file));

t.test('a reload changes some keys, and reports those that need a restart', async (t) => {
  const dir = t.testdir({ 'module.so': '', pin: '1234' });
  const file = join(dir, 'c.toml');
  const write = (edit: (text: string) => string) => writeFileSync(file, edit(`${MINIMAL}[logging]\n`));
  write((text) => text);
  const started = loadConfig(file);
  t.match(reload(started), { applied: [], deferred: [], config: started });

  write((text) => `${text}level = "debug"\n[quotas.default]\njobs = 3\n[http]\nlisten = "[::1]:1"`);
  const first = reload(started);
  t.strictSame(first.applied.sort(), ['logging.level', 'quotas.default']);
  t.strictSame(first.deferred.sort(), ['http.listen[0].host', 'http.listen[0].port']);
  t.match(first.config, {
    http: { listen: [{ host: '127.0.0.1' }] },
    logging: { level: 'debug' },
    policies: { quotas: { default: { jobs: 3 } } },
  });

  write((text) => text.replace('token_label = "token"', 'token_label = "other"'));
  const second = reload(started, first.config);
  t.strictSame(second.applied.sort(), ['logging.level', 'quotas.default'], 'back to what it was');
  t.strictSame(
    second.deferred,
    ['kms.partitions[0].token_label'],
    'the address is the one it listens on again',
  );

  write((text) => text.replace('[log]', '[lag]'));
  t.throws(() => reload(started, second.config), { message: /c\.toml:4: lag: unknown key/ });
});

t.test('each key is shown as in effect, with the new value if that awaits a restart', async (t) => {
  const dir = t.testdir({ 'module.so': '', pin: '1234' });
  const file = join(dir, 'c.toml');
  writeFileSync(file, `${MINIMAL}[clients.gone.quotas.default]\njobs = 1\n`);
  const started = loadConfig(file);
  const added = '[quotas.default]\njobs = 3\n[http]\nlisten = "[::1]:1"\n[console]\n';
  const other = MINIMAL.replace('token_label = "token"', 'token_label = "other"');
  writeFileSync(file, `${other}${added}`);
  const { deferred } = reload(started);
  const found = settingsInEffect(started, loadConfig(file), deferred);
  const settings = new Map(found.map((one) => [one.key, one]));
  t.match(settings.get('quotas.default.jobs'), { value: 3, source: 'file', next: undefined });
  t.notOk(settings.has('clients.gone.quotas.default.jobs'), 'what a reload ended is gone');
  const waiting = [...settings.values()].filter(({ next }) => next !== undefined);
  t.match(
    waiting.map(({ key, value, next }) => [key, value, next?.value]),
    [
      ['http.listen', '127.0.0.1:8400', '[::1]:1'],
      ['kms.partitions[0].token_label', 'token', 'other'],
      ['console.listen', undefined, /console\.sock$/],
    ],
  );
  t.match(settings.get('log.origin'), { source: 'file', changed: true, next: undefined });
});

t.test('an unreadable PIN file is only reported if the others meet the quorum', async (t) => {
  const [head = '', partition = ''] = MINIMAL.split('[[kms.partitions]]');
  const all = ['pin', 'second', 'third'].map((pin) =>
    partition.replace('"pin"', `"${pin}"`).replace('"one"', `"${pin}"`),
  );
  const text = `${head}[kms]\nquorum = 2\n${all.map((one) => `[[kms.partitions]]${one}`).join('')}`;
  const dir = t.testdir({ 'c.toml': text, 'module.so': '', second: '1', third: '1' });
  const lines: string[] = [];
  loadConfig(join(dir, 'c.toml'), { tell: (line) => void lines.push(line) });
  t.match(lines, [/c\.toml:\d+: kms\.partitions\[0\]\.pin_file: cannot read .*\/pin \(no such file/]);
  t.equal(lines.length, 1);
  rmSync(join(dir, 'third'));
  const told = messageOf(() => loadConfig(join(dir, 'c.toml')));
  t.match(
    told,
    /partitions\[0\]\.pin_file[\s\S]*partitions\[2\]\.pin_file/,
    'with two of them there is no start',
  );
});

t.test('a PIN can come from a systemd credential', async (t) => {
  const text = MINIMAL.replace('pin_file = "pin"', 'pin_credential = "hsm-pin"');
  const dir = t.testdir({ 'c.toml': text, 'module.so': '', credentials: { 'hsm-pin': '1234' } });
  const file = join(dir, 'c.toml');

  t.match(
    messageOf(() => loadConfig(file)),
    /pin_credential: .*; expected .*set CREDENTIALS_DIRECTORY/,
  );
  process.env.CREDENTIALS_DIRECTORY = join(dir, 'credentials');
  t.teardown(() => delete process.env.CREDENTIALS_DIRECTORY);
  t.match(loadConfig(file).kms.partitions[0], {
    pinFile: join(dir, 'credentials/hsm-pin'),
    pinSource: 'credential hsm-pin',
  });
  const ofUnit = parseConfig(text.replace('hsm-pin', 'pin_eu-west'), file);
  const pinSource = `${join(dir, `${ofUnit.environment}.pins`, 'eu-west')} (credential pin_eu-west)`;
  t.match(ofUnit.kms.partitions[0], { pinSource }, 'where the package has it');
  writeFileSync(join(dir, 'c.toml'), text.replace('hsm-pin', '../hsm-pin'));
  t.match(
    messageOf(() => loadConfig(file)),
    /pin_credential: found "\.\.\/hsm-pin"/,
  );
});

function messageOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (error instanceof OperatorError) return error.message;
    throw error;
  }
  return '';
}

t.test('a software key must be post-quantum, and without a token', async (t) => {
  const own = '\n[[kms.partitions]]\nregion = "us"\nkey_label = "pq"\n';
  const at = (lines: string, quorum = '"1 classical and 1 post-quantum"', text = MINIMAL) =>
    parseConfig(`${text.replace('[[kms', `[kms]\nquorum = ${quorum}\n[[kms`)}${own}${lines}`, '/etc/c.toml')
      .kms;
  const good = 'algorithm = "mldsa44"\nsoftware_key_file = "pq.key"';
  const { quorum, partitions } = at(good);
  t.strictSame(quorum, { needed: 1, postQuantum: 1 });
  t.strictSame(partitions[1], {
    region: 'us',
    keyLabel: 'pq',
    algorithm: 'mldsa44',
    pinFile: '/etc/pq.key',
    refusedPins: '/etc/state/refused-pins',
  });
  const credential = at('algorithm = "mldsa44"\nsoftware_key_credential = "pin_pq"').partitions[1];
  t.match(credential, { pinFile: /pin_pq$/, pinSource: /test\.pins\/pq \(credential pin_pq\)/ });
  const refused: [lines: string, message: RegExp][] = [
    ['software_key_file = "k"', /algorithm: missing; expected "mldsa44": no other key may be a software key/],
    ['algorithm = "ed25519"\nsoftware_key_file = "k"', /algorithm: found "ed25519"; expected "mldsa44"/],
    [
      'algorithm = "mldsa44"',
      /module: missing; expected the PKCS#11 module of the token; for a software key/,
    ],
    [`${good}\nmodule = "/hsm.so"`, /module: found .*; expected nothing: a software key is on no token/],
    [`${good}\npin_file = "pin"`, /pin_file: found .*; expected nothing/],
    [`${good}\nlibrary_parameters = "x"`, /library_parameters: found .*; expected nothing/],
    [`${good}\nsoftware_key_credential = "k"`, /software_key_file: found .*; expected either/],
  ];
  for (const [lines, message] of refused) t.throws(() => at(lines), { message }, lines);
  t.throws(() => at(good, '"1 classical and 2 post-quantum"'), /2 of 1 post-quantum keys can never sign/);
  t.throws(() => at(good, '2'), /2 of 1 classical keys can never sign/);
  const long = MINIMAL.replace(/origin = ".*"/, `origin = "${'ü'.repeat(128)}"`);
  t.throws(() => at(good, undefined, long), /log\.origin: found .*; expected at most 255 bytes/);
});
