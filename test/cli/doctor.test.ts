/** Installations that are broken in one way each, and what the doctor says of them. */
import { generateKeyPairSync } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { encodePem } from '../../src/asn1/pem.ts';
import { toHex } from '../../src/base/bytes.ts';
import { sha256 } from '../../src/base/crypto.ts';
import { acquireLock } from '../../src/base/lock.ts';
import type { Diagnosis } from '../../src/cli/doctor/diagnosis.ts';
import { diagnosesOf } from '../../src/cli/doctor/doctorCommand.ts';
import { diagnoseSeparation } from '../../src/cli/doctor/tokenDiagnosis.ts';
import { diagnoseUpkeep, timerOf } from '../../src/cli/doctor/upkeepDiagnosis.ts';
import { loadConfig } from '../../src/config/config.ts';
import { type Chore, noteUpkeep, readUpkeep } from '../../src/health/upkeepNotes.ts';
import { encodeCosigner } from '../../src/log/cosignature.ts';
import { encodeVkey } from '../../src/log/verifierKey.ts';
import { actOfProcess } from '../../src/store/acts.ts';
import { openStore } from '../../src/store/lmdb/open.ts';
import { certificateFile } from '../../src/tsa/installed.ts';
import { issueRoot, issueTimestampingCertificate } from '../../src/tsa/pki.ts';
import { askAdmin } from '../support/admin.ts';
import { DAY_MS, softKey } from '../support/authority.ts';
import { item } from '../support/partitions.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';
import { makeKey } from '../support/sealing.ts';
import { changePin, takeToken } from '../support/tamper.ts';
import { until } from '../support/until.ts';

async function examine({ configFile }: Sandbox): Promise<Diagnosis[]> {
  const found: Diagnosis[] = [];
  for await (const diagnosis of diagnosesOf(configFile)) found.push(diagnosis);
  return found;
}

/** What is not good, but for the daemon's absence, a clock that is believed as it is, and two keys on one token. */
async function complaints(sandbox: Sandbox): Promise<Diagnosis[]> {
  return (await examine(sandbox)).filter(
    ({ check, verdict, detail }) =>
      verdict !== 'good' &&
      detail !== 'not running' &&
      !(['clock', 'separate keys'].includes(check) && verdict === 'warning'),
  );
}

/** Breaks something; the result mends it. */
type Break = (sandbox: Sandbox) => (() => void) | Promise<() => void>;

function editConfig(change: (text: string) => string): Break {
  return ({ configFile }) => {
    const text = readFileSync(configFile, 'utf8');
    writeFileSync(configFile, change(text));
    return () => writeFileSync(configFile, text);
  };
}

function setMode(name: (sandbox: Sandbox) => string, mode: number, mended: number): Break {
  return (sandbox) => {
    chmodSync(name(sandbox), mode);
    return () => chmodSync(name(sandbox), mended);
  };
}

function away(name: (sandbox: Sandbox) => string): Break {
  return (sandbox) => {
    const path = name(sandbox);
    renameSync(path, `${path}.away`);
    return () => renameSync(`${path}.away`, path);
  };
}

const pinFile = ({ partitions }: Sandbox) => item(partitions, 0).pinFile;
const certificate = ({ dir }: Sandbox) =>
  certificateFile(join(dir, 'state/certificates'), { region: 'eu', keyLabel: 'timestamp-2026' });

