/** Which job a MAC is of. */
import t from 'tap';
import type { Job } from '../../src/job/job.ts';
import { AcceptanceKeys, newAcceptanceKey, parseAcceptanceKeys } from '../../src/store/acceptanceKeys.ts';
import { encodeJob, parseJob } from '../../src/store/jobCodec.ts';
import { identity, sampleContent, sampleJob, sampleUrlJob } from './samples.ts';

const [first, second] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
const URL = 'https://example.com/a.pdf';

t.test('a MAC is of one job in one log, exactly as it waits', (t) => {
  const keys = new AcceptanceKeys([first], identity);
  const job = sampleUrlJob({ purpose: 'p', customerReference: 'a', since: 5 });
  const mac = keys.macOf({ job, sourceUrl: URL });
  t.equal(mac.length, 40);
  t.equal(keys.faultOf({ job, sourceUrl: URL }, mac), undefined);
  t.equal(
    keys.faultOf({ job: parseJob(job.id, encodeJob(job)), sourceUrl: URL }, mac),
    undefined,
    'also as the store returns it',
  );
  const altered: Partial<Job>[] = [
    { id: sampleJob().id },
    { clientId: 'other' },
    { acceptedAt: Date.UTC(2001, 0) },
    { since: 6 },
    { customerReference: 'b' },
    { checksumSha256: '0'.repeat(64) },
    { source: 'canary' },
    { content: sampleContent() },
  ];
  for (const fields of altered)
    t.match(
      keys.faultOf({ job: { ...job, ...fields }, sourceUrl: URL }, mac),
      /of another job/,
      Object.keys(fields).join(),
    );
  for (const sourceUrl of [`${URL}?`, undefined])
    t.match(keys.faultOf({ job, sourceUrl }, mac), /of another job/);
  for (const place of [{ environment: 'production' }, { logOrigin: 'example.com' }]) {
    const elsewhere = new AcceptanceKeys([first], { ...identity, ...place });
    t.match(elsewhere.faultOf({ job, sourceUrl: URL }, mac), /of another job/);
  }
  t.match(keys.faultOf({ job, sourceUrl: URL }, null), /has no MAC/);
  for (const length of [0, 8, 39])
    t.match(keys.faultOf({ job, sourceUrl: URL }, mac.subarray(0, length)), /MAC is/, `${length} bytes`);
  const flipped = Buffer.from(mac);
  flipped[39] = (flipped[39] ?? 0) ^ 1;
  t.match(keys.faultOf({ job, sourceUrl: URL }, flipped), /of another job/);
  t.end();
});

t.test('a scan that never was is not in the MAC of the scan that was', (t) => {
  const keys = new AcceptanceKeys([first], identity);
  const job = sampleJob();
  const mac = keys.macOf({ job });
  const content = { ...job.content, scan: { verdict: 'clean' as const, engine: 'ClamAV 1.4.1' } };
  t.match(keys.faultOf({ job: { ...job, content } }, mac), /of another job/);
  t.end();
});

t.test('while the key is changed, MACs by both count, and the first makes new ones', (t) => {
  const job = sampleJob();
  const [old, both, later] = [[first], [second, first], [second]].map(
    (keys) => new AcceptanceKeys(keys, identity),
  ) as [AcceptanceKeys, AcceptanceKeys, AcceptanceKeys];
  t.equal(both.faultOf({ job }, old.macOf({ job })), undefined);
  t.equal(later.faultOf({ job }, both.macOf({ job })), undefined);
  t.match(later.faultOf({ job }, old.macOf({ job })), `by the acceptance key ${old.names[0]}, which`);
  t.same(both.names, [...later.names, ...old.names]);
  t.end();
});

t.test('a file has a line of 64 digits for each key, and nothing else', (t) => {
  const [a, b] = ['0a'.repeat(32), 'b1'.repeat(32)];
  t.match(newAcceptanceKey(), /^[0-9a-f]{64}\n$/);
  t.not(newAcceptanceKey(), newAcceptanceKey());
  t.same(parseAcceptanceKeys(`${a}\n`), [Buffer.from(a, 'hex')]);
  t.same(parseAcceptanceKeys(`${a}\n${b}`), [Buffer.from(a, 'hex'), Buffer.from(b, 'hex')]);
  const third = 'c2'.repeat(32);
  const refused = ['', '\n', `${a}${b}`, a.slice(1), a.toUpperCase(), `${a}\n\n`, ` ${a}`, `${a}\r\n`];
  for (const text of [...refused, `${a}\n${a}\n`, `${a}\n${b}\n${third}\n`, 'a password'])
    t.equal(parseAcceptanceKeys(text), undefined, JSON.stringify(text));
  t.end();
});
