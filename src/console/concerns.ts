/** What needs somebody: everything in the status that is not as it should be, with what to do about it. */
import { acceptanceTrouble } from '../admin/status/acceptanceSection.ts';
import { noteState } from '../admin/status/upkeepSection.ts';
import type { AdminStatus } from '../admin/statusSchema.ts';
import { counted, fromNow } from '../base/phrases.ts';
import { formatBytes } from '../base/units.ts';
import { english } from './english.ts';
import { capitalized } from './values.ts';

export interface Concern {
  /** `bad`: documents cannot be sealed, or soon cannot be. */
  level: 'bad' | 'warning';
  what: string;
  detail: string;
  remedy: string;
  /** The page of the console that helps. */
  page?: keyof typeof english.pages;
}

/** By the section of the status that has the facts. */
const PAGES: Readonly<Record<string, Concern['page']>> = {
  upkeep: '/care',
  webhooks: '/access/webhooks',
  config: '/care/configuration',
};

/** The worst first. `now`: milliseconds since the epoch. */
export function concernsOf(status: AdminStatus, now: number): Concern[] {
  const concerns = [
    ...parts(status),
    ...partitions(status),
    ...authorities(status),
    ...witnesses(status),
    ...certificates(status),
    ...disk(status),
    ...waited(status),
    ...upkeep(status, now),
    ...webhooks(status),
    ...pending(status),
  ];
  return concerns.sort((a, b) => Number(b.level === 'bad') - Number(a.level === 'bad'));
}

function present({ severity, section, subject, part, detail, remedy }: Found): Concern {
  const page = PAGES[section];
  return {
    level: levelOf(severity),
    what: subject === part ? english.parts[part] : capitalized(subject),
    ...{ detail, remedy, ...(page && { page }) },
  };
}

function levelOf(severity: Found['severity']): Concern['level'] {
  return severity === 'critical' ? 'bad' : 'warning';
}

/** Those without which the quorum is still reached, and those whose signer has refused to sign. */
function partitions({ parts, partitions }: AdminStatus): Concern[] {
  if (parts.some(({ name, ready }) => name === 'partitions' && !ready)) return [];
  return partitions.members
    .filter(({ state, refusals }) => state !== 'ready' || refusals > 0)
    .map(({ name, state, last_error: error, returns_at: back, refusals }) => {
      if (state === 'ready')
        return warning(words.partition(name), words.partitionRefused(refusals), words.refusedRemedy);
      const remedy = back === undefined ? words.partitionRemedy : words.partitionReturns(back.slice(0, 16));
      return warning(words.partition(name), words.partitionIs(state, error), remedy);
    });
}

function authorities({ timestamps }: AdminStatus): Concern[] {
  if (timestamps === undefined || !timestamps.can_stamp) return [];
  return timestamps.authorities.flatMap(({ name, trouble }) =>
    trouble === undefined ? [] : [warning(words.authority(name), trouble, words.authorityRemedy)],
  );
}

function witnesses({ witnesses }: AdminStatus): Concern[] {
  if (witnesses === undefined || witnesses.fork_alarm || !witnesses.can_cosign) return [];
  return witnesses.members.flatMap(({ name, state, trouble, detail }) =>
    state === 'failing'
      ? [warning(words.witness(name), detail ?? trouble ?? state, words.witnessRemedy)]
      : [],
  );
}

function certificates({ certificates }: AdminStatus): Concern[] {
  return certificates
    .filter(({ urgency }) => urgency === 'soon' || urgency === 'urgent')
    .map(({ authority, role, subject, state, days_left: days = 0, detail }) => {
      const why = detail ?? (state === 'valid' ? words.certificateEnds(days) : words.certificateIs[state]);
      return warning(words.certificate(role, authority), `${subject ?? ''} ${why}`.trim(), words.renewIt);
    });
}

/** As in the alarms: with less than four times what must be free, it is nearly full. */
export function diskLevel({ disk_free_bytes: free, disk_free_bytes_min: least }: AdminStatus['store']) {
  return free < least ? 'bad' : free < 4 * least ? 'warning' : 'good';
}

/** Once it is full, the part that is not ready says so. */
function disk({ store }: AdminStatus): Concern[] {
  if (diskLevel(store) !== 'warning') return [];
  const [free, least] = [store.disk_free_bytes, store.disk_free_bytes_min].map(formatBytes);
  return [warning(words.disk, words.diskIs(String(free), String(least)), words.diskRemedy)];
}

function waited({ acceptance }: AdminStatus): Concern[] {
  const trouble = acceptance && acceptanceTrouble(acceptance);
  return trouble ? [warning(words.waited, trouble.detail, trouble.remedy)] : [];
}

function upkeep({ upkeep, store, timestamps }: AdminStatus, now: number): Concern[] {
  // A database is backed up with tools of its own, of which nothing is known here.
  const ofFiles = store.engine === 'lmdb';
  const chores = [
    ...(ofFiles ? (['backup', 'restore_drill'] as const) : []),
    'check' as const,
    ...(timestamps || upkeep.renewal ? (['renewal'] as const) : []),
  ];
  return chores.flatMap((chore) => {
    const { name, how, badly } = words.chores[chore];
    const last = upkeep[chore];
    if (last === undefined) return [warning(name, words.never, how, '/care')];
    const ago = words.last(fromNow(last.finished_at, now));
    const bad = last.undecided === undefined ? badly : words.couldNotTell(last.undecided);
    const detail = { good: undefined, bad: `${ago}; ${bad}`, late: ago, ahead: words.ahead };
    const is = noteState(chore, last, now);
    if (detail[is] === undefined) return [];
    return [warning(name, detail[is], is === 'ahead' ? words.aheadHow : how, '/care')];
  });
}

function webhooks({ webhooks: { failing, dead_letters: dead } }: AdminStatus): Concern[] {
  const { webhooks: what, webhooksRemedy, deadRemedy } = words;
  const page = '/access/webhooks';
  return [
    ...(failing > 0
      ? [warning(what, words.webhooksFail(counted(failing, 'endpoint')), webhooksRemedy, page)]
      : []),
    ...(dead > 0 ? [warning(what, words.deadLetters(counted(dead, 'dead letter')), deadRemedy, page)] : []),
  ];
}

function pending({ config }: AdminStatus): Concern[] {
  if (config.pending.length === 0) return [];
  const waits = words.configWaits(config.pending.join(', '));
  return [warning(words.config, waits, words.configRemedy, '/care/configuration')];
}