/** Puts one that ends in so many days in the place of the time-stamping certificate. */
function endingIn(days: number): Break {
  return async (sandbox) => {
    const validity = { notBefore: Date.now() - 300 * DAY_MS, notAfter: Date.now() + (days + 0.5) * DAY_MS };
    const [rootKey, unitKey] = [softKey('ecdsa-p256'), softKey('ecdsa-p256')];
    const root = await issueRoot(
      { subject: { commonName: 'Root' }, ...validity, notAfter: Date.now() + 999 * DAY_MS },
      rootKey,
    );
    const options = { subject: { commonName: 'Unit' }, key: unitKey.key, issuer: root, ...validity };
    const unit = await issueTimestampingCertificate(options, rootKey);
    const certificates_sha256 = [unit, root].map(({ der }) => toHex(sha256(der)));
    const store = await openStore({ path: join(sandbox.dir, 'state', 'store') });
    await store.trail.append(actOfProcess('command', 'hsm.install_certificate', { certificates_sha256 }));
    await store.close();
    const file = certificate(sandbox);
    copyFileSync(file, `${file}.away`);
    writeFileSync(file, [unit, root].map(({ der }) => encodePem('CERTIFICATE', der)).join(''));
    return () => renameSync(`${file}.away`, file);
  };
}

/** Has the log witnessed, by that policy. */
function witnessedBy(policy: string): Break {
  return (sandbox) => {
    writeFileSync(join(sandbox.dir, 'policy'), policy);
    return editConfig((text) => text.replace('[witness]\n', '[witness]\npolicy = "policy"\n'))(sandbox);
  };
}

/** Its line of a policy. */
function witnessAt(name: string, url: string): string {
  const spki = generateKeyPairSync('ed25519').publicKey.export({ format: 'der', type: 'spki' });
  const key = spki.subarray(-32);
  return `witness ${name} ${encodeCosigner({ name: `${name}.example/w`, algorithm: 'ed25519', key })} ${url}\n`;
}

const strangersKey = encodeVkey('seal.example.com/sandbox/2026', makeKey('ed25519', 'x'));

interface Case {
  name: string;
  breaks: Break;
  /** The first complaint; there are at most as many as `most`, one if that is left out. */
  says: { check: string | RegExp; verdict?: 'warning' | 'bad'; detail: RegExp; remedy: RegExp };
  most?: number;
}

