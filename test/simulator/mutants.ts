/**
 * Daemons that break a promise on purpose: one line of the source is replaced when it is loaded. `node --import ./test/simulator/mutants.ts`
 * makes the one that `PDFSEALD_MUTANT` names.
 */
import { registerHooks } from 'node:module';

export interface Mutant {
  /** Of `src`. */
  file: string;
  line: string;
  instead: string;
}

export const MUTANTS: Readonly<Record<string, Mutant>> = {
  'answers before its batch is durable': {
    file: 'seal/pipeline.ts',
    line: 'const outcome = await committing;',
    instead: 'const outcome = true;',
  },
  'keeps what was drafted on a batch that was thrown away': {
    file: 'seal/pipeline.ts',
    line: 'const lost = this.#flights.slice(this.#flights.indexOf(flight));',
    instead: 'const lost = [flight];',
  },
  'commits a batch before the one that it was drafted on': {
    file: 'seal/pipeline.ts',
    line: 'await ahead?.landed;',
    instead: '',
  },
  'makes a job durable by itself and with its batch': {
    file: 'seal/pipeline.ts',
    line: 'while (jobs.some(({ keeping }) => keeping)) await Promise.all(jobs.map(({ keeping }) => keeping));',
    instead: '',
  },
  'makes a job durable by itself after its batch': {
    file: 'seal/pendingJobs.ts',
    line: 'while (pending.committing !== undefined) await pending.committing;',
    instead: '',
  },
  'seals records after the jobs of clients': {
    file: 'seal/sealQueue.ts',
    line: 'return [...records, ...this.#takeOthers(Math.max(max - records.length, 0))];',
    instead:
      'if (this.#others.size === 0) return records; this.#records = records; return this.#takeOthers(max);',
  },
  'believes a clock that goes back': {
    file: 'seal/pipeline.ts',
    line: 'const sealedAt = Math.max(clock(), last(), signing.epoch.from);',
    instead: 'const sealedAt = Math.max(clock(), signing.epoch.from + 0 * last());',
  },
  'refuses a job that is being made durable': {
    file: 'seal/pendingJobs.ts',
    line: 'if (isInMemory && one.keeping === undefined) this.end(one, obstacle);',
    instead: 'if (isInMemory) this.end(one, obstacle);',
  },
  'goes on with a batch that was thrown away': {
    file: 'seal/pipeline.ts',
    line: 'await ahead?.landed;\n      this.#requireUnderWay(flight);',
    instead: 'await ahead?.landed;',
  },
  'seals on in a fork': {
    file: 'seal/pipeline.ts',
    line: "if (flight.state === 'stamped' && this.#options.isForked?.()) throw forkAlarm();",
    instead: '',
  },
  'shows its witnesses a batch after the fork alarm': {
    file: 'seal/pipeline.ts',
    line: 'if (this.#options.isForked?.()) throw forkAlarm();\n    // If we stop before',
    instead: '// If we stop before',
  },
  'forgets the batch that a witness has seen': {
    file: 'seal/openSealer.ts',
    line: 'if (announced !== undefined) await pipeline.resume(announced, waiting);',
    instead: '',
  },
  'shows a witness a batch that it does not hold to': {
    file: 'seal/pipeline.ts',
    line: 'if (!(await this.#options.store.log.announce(announced))) throw new NotNow();',
    instead: 'void announced;',
  },
  'gives up what it announced when it stops': {
    file: 'seal/pipeline.ts',
    line: "const returned = lost.filter(({ state }) => state !== 'announced');",
    instead: 'const returned = lost;',
  },
  'sleeps through a new job': {
    file: 'seal/pendingJobs.ts',
    line: 'this.queue.add(pending);\n    this.wake();',
    instead: 'this.queue.add(pending);',
  },
  'signs under an epoch whose plan is not sealed': {
    file: 'seal/signing.ts',
    line: 'if (epochs.revision > this.#epochs.revision) await onChange?.();',
    instead: '',
  },
  'ends a job before its time': {
    file: 'seal/pendingJobs.ts',
    line: 'this.waitedMs(job) >= this.#options.giveUpAfterMs;',
    instead: 'this.waitedMs(job) >= this.#options.giveUpAfterMs / 2;',
  },
  'tells a caller who hangs up nothing durable': {
    file: 'seal/sealer.ts',
    line: 'return (await pending.settled(signal)) ?? this.#pending.keep(pending);',
    instead: 'return pending.settled(signal);',
  },
  'seals without a time-stamp': {
    file: 'seal/pipeline.ts',
    line: "if (term.epoch.timestamps === 'required') {",
    instead: 'if (flight.jobs.length <= 2) {',
  },
  'forgets jobs of a batch that was thrown away': {
    file: 'seal/pipeline.ts',
    line: 'this.#pending.queue.putBack(returned.flatMap(({ jobs }) => jobs));',
    instead: 'this.#pending.queue.putBack(returned.slice(0, 1).flatMap(({ jobs }) => jobs));',
  },
  'signs another checkpoint than it keeps': {
    file: 'seal/pipeline.ts',
    line: 'await signing.sign(term, draft.text, growth);',
    instead: "await signing.sign(term, draft.text.replace('seal.', 'sea1.'), growth);",
  },
  'has a new signer believe a tree that may yet be given up': {
    file: 'seal/draft.ts',
    line: 'return { ...(await stepFrom(committed)), isCommitted: true };',
    instead: 'return { ...(await stepFrom(base)), isCommitted: true };',
  },
  'shows a signer no way from what was given up': {
    file: 'seal/draft.ts',
    line: 'trees.filter((tree) => tree.size <= base.size).toReversed()',
    instead: 'trees.slice(-1)',
  },
  'does not tell a signer which batches were joined': {
    file: 'seal/draft.ts',
    line: '    draftedOn,\n',
    instead: '',
  },
  'time-stamps something else': {
    file: 'seal/pipeline.ts',
    line: 'timestamping.stamp(batch.checkpoint,',
    instead: 'timestamping.stamp(flight.draft.text,',
  },
  'gives a job the leaf of another': {
    file: 'seal/draft.ts',
    line: 'data: leafData(manifestOf(job, identity.environment, sealedAt)),',
    instead: 'data: leafData(manifestOf(jobs[0] ?? job, identity.environment, sealedAt)),',
  },
  'takes fewer signatures than the quorum': {
    file: 'kms/partitions.ts',
    line: 'if (!this.#suffice(signatures)) throw belowQuorum();',
    instead: 'if (signatures.size === 0) throw belowQuorum();',
  },
  'does not stop': {
    file: 'seal/sealingLoop.ts',
    line: 'const patience = setTimeout(() => this.#pipeline.cutOff(), CLOSE_MS_MAX);',
    instead: 'const patience = setTimeout(() => {}, CLOSE_MS_MAX);',
  },
  'takes a failed delivery for a good one': {
    file: 'webhook/deliver.ts',
    line: "const isDelivered = 'status' in answer && answer.status >= 200 && answer.status <= 299;",
    instead: "const isDelivered = 'status' in answer;",
  },
  'gives a message up one attempt early': {
    file: 'webhook/deliver.ts',
    line: 'const delayMs = nextDelayMs(this.#options, delivery.attempts + 1, retryAfterMs);',
    instead: 'const delayMs = nextDelayMs(this.#options, delivery.attempts + 2, retryAfterMs);',
  },
  'repeats a message at once': {
    file: 'webhook/deliver.ts',
    line: 'const dueAt = Math.ceil(this.#now + delayMs);',
    instead: 'const dueAt = Math.ceil(this.#now + 0 * delayMs);',
  },
  'does not wait as long as an endpoint asks': {
    file: 'webhook/deliver.ts',
    line: 'const retryAfterMs = parseRetryAfterMs(answer?.retryAfter, failure.at);',
    instead: 'const retryAfterMs = 0 * (parseRetryAfterMs(answer?.retryAfter, failure.at) ?? 0);',
  },
  'goes on sending to a disabled endpoint': {
    file: 'webhook/endpointQueue.ts',
    line: 'if (this.endpoint.disabled !== undefined || free <= 0) return false;',
    instead: 'if (free <= 0) return false;',
  },
  'sends a message twice at a time': {
    file: 'webhook/deliver.ts',
    line: 'const open = pending.filter(({ webhookId }) => !queue.inFlight.has(webhookId));',
    instead: 'const open = pending; queue.inFlight.clear();',
  },
  'forgets a new message': {
    file: 'webhook/deliver.ts',
    line: 'if (queue) queue.lookAt = 0;',
    instead: '',
  },
  'lets one endpoint take more than its share': {
    file: 'webhook/endpointQueue.ts',
    line: 'this.inFlight.size < perEndpointMax && free > reserve',
    instead: 'this.inFlight.size <= perEndpointMax && free > reserve',
  },
  'lets failing endpoints hold up the others': {
    file: 'webhook/endpointQueue.ts',
    line: 'if (this.isFailing) return this.inFlight.size === 0 && failingInFlight < reserve;',
    instead: 'if (this.isFailing) return failingInFlight >= 0;',
  },
  'forgets what is due later': {
    file: 'webhook/deliver.ts',
    line: 'queue.lookAt = Math.min(queue.lookAt, open.find((one) => !isDue(one))?.at ?? queue.lookAt);',
    instead: '',
  },
  'does not stop while an endpoint hangs': {
    file: 'webhook/deliver.ts',
    line: 'const patience = setTimeout(() => this.#cutOff(), CLOSE_MS_MAX);',
    instead: 'const patience = setTimeout(() => {}, CLOSE_MS_MAX);',
  },
};

const wanted = process.env.PDFSEALD_MUTANT;
if (wanted !== undefined) {
  const mutant = MUTANTS[wanted];
  if (mutant === undefined) throw new Error(`there is no mutant "${wanted}"`);
  const { file, line, instead } = mutant;
  registerHooks({
    load(url, context, next) {
      const loaded = next(url, context);
      if (!url.endsWith(`/src/${file}`)) return loaded;
      const parts = String(loaded.source).split(line);
      if (parts.length !== 2)
        throw new Error(`${file} has the line of "${wanted}" ${parts.length - 1} times`);
      return { ...loaded, source: parts.join(instead) };
    },
  });
}
