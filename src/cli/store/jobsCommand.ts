import { toRfc3339 } from '../../base/clock.ts';
import { ownProcess } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import { documentSha256, type JobPhase, type JobRecord, VISIBILITIES } from '../../job/job.ts';
import { environmentId } from '../../manifest/manifest.ts';
import { encodeReceipt } from '../../manifest/receipt.ts';
import { readReceipt } from '../../prove/trail/receipts.ts';
import { type EveryJobQuery, listEveryClient } from '../../store/everyClient.ts';
import type { Store } from '../../store/store.ts';
import { argument, command, group, option } from '../command.ts';
import {
  CONFIG,
  parseCountArgument,
  parseDateArgument,
  parseDigestArgument,
  parseNameArgument,
} from '../options.ts';
import { note, printFields, printResult, printRows } from '../terminal.ts';
import { withStore } from '../withStore.ts';

const LIMIT_DEFAULT = 50;

/** Phases that the store knows. Only the daemon knows which step a waiting job has reached. */
const LISTED_PHASES = ['queued', 'completed', 'failed'] as const satisfies JobPhase[];
const OUTCOME_OF = { queued: 'waiting', completed: 'sealed', failed: 'failed' } as const;
const PHASE_OF = { waiting: 'queued', sealed: 'completed', failed: 'failed' } as const;

const listCommand = command('list', {
  description: 'Lists jobs, newest first. Times are in UTC.',
  options: [
    CONFIG,
    option('--client <name>', 'only jobs of this client', parseNameArgument),
    option('--document-sha256 <sha256>', 'only jobs of this document (hexadecimal)', parseDigestArgument),
    option('--customer-reference <text>', 'only jobs with exactly this reference'),
    option('--visibility <name>', 'only jobs of this visibility', { choices: VISIBILITIES }),
    option('--phase <name>', 'only jobs in this phase', { choices: LISTED_PHASES }),
    option('--since <date>', 'only jobs created at this date or later', parseDateArgument),
    option('--until <date>', 'only jobs created before this date', parseDateArgument),
    option('--limit <count>', 'how many jobs the list has at most', {
      parse: parseCountArgument,
      default: LIMIT_DEFAULT,
    }),
    option('--cursor <cursor>', 'continue after the job with this id, the last one of the previous list'),
    option('--wide', 'show whole digests and references, and the size of each document'),
  ],
  examples: [
    'pdfseal jobs list --config production.toml --phase failed --since 2026-11-01',
    'pdfseal jobs list --config production.toml --document-sha256 $(sha256sum <contract.pdf | cut -c-64) --json',
  ],
  async run({ config, client, phase, since, until, limit, cursor, wide, ...filters }) {
    await withStore(config, 'read', async (store) => {
      const query = {
        ...filters,
        clientId: client,
        ...(phase !== undefined && { outcome: OUTCOME_OF[phase] }),
        createdFrom: since,
        createdTo: until,
        before: cursor,
      };
      // One more than shown reveals whether there are more.
      const records = await newestOf(store, query, limit + 1);
      const jobs = await Promise.all(records.slice(0, limit).map((record) => present(store, record)));
      printRows(jobs, wide ? WIDE_COLUMNS : COLUMNS);
      if (records.length > limit) note(`There are more jobs: repeat this with --cursor ${jobs.at(-1)?.id}`);
    });
  },
});

const showCommand = command('show', {
  description: 'Shows one job.',
  arguments: [argument('<job_id>', 'id of the job (job_…)')],
  options: [CONFIG, option('--receipt', 'print its receipt instead, byte for byte as the API returns it')],
  examples: [
    'pdfseal jobs show job_019… --config production.toml',
    'pdfseal jobs show job_019… --config production.toml --receipt >contract.pdf.receipt.json',
  ],
  async run({ config, receipt }, jobId) {
    await withStore(config, 'read', async (store) => {
      const record = await store.jobs.get(jobId);
      if (record === undefined) throw new OperatorError(`there is no job ${jobId}`, { code: 'not_found' });
      if (!receipt) {
        const job = await present(store, record);
        return printResult(job, () => printFields(job));
      }
      if (record.outcome?.kind !== 'sealed')
        throw new OperatorError(`${jobId} is not completed and has no receipt`, {
          code: 'receipt_not_ready',
        });
      ownProcess().stdout.write(
        encodeReceipt(await readReceipt(store, record.job, record.outcome.leafIndex)),
      );
    });
  },
});