const CASES: Case[] = [
  {
    name: 'a typing error in the configuration',
    breaks: editConfig((text) => text.replace('[kms]', '[kms]\nquorums = 2')),
    says: {
      check: 'config',
      detail: /sandbox\.toml:\d+: kms\.quorums: unknown key/,
      remedy: /pdfseald\.toml/,
    },
  },
  {
    name: 'a configuration that others may change',
    breaks: setMode(({ configFile }) => configFile, 0o666, 0o644),
    says: {
      check: 'files',
      detail: /the configuration .* has mode 0666/,
      remedy: /^chmod o-w .*sandbox\.toml$/,
    },
  },
  {
    name: 'a PIN file that others may read',
    breaks: setMode(pinFile, 0o604, 0o600),
    says: { check: 'files', detail: /the PIN file .* has mode 0604/, remedy: /^chmod o-rwx / },
    most: 3,
  },
  {
    name: 'a PIN file that is not there',
    breaks: away(pinFile),
    says: { check: 'config', detail: /pin_file: cannot read/, remedy: /./ },
    most: 2,
  },
  {
    name: 'a PIN file that is not there, of a partition that the quorum can do without',
    breaks: away(({ partitions }) => item(partitions, 1).pinFile),
    says: { check: 'config', verdict: 'warning', detail: /pin_file: cannot read/, remedy: /quorum/ },
    most: 3,
  },
  {
    name: 'a PIN that is wrong, tried once for both keys of its token',
    breaks: (sandbox) => {
      const pin = readFileSync(pinFile(sandbox), 'utf8');
      writeFileSync(pinFile(sandbox), 'wrong-pin');
      return () => writeFileSync(pinFile(sandbox), pin);
    },
    says: { check: 'partition eu/sandbox-2026', detail: /CKR_PIN_INCORRECT/, remedy: /hsm retry-pin/ },
    most: 2,
  },
  {
    name: 'a signer of its own that does not answer: its PIN is not the daemon’s, so nothing else is wrong',
    breaks: (sandbox) => {
      process.env.PDFSEALD_SIGNERS = sandbox.dir;
      writeFileSync(join(sandbox.dir, 'eu.sock'), '');
      const undo = editConfig((text) =>
        text.replaceAll(`pin_file = "${pinFile(sandbox)}"`, 'pin_credential = "pin_eu"'),
      )(sandbox) as () => void;
      return () => {
        delete process.env.PDFSEALD_SIGNERS;
        undo();
      };
    },
    says: { check: 'partition eu/sandbox-2026', detail: /signer (?:is gone|ended)/, remedy: /./ },
    most: 2,
  },
  {
    name: 'a token that is gone',
    breaks: ({ partitions }) => takeToken(item(partitions, 1)),
    says: { check: 'partition us/sandbox-2026', detail: /token/, remedy: /connected/ },
  },
  {
    name: 'a state folder that anybody may write to',
    breaks: setMode(({ dir }) => join(dir, 'state'), 0o777, 0o700),
    says: { check: 'files', detail: /the state folder .* has mode 0777/, remedy: /^chmod o-w / },
  },
  {
    name: 'no store',
    breaks: away(({ dir }) => join(dir, 'state/store')),
    says: { check: 'files', detail: /the store .*: no such file/, remedy: /pdfseal init/ },
    most: 2,
  },
  {
    name: 'a store that is none',
    breaks: (sandbox) => {
      const mend = away(({ dir }) => join(dir, 'state/store/data.mdb'))(sandbox) as () => void;
      writeFileSync(join(sandbox.dir, 'state/store/data.mdb'), 'nothing');
      return mend;
    },
    says: { check: 'store', detail: /damaged or not of LMDB/, remedy: /Disaster recovery/ },
  },
  {
    name: 'the store of another log',
    breaks: editConfig((text) => text.replace('sandbox/2026"', 'sandbox/2027"')),
    says: { check: 'store', detail: /is for log\.origin "seal\.example\.com\/sandbox\/2026"/, remedy: /./ },
  },
  {
    name: 'a partition the log was not made with',
    breaks: editConfig((text) => text.replace('region = "us"', 'region = "ap"')),
    says: {
      check: 'epoch',
      detail: /ap\/sandbox-2026 is not a partition of this epoch/,
      remedy: /pdfseal epochs plan/,
    },
  },
  {
    name: 'a witness policy with a mistake',
    breaks: witnessedBy('quorum sites\n'),
    says: {
      check: 'config',
      detail: /is not a witness policy: line 1: "sites" is not a witness/,
      remedy: /./,
    },
  },
  {
    name: 'a witness policy that lists another key of the log',
    breaks: witnessedBy(`log ${strangersKey}\nquorum none\n`),
    says: {
      check: 'witness policy',
      verdict: 'warning',
      detail: /lists seal\.example\.com\/sandbox\/2026 with other keys than the epoch has/,
      remedy: /log seal\.example\.com\/sandbox\/2026\+[0-9a-f]{8}\+A/,
    },
  },
  {
    name: 'a witness whose refusals can be forged on the way',
    breaks: witnessedBy(
      [
        witnessAt('far', 'http://192.0.2.7:8410'),
        witnessAt('near', 'http://127.0.0.1:8410'),
        witnessAt('own', 'http://[::1]:8410/w'),
        witnessAt('named', 'http://localhost:8410'),
        witnessAt('safe', 'https://witness.example'),
        witnessAt('vault', ''),
        'quorum none\n',
      ].join(''),
    ),
    says: {
      check: 'witness far',
      verdict: 'warning',
      detail: /http:\/\/192\.0\.2\.7:8410\/ leaves this machine without TLS: .* stops all sealing/,
      remedy: /https:/,
    },
  },
  {
    name: 'a certificate that is missing',
    breaks: away(certificate),
    says: { check: /^certificate built-in eu/, detail: /there is no/, remedy: /restore/ },
  },
  {
    name: 'a certificate with some weeks left',
    breaks: endingIn(40),
    says: {
      check: /\(time-stamping\)$/,
      verdict: 'warning',
      detail: /CN=Unit.* 40 days left/,
      remedy: /pdfseal hsm certify/,
    },
  },
  {
    name: 'a certificate that is to be renewed now',
    breaks: endingIn(20),
    says: {
      check: /\(time-stamping\)$/,
      verdict: 'warning',
      detail: /20 days left/,
      remedy: /^do this soon: renew/,
    },
  },
  {
    name: 'a certificate with some days left',
    breaks: endingIn(5),
    says: { check: /\(time-stamping\)$/, detail: /5 days left/, remedy: /pdfseal hsm certify/ },
  },
  {
    name: 'a clock that nothing keeps',
    breaks: editConfig((text) =>
      text.replace('trust = "system"', 'trust = "timedatectl"\nprogram = "/bin/false"'),
    ),
    says: { check: 'clock', detail: /cannot ask timedatectl/, remedy: /time service/ },
  },
  {
    name: 'a daemon that does not answer: its tokens are left alone',
    breaks: ({ dir }) => {
      const lock = acquireLock(join(dir, 'state/lock'));
      return () => lock.release();
    },
    says: {
      check: 'daemon',
      detail: new RegExp(`process ${process.pid} uses the state folder`),
      remedy: /its log/,
    },
  },
];

