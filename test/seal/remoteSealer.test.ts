/** What a front refuses without the acceptance key that the daemon that seals demands. */
import { pino } from 'pino';
import t from 'tap';
import { findingsOf } from '../../src/health/healthFindings.ts';
import { presentAcceptance } from '../../src/health/sections/acceptanceSection.ts';
import { presentSealing } from '../../src/health/sections/sealingSection.ts';
import { RefusedJobs } from '../../src/seal/refusedJobs.ts';
import { RemoteSealer } from '../../src/seal/remoteSealer.ts';

const NODE = {
  isActive: true,
  holder: 'process 1 on seal1',
  scans: false,
  waiting: 0,
  lacksAcceptanceKey: false,
  isPrivileged: false,
  aheadMs: 0,
};

async function openFront(lacksAcceptanceKey: boolean): Promise<RemoteSealer> {
  const sealer = await RemoteSealer.open({
    store: { jobs: {} as never },
    sealing: {
      node: async () => ({ ...NODE, lacksAcceptanceKey }),
      outcomes: async () => new Map(),
      onNotice: () => {},
    },
    queueJobsMax: 10,
    logger: pino({ level: 'silent' }),
    onFatal: (error) => t.fail(String(error)),
  });
  t.teardown(() => sealer.close());
  return sealer;
}

t.test('a front without the key that is demanded accepts nothing, and says what to do', async (t) => {
  const lacking = await openFront(true);
  for (const mode of ['async', 'blocking'] as const)
    t.throws(() => lacking.admit(mode), {
      code: 'kms_partition_unavailable',
      retryAfterSeconds: 2,
      cause: { message: /set store\.acceptance_key_credential/ },
    });
  t.match(findingsOf({ sealing: presentSealing(lacking.outlook, undefined) }, 0), [
    { id: 'front_without_acceptance_key', remedy: /set store\.acceptance_key_credential/ },
  ]);
  const good = await openFront(false);
  t.doesNotThrow(() => good.admit('async'));
  t.strictSame(findingsOf({ sealing: presentSealing(good.outlook, undefined) }, 0), []);
});

t.test('jobs that no node accepted are counted, and named to the administrator', (t) => {
  const lines: unknown[] = [];
  const refused = new RefusedJobs({ error: (line: unknown) => void lines.push(line) } as never);
  const names = ['0123456789abcdef'];
  t.strictSame(findingsOf({ acceptance: presentAcceptance({ names }, refused) }, 0), []);
  refused.note({ event: 'waiting_refused', jobId: 'job_1', detail: 'it has no MAC' });
  t.strictSame(lines, [{ event: 'waiting_refused', job_id: 'job_1', detail: 'it has no MAC' }]);
  const section = presentAcceptance({ names }, refused);
  t.strictSame(section, { keys: names, refused: 1 });
  t.match(findingsOf({ acceptance: section }, 0), [
    { id: 'jobs_refused', detail: /^1 job in the store failed/, remedy: /waiting_refused/ },
  ]);
  t.strictSame(presentAcceptance(undefined, refused).keys, []);
  t.end();
});