export const jobsCommand = group(
  'jobs',
  'Shows the jobs of all clients, as the store has them, with and without a running daemon. A job that is being sealed shows as ' +
    'queued.',
  [listCommand, showCommand],
);

const REFERENCE_CHARACTERS = 20;
const DIGEST_CHARACTERS = 12;

const COLUMNS: Record<string, (job: PresentedJob) => string> = {
  JOB: ({ id }) => id,
  PHASE: ({ phase }) => phase,
  CREATED: ({ created_at: at }) => toSeconds(at),
  SEALED: ({ sealed_at: at }) => (at === undefined ? '' : toSeconds(at)),
  CLIENT: ({ client }) => client,
  PURPOSE: ({ purpose = '' }) => purpose,
  REFERENCE: ({ customer_reference: text = '' }) => cut(text, REFERENCE_CHARACTERS),
  SHA256: ({ document_sha256: digest }) => cut(digest, DIGEST_CHARACTERS),
};

const WIDE_COLUMNS: typeof COLUMNS = {
  ...COLUMNS,
  REFERENCE: ({ customer_reference: text = '' }) => text,
  SHA256: ({ document_sha256: digest }) => digest,
  BYTES: ({ document }) => String('bytes' in document ? document.bytes : ''),
};

/** `2026-01-02 03:04:05`. */
function toSeconds(time: string): string {
  return time.slice(0, 19).replace('T', ' ');
}

function cut(text: string, characters: number): string {
  const all = [...text];
  return all.length <= characters ? text : `${all.slice(0, characters - 1).join('')}…`;
}

async function newestOf(
  store: Store,
  query: Omit<EveryJobQuery, 'limit'>,
  limit: number,
): Promise<JobRecord[]> {
  const found: JobRecord[] = [];
  let { before } = query;
  do {
    const page = await listEveryClient(store, {
      ...query,
      limit: limit - found.length,
      before,
    });
    found.push(...page.records);
    before = page.next;
  } while (before !== undefined && found.length < limit);
  return found;
}

type PresentedJob = Awaited<ReturnType<typeof present>>;

/** SealJob of the API, with members that only an administrator sees. */
async function present(store: Store, { job, outcome }: JobRecord) {
  const batch = outcome?.kind === 'sealed' ? await store.log.batchOf(outcome.leafIndex) : undefined;
  return {
    id: job.id,
    phase: PHASE_OF[outcome?.kind ?? 'waiting'],
    environment: environmentId(store.identity.environment),
    trace_id: job.traceId,
    client: job.clientId,
    organization: job.organization,
    visibility: job.visibility,
    mode: job.mode,
    purpose: job.purpose,
    customer_reference: job.customerReference,
    preserve_metadata: job.preserveMetadata,
    source: job.source,
    document_sha256: documentSha256(job),
    document: job.content?.document ?? { sha256: job.checksumSha256 },
    scan: job.content?.scan,
    sealed_document: job.content?.sealedDocument,
    capabilities: job.capabilities,
    created_at: toRfc3339(job.acceptedAt),
    ...(batch && { sealed_at: toRfc3339(batch.sealedAt) }),
    ...(outcome?.kind === 'sealed' && { leaf_index: outcome.leafIndex }),
    ...(outcome?.kind === 'failed' && {
      error: { code: outcome.failure.code, message: outcome.failure.message },
      failed_at: toRfc3339(outcome.failure.failedAt),
    }),
  };
}