t.test('each fault is found while the daemon is down', async (t) => {
  const sandbox = await openSandbox({ regions: ['eu', 'us'], stamped: true });
  t.teardown(() => sandbox.close());
  await keepUp(t, sandbox);
  growOld(t, sandbox);
  t.strictSame(await complaints(sandbox), [], 'a good installation');
  for (const { name, breaks, says, most = 1 } of CASES) {
    await t.test(name, async (t) => {
      const mend = await breaks(sandbox);
      const found = await complaints(sandbox).finally(mend);
      t.match(found[0], { verdict: 'bad', ...says });
      t.ok(found.length >= 1 && found.length <= most, JSON.stringify(found));
    });
  }
  t.strictSame(await complaints(sandbox), [], 'all mended');
  t.notOk(existsSync(`${certificate(sandbox)}.away`));

  const { status, stdout } = await sandbox.pdfseal(['doctor', '--config', sandbox.configFile]);
  t.equal(status, 1, 'no daemon is a fault');
  t.match(
    stdout,
    /^✓ node: v24.*\n✓ config: .*\n[\s\S]*✗ daemon: not running\n {4}→ start it: [\s\S]*\nsomething is broken\n$/,
  );
});

t.test('the timers that are asked for are those of the package', (t) => {
  const units = readdirSync(new URL('../../systemd/units', import.meta.url));
  for (const chore of ['backup', 'check', 'renewal'] as const)
    t.ok(units.includes(timerOf(chore, '')), timerOf(chore, ''));
  t.end();
});

/** Does what an administrator does now and then, after the doctor has missed it. */
async function keepUp(t: Test, sandbox: Sandbox): Promise<void> {
  const isUpkeep = ({ check }: Diagnosis) => ['backup', 'check', 'restore drill', 'renewal'].includes(check);
  const missed = (await complaints(sandbox)).filter(isUpkeep);
  t.match(
    missed,
    Array(4).fill({ verdict: 'warning', detail: 'none is on record here', remedy: /pdfseal / }),
  );
  const backup = join(sandbox.dir, 'backup');
  const restore = ['restore', '--drill', '--input', backup];
  for (const args of [['backup', '--output', backup], ['check'], restore, ['renew']]) {
    const { status, stderr } = await sandbox.pdfseal([...args, '--config', sandbox.configFile]);
    t.equal(status, 0, stderr);
  }
}

const inDays = (days: number) => new Date(Date.now() + days * 86_400_000 + 60_000).toISOString();

