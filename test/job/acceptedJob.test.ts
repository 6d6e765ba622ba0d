/** What an honest store and an honest front never have. */
import t from 'tap';
import { faultOfDate, faultOfWaiting } from '../../src/job/acceptedJob.ts';
import { newJobId } from '../../src/job/id.ts';
import type { Job } from '../../src/job/job.ts';
import { makeContent, makeJob } from '../support/sealing.ts';

const DAY = 86_400_000;
const NOW = Date.UTC(2026, 2, 4);
function faultOf(fields: Partial<Job> = {}, sourceUrl?: string) {
  return faultOfWaiting(makeJob(newJobId(), { acceptedAt: NOW, ...fields }) as Job, sourceUrl);
}

t.test('a job that waited in the store is sealed, however long, and whatever the clock showed', async (t) => {
  for (const acceptedAt of [NOW, NOW - 364 * DAY, Date.UTC(2001, 0), Date.UTC(2054, 0)])
    t.equal(faultOf({ acceptedAt }), undefined);
  const sealedDocument = makeContent().document;
  t.equal(faultOf({ content: makeContent({ sealedDocument }) }), undefined, 'it has a copy');
  t.equal(faultOf({ source: 'canary', clientId: '_canary' }), undefined, 'a canary is no client’s');
  t.equal(
    faultOf({ source: 'audit', clientId: '_audit' }),
    undefined,
    'an audit record is judged by the trail',
  );
  const { content: _, ...url } = makeJob(newJobId(), { acceptedAt: NOW, source: 'url' });
  const checksumSha256 = 'a'.repeat(64);
  t.equal(faultOfWaiting({ ...url, checksumSha256 }, 'https://example.com/a.pdf'), undefined);
});

t.test('a job that no request can have made is refused', async (t) => {
  t.match(faultOf({ clientId: '_audit' }), /^clientId/);
  t.match(faultOf({ mode: 'whatever' as Job['mode'] }), /^mode/);
  t.match(faultOf({}, 'https://example.com/a.pdf'), /either its content or the URL/);
});

t.test('the date of a job is that of its arrival, give or take 5 minutes', async (t) => {
  const minute = 60_000;
  for (const minutes of [-5, 0, 5])
    t.equal(faultOfDate({ acceptedAt: NOW + minutes * minute }, NOW), undefined);
  for (const minutes of [-6, 6])
    t.match(faultOfDate({ acceptedAt: NOW + minutes * minute }, NOW), /but it arrived at/);
});
