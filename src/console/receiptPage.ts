/** The page of a job: its record, the verdict that the browser computes, and the files. */
import { BoundedSet } from '../base/bounded.ts';
import { toRfc3339 } from '../base/clock.ts';
import type { Role } from '../base/people.ts';
import type { Job, JobRecord, Outcome, Sealed } from '../job/job.ts';
import { actBy } from '../store/acts.ts';
import type { Batch } from '../store/store.ts';
import { english } from './english.ts';
import { dropZone } from './fileDrop.ts';
import { code, type Html, type HtmlContent, html, named } from './html.ts';
import {
  type Download,
  type Page,
  Refusal,
  reading,
  type ScreenRequest,
  type ScreenRoute,
} from './screen.ts';
import { reaches, type Session } from './sessions.ts';
import type { Sources } from './sources.ts';
import { card, definitions, figure, moment, sign, state } from './values.ts';

const words = english.find;
const JSON_TYPE = 'application/json';

export function jobRoutes(sources: Sources): ScreenRoute[] {
  const { evidence } = sources;
  const get = (path: string, answer: ScreenRoute['answer'], role?: Role) =>
    reading(`/find/${path}`, answer, role);
  const file = (
    name: string,
    type: string,
    read: (sealed: SealedJob, request: ScreenRequest) => Body,
    role?: Role,
  ) =>
    get(
      `:id/${name}`,
      async (request): Promise<Download> => {
        const sealed = await sealedJob(sources, request);
        const body = await read(sealed, request);
        if (body === undefined) throw new Refusal(404, words.noFile, words.noFileHow);
        return { fileName: `${sealed.job.id}.${name}`, type, body };
      },
      role,
    );
  /** The reading of a document is on record before any of it is sent. */
  const document = async (body: Awaited<Body>, { job }: SealedJob, request: ScreenRequest) => {
    if (body !== undefined) await recordReading(sources, job, request);
    return body;
  };
  return [
    get('trust.json', () => ({ fileName: 'trust.json', type: JSON_TYPE, body: evidence.trust() })),
    get(':id', (request) => jobPage(sources, request)),
    file('receipt.json', JSON_TYPE, ({ job, outcome }) => evidence.receipt(job, outcome)),
    file('bundle.json', JSON_TYPE, ({ job, outcome }, { session }) =>
      evidence.bundle(job, outcome, session.person.name),
    ),
    file('tlog-proof', 'text/plain; charset=utf-8', ({ job, outcome }) => evidence.proof(job, outcome)),
    file('ers', 'application/octet-stream', ({ batch }, { session }) =>
      evidence.record(batch, session.person.name),
    ),
    file('sealed-pdf.suffix', 'application/octet-stream', ({ job, outcome }) =>
      evidence.suffix(job, outcome),
    ),
    file('document.pdf', 'application/pdf', async (sealed, request) =>
      document(await evidence.copy(sealed.job), sealed, request),
    ),
    file(
      'sealed.pdf',
      'application/pdf',
      async (sealed, request) => {
        if (!sources.givesSealedPdfs) throw new Refusal(403, words.sealedPdfsOff, words.sealedPdfsOffHow);
        return document(await evidence.sealedPdf(sealed.job, sealed.outcome), sealed, request);
      },
      SEALED_PDF_ROLE,
    ),
  ];
}

/** The role that may download sealed PDFs, if the configuration allows it at all. */
const SEALED_PDF_ROLE = 'administrator';

/** For each session, the jobs whose documents it has read most recently. One record of each is enough until the session ends. */
const READ = new WeakMap<Session, BoundedSet<string>>();
const READ_MAX = 1_000;

/** Must complete before anything is sent, because a customer's document leaves the service. */
async function recordReading(
  { store }: Sources,
  { id, clientId }: Job,
  { session, actor }: ScreenRequest,
): Promise<void> {
  const read = READ.get(session) ?? new BoundedSet<string>({ max: READ_MAX, whenFull: 'forget the oldest' });
  if (read.has(id)) return;
  await store.trail.append(actBy(actor, 'document.read', { job: id, client: clientId }));
  read.add(id);
  READ.set(session, read);
}

type Body = Promise<Download['body'] | undefined>;

interface SealedJob {
  job: Job;
  outcome: Sealed;
  batch: Batch;
}

async function jobOf({ store }: Sources, { params }: ScreenRequest): Promise<JobRecord> {
  const record = await store.jobs.get(params.id ?? '');
  if (record === undefined) throw new Refusal(404, words.noJob, words.noJobHow);
  return record;
}

async function sealedJob(sources: Sources, request: ScreenRequest): Promise<SealedJob> {
  const { job, outcome } = await jobOf(sources, request);
  const batch = outcome?.kind === 'sealed' ? await sources.store.log.batchOf(outcome.leafIndex) : undefined;
  if (outcome?.kind !== 'sealed' || batch === undefined)
    throw new Refusal(404, words.noFile, words.noFileHow);
  return { job, outcome, batch };
}