/** Each of the four is asked for again when it is old. */
function growOld(t: Test, sandbox: Sandbox): void {
  const config = loadConfig(sandbox.configFile);
  const found = () => Array.from(diagnoseUpkeep(config)).filter(({ verdict }) => verdict !== 'good');
  const ages = { backup: 37, check: 73, 'restore-drill': 101 * 24, renewal: 73 };
  for (const [chore, hours] of Object.entries(ages) as [Chore, number][]) {
    const note = readUpkeep(join(sandbox.dir, 'state'), chore);
    if (note === undefined) throw new Error(`no note of the ${chore}`);
    const old = { ...note, finished_at: new Date(Date.now() - hours * 3_600_000).toISOString() };
    const name = chore.replace('-', ' ');
    noteUpkeep(join(sandbox.dir, 'state'), chore, old);
    t.match(found(), [{ check: name, verdict: 'warning', detail: / ago$/ }], `an old ${chore}`);
    noteUpkeep(join(sandbox.dir, 'state'), chore, { ...note, finished_at: '2999-01-01T00:00:00.000Z' });
    const future = { check: name, verdict: 'warning', detail: /in the future/, remedy: /look at the clock/ };
    t.match(found(), [future], `a ${chore} of the future`);
    noteUpkeep(join(sandbox.dir, 'state'), chore, { ...note, good: false });
    const verdict = chore === 'check' ? 'bad' : 'warning';
    t.match(found(), [{ check: name, verdict }], `a bad ${chore}`);
    noteUpkeep(join(sandbox.dir, 'state'), chore, { ...note, good: false, undecided: 'page 7 is torn' });
    const undecided = { check: name, verdict, detail: /could not tell .*: page 7 is torn$/ };
    t.match(found(), [undecided], `a ${chore} that could not tell`);
    if (chore === 'renewal') {
      for (const [days, verdicts] of [
        [364, []],
        [91, []],
        [89, ['warning']],
        [29, ['bad']],
        [-1, ['bad']],
      ] as const) {
        noteUpkeep(join(sandbox.dir, 'state'), chore, { ...note, holds_until: inDays(days) });
        const said = found().map(({ check, verdict }) => `${check} ${verdict}`);
        t.strictSame(
          said,
          verdicts.map((verdict) => `time-stamps ${verdict}`),
          `${days} days before the end`,
        );
      }
    }
    noteUpkeep(join(sandbox.dir, 'state'), chore, note);
  }
}

async function doctor(t: Test, sandbox: Sandbox, status: number): Promise<Diagnosis[]> {
  const run = await sandbox.pdfseal(['doctor', '--json', '--config', sandbox.configFile]);
  t.equal(run.status, status, run.stdout + run.stderr);
  return run.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Diagnosis);
}

t.test('a token that can back-date documents is named', async (t) => {
  for (const [options, isNamed] of [
    [{ stamped: true }, true],
    [{ stamped: true, apart: true }, false],
    [{ stamped: true, regions: ['eu', 'us'] }, true],
    [{ stamped: true, regions: ['eu', 'us'], quorum: 2 }, false],
    [{}, false],
  ] as const) {
    const regions = [...('regions' in options ? options.regions : ['eu'])];
    const sandbox = await openSandbox({ ...options, regions });
    t.teardown(() => sandbox.close());
    const found = diagnoseSeparation(loadConfig(sandbox.configFile));
    t.match(
      found,
      isNamed
        ? [
            {
              check: 'separate keys',
              verdict: 'warning',
              detail: /^the token token-eu has .* can backdate documents/,
            },
          ]
        : [],
      JSON.stringify(options),
    );
    t.equal(found.length, isNamed ? 1 : 0);
  }
});

