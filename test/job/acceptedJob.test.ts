/** What an honest store and an honest front never have. */
import t from 'tap';
import { faultOfDate, faultOfWaiting, type WaitingFacts } from '../../src/job/acceptedJob.ts';
import { newJobId } from '../../src/job/id.ts';
import type { Job, ScanResult } from '../../src/job/job.ts';
import { makeContent, makeJob } from '../support/sealing.ts';

const DAY = 86_400_000;
const NOW = Date.UTC(2026, 2, 4);
const FACTS: WaitingFacts = { begunAt: NOW - 365 * DAY, date: NOW, canBeScanned: false };

function faultOf(fields: Partial<Job> = {}, facts: Partial<WaitingFacts> = {}, sourceUrl?: string) {
  return faultOfWaiting(makeJob(newJobId(), { acceptedAt: NOW, ...fields }) as Job, sourceUrl, {
    ...FACTS,
    ...facts,
  });
}

t.test('a job that waited in the store however long is sealed', async (t) => {
  for (const days of [0, 1, 30, 364])
    t.equal(faultOf({ acceptedAt: NOW - days * DAY }), undefined, `${days} days`);
  t.equal(faultOf({ acceptedAt: NOW + 60_000 }), undefined, 'the clock was set back a little');
  t.equal(
    faultOf({ acceptedAt: NOW + 9 * DAY }, { date: undefined }),
    undefined,
    'nobody vouches for the date',
  );
  const sealedDocument = makeContent().document;
  t.equal(faultOf({ content: makeContent({ sealedDocument }) }), undefined, 'it has a copy');
  t.equal(faultOf({ source: 'canary', clientId: '_canary' }), undefined, 'a canary is no client’s');
  const { content: _, ...url } = makeJob(newJobId(), { acceptedAt: NOW, source: 'url' });
  const checksumSha256 = 'a'.repeat(64);
  t.equal(faultOfWaiting({ ...url, checksumSha256 }, 'https://example.com/a.pdf', FACTS), undefined);
});

t.test('a job that nobody can have accepted is refused', async (t) => {
  t.match(
    faultOf({ acceptedAt: Date.UTC(2001, 0) }),
    /^acceptedAt: it says 2001-.*, but the log began at 2025-/,
  );
  t.match(faultOf({ acceptedAt: Date.UTC(9998, 0) }), /^acceptedAt: it says 9998-.*, but it is 2026-/);
  t.match(faultOf({ source: 'canary', acceptedAt: 0 }), /^acceptedAt/, 'nor a canary');
  t.match(faultOf({ clientId: '_audit' }), /^clientId/);
  t.match(faultOf({ mode: 'whatever' as Job['mode'] }), /^mode/);
  t.match(faultOf({}, {}, 'https://example.com/a.pdf'), /either its content or the URL/);
});

t.test('a scan counts only where there is a scanner', async (t) => {
  for (const verdict of ['clean', 'encrypted'] as const) {
    const scan: ScanResult = { verdict, engine: 'ClamAV 1.0.7', signatures: '27500' };
    const content = makeContent({ scan });
    t.match(faultOf({ content }), /^content\.scan: .* no scanner is configured/);
    t.equal(faultOf({ content }, { canBeScanned: true }), undefined);
  }
});

t.test('the date of a job is that of its arrival, give or take 5 minutes', async (t) => {
  const minute = 60_000;
  for (const minutes of [-5, 0, 5])
    t.equal(faultOfDate({ acceptedAt: NOW + minutes * minute }, NOW), undefined);
  for (const minutes of [-6, 6])
    t.match(faultOfDate({ acceptedAt: NOW + minutes * minute }, NOW), /but it arrived at/);
});