async function jobPage(sources: Sources, request: ScreenRequest): Promise<Page> {
  const { job, outcome } = await jobOf(sources, request);
  const head = (title: string) =>
    html`<div><p class="small"><a href="/find">← ${words.back}</a></p><h1>${title}</h1></div>`;
  if (outcome?.kind !== 'sealed')
    return {
      title: words.job,
      main: html`${head(words.job)}${unsealed(outcome)}${facts(job, outcome)}`,
    };
  const { batch } = await sealedJob(sources, request);
  const { evidence } = sources;
  const hasCopy = (await evidence.copy(job)) !== undefined;
  const hasSuffix = job.content?.attachment !== undefined;
  const hasSealedPdf = hasSuffix && (await evidence.sealedPdf(job, outcome)) !== undefined;
  const { role } = request.session.person;
  const givesSealedPdf = hasSealedPdf && sources.givesSealedPdfs && reaches(role, SEALED_PDF_ROLE);
  const { witnessed } = await sources.store.witnessing.get();
  const isWitnessed = (witnessed?.treeSize ?? 0) > outcome.leafIndex;
  return {
    title: words.receipt,
    script: 'receipt',
    main: html`<div class="title">${head(words.receipt)}<button type="button" id="print" hidden>${words.print}</button></div>
<section class="health" id="verdict" role="status" data-receipt="/find/${job.id}/receipt.json" data-trust="/find/trust.json" data-failed="${words.checkFailed}" data-failed-how="${words.checkFailedHow}"><p>${words.checking}</p><noscript><p>${words.checkNeedsScript}</p></noscript></section>
<p class="small quiet">${words.checkedAgainst}</p>
<div class="columns">
${facts(job, outcome, { batch, hasSealedPdf })}
<div class="group">
${downloads(job, { hasCopy, hasSuffix, givesSealedPdf, isWitnessed, isStamped: batch.timestamp !== undefined })}
${card(words.compare, dropZone(words.compareDrop, words.dropNote))}
</div>
</div>
<div class="group" id="report"></div>`,
  };
}

function unsealed(outcome: Exclude<Outcome, Sealed> | undefined): Html {
  const mark = outcome === undefined ? 'warning' : 'bad';
  const [title, how] =
    outcome === undefined
      ? [words.waits, words.waitsHow]
      : [words.failed, words.failedHow(outcome.failure.code)];
  return html`<section class="health ${mark}"><div class="verdict">${sign(mark)}<div><h2>${title}</h2>
${outcome && html`<p class="long">${outcome.failure.message}</p>`}<p class="remedy">${how}</p></div></div></section>`;
}

function facts(
  job: Job,
  outcome: Outcome | undefined,
  { batch, hasSealedPdf }: { batch?: Batch; hasSealedPdf?: boolean } = {},
): Html {
  const { factNames: names } = words;
  const { content } = job;
  const whereabouts = hasSealedPdf === undefined ? 'waiting' : hasSealedPdf ? 'kept' : 'gone';
  const sealedPdf = content?.attachment === undefined ? 'none' : whereabouts;
  const sha256 = content?.document.sha256 ?? job.checksumSha256;
  const pairs: [string, HtmlContent][] = [
    [names.sealed, batch && time(batch.sealedAt)],
    [names.failedAt, outcome?.kind === 'failed' && time(outcome.failure.failedAt)],
    [names.accepted, time(job.acceptedAt)],
    [names.client, named(job.clientId)],
    [names.organization, named(job.organization)],
    [names.reference, job.customerReference === undefined ? words.noReference : named(job.customerReference)],
    [names.purpose, job.purpose === undefined ? words.noReference : named(job.purpose)],
    [names.scan, scanOf(job)],
    [names.visibility, words.visibilities[job.visibility]],
    [names.source, words.sources[job.source]],
    [names.bytes, content && words.bytes(figure(content.document.bytes))],
    [names.document, sha256 === undefined ? undefined : code(sha256)],
    [names.copy, content?.sealedDocument && code(content.sealedDocument.sha256)],
    [names.sealedPdf, outcome?.kind !== 'failed' && content && words.sealedPdfs[sealedPdf]],
    [names.job, code(job.id)],
    [names.trace, code(job.traceId)],
    [names.leaf, outcome?.kind === 'sealed' ? words.leafOf(figure(outcome.leafIndex)) : undefined],
  ];
  return card(words.facts, definitions(pairs));
}

function time(at: number): Html {
  return moment(toRfc3339(at));
}

function scanOf({ content }: Job): HtmlContent {
  if (content === undefined) return words.unscanned;
  const { verdict, engine } = content.scan;
  const isClean = verdict === 'clean';
  return html`${state(isClean ? 'good' : 'warning', words.scans[verdict])}${engine !== undefined && html` <span class="quiet">${named(engine)}</span>`}`;
}

interface Offered {
  hasCopy: boolean;
  hasSuffix: boolean;
  givesSealedPdf: boolean;
  isStamped: boolean;
  isWitnessed: boolean;
}

function downloads(job: Job, { hasCopy, hasSuffix, givesSealedPdf, isStamped, isWitnessed }: Offered): Html {
  const { files } = words;
  const item = (href: string, name: string, note: string) =>
    html`<li><a href="${href}" download>${name}</a> <span class="small quiet">${note}</span></li>`;
  const of = (name: string) => `/find/${job.id}/${name}`;
  return html`<section class="card downloads"><h2>${words.downloads}</h2><ul>
${item(of('receipt.json'), files.receipt, files.receiptNote)}
${isWitnessed && item(of('bundle.json'), files.bundle, files.bundleNote)}
${isStamped && item(of('ers'), files.record, files.recordNote)}
${item(of('tlog-proof'), files.proof, files.proofNote)}
${givesSealedPdf && item(of('sealed.pdf'), files.sealedPdf, files.sealedPdfNote)}
${hasSuffix && item(of('sealed-pdf.suffix'), files.suffix, files.suffixNote)}
${hasCopy && item(of('document.pdf'), files.copy, files.copyNote)}
${item('/find/trust.json', files.trust, files.trustNote)}
</ul></section>`;
}