t.test('status, doctor and drill report on a running daemon', async (t) => {
  const sandbox = await openSandbox({ regions: ['eu', 'us'], stamped: true, apart: true });
  t.teardown(() => sandbox.close());
  const daemon = await sandbox.start();
  await until('it is ready', async () => (await askAdmin(sandbox, '/readyz')).status === 200);
  const config = ['--config', sandbox.configFile];
  const [eu, us] = [item(sandbox.partitions, 0), item(sandbox.partitions, 1)];

  await keepUp(t, sandbox);
  const well = await doctor(t, sandbox, 0);
  for (const check of [
    'canary',
    'partitions',
    'timestamps',
    'queue',
    'partition us/sandbox-2026',
    'authority built-in',
  ])
    t.match(
      well.find((one) => one.check === check),
      { verdict: 'good' },
      check,
    );
  t.match(await sandbox.pdfseal(['status', ...config]), {
    status: 0,
    stdout: /^✓ READY {2}pdfseald \d.* env_sandbox .*\n[\s\S]*us\/sandbox-2026 +ready[\s\S]*none waits\n/,
  });

  await t.test('a drill shows that sealing goes on without the partition', async (t) => {
    const drill = (...args: string[]) => sandbox.pdfseal(['hsm', 'drill', ...config, '--json', ...args]);
    const { status, stdout, stderr } = await drill('--partition', 'us', '--for', '1500ms');
    t.equal(status, 0, stderr);
    t.match(JSON.parse(stdout), {
      partition: 'us/sandbox-2026',
      sealing_went_on: true,
      canaries: [{ verified: true, signers: ['eu/sandbox-2026'] }, { signers: ['eu/sandbox-2026'] }],
      out_for_ms: Number,
      signs_after_ms: Number,
    });
    t.match(await drill('--partition', 'mars'), { status: 1, stderr: /not_found: .* us\/sandbox-2026/ });
  });

  const giveBack = takeToken(us);
  await until('the loss is known', async () => {
    await askAdmin(sandbox, '/canary', 'POST');
    return (await doctor(t, sandbox, 2)).some(({ check }) => check === 'partition us/sandbox-2026');
  });
  const lost = (await doctor(t, sandbox, 2)).find(({ check }) => check === 'partition us/sandbox-2026');
  t.match(lost, { verdict: 'warning', detail: /^unavailable since /, remedy: /token/ });
  const refused = await sandbox.pdfseal(['hsm', 'drill', ...config, '--partition', 'eu']);
  t.match(refused, { status: 1, stderr: /below_quorum/ }, 'the last one is not taken out');
  giveBack();
  await until('it is back', async () => !(await statusText(sandbox)).includes('unavailable'));

  const writePin = changePin(eu);
  process.kill(item(await signerPids(sandbox), 0), 'SIGKILL');
  await until('the PIN is refused', async () => (await statusText(sandbox)).includes('pin_refused'));
  const pin = (await doctor(t, sandbox, 2)).find(({ check }) => check === 'partition eu/sandbox-2026');
  t.match(pin, {
    verdict: 'warning',
    detail: /pin_refused .*CKR_PIN_INCORRECT/,
    remedy: /correct PIN into the PIN file.*hsm retry-pin/,
  });
  writePin();
  await until('it is well again', async () => !(await statusText(sandbox)).includes('pin_refused'));

  process.kill(daemon.pid, 'SIGSTOP');
  const hung = (await doctor(t, sandbox, 1)).find(({ check }) => check === 'daemon');
  process.kill(daemon.pid, 'SIGCONT');
  t.match(hung, { detail: new RegExp(`process ${daemon.pid} uses the state folder, .* no answer within`) });
  t.equal(await daemon.stop(), 0);
  t.match(await sandbox.pdfseal(['status', ...config]), {
    status: 1,
    stderr: /no pdfseald answers at unix:/,
  });
});

async function signerPids(sandbox: Sandbox): Promise<number[]> {
  const { partitions } = (await askAdmin(sandbox, '/status')).json<{
    partitions: { members: { pid: number }[] };
  }>();
  return partitions.members.map(({ pid }) => pid);
}

async function statusText(sandbox: Sandbox): Promise<string> {
  return (await askAdmin(sandbox, '/status')).text;
}
