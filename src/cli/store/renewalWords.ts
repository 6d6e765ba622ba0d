/** Texts about surveys and renewals, for people and programs. */
import { describeSubject } from '../../asn1/certificate.ts';
import { toHex } from '../../base/bytes.ts';
import { toRfc3339 } from '../../base/clock.ts';
import { sha256 } from '../../base/crypto.ts';
import { counted } from '../../base/phrases.ts';
import type { StandingTimestamps } from '../../prove/renewal/renewalSurvey.ts';
import { describeTheft } from '../../prove/renewal/thefts.ts';
import type { RenewalRun } from '../../store/renewalStore.ts';
import { print } from '../terminal.ts';
import { forPeople } from '../times.ts';
import type { Judged, Survey } from './renewRun.ts';

/** A committed run, and the facts that its tokens prove. */
export interface Made {
  run: RenewalRun;
  judged: Judged[];
}

export function printSurvey({ standing, first, reason, lost, thefts }: Survey, now: true | undefined): void {
  for (const one of standing) {
    const { at, reason } = one.due ?? { at: 0, reason: 'no time-stamp' };
    print(`${nameOf(one)}: ${at === 0 ? reason : `until ${forPeople(toRfc3339(at))}, because ${reason}`}`);
  }
  if (lost > 0)
    print(
      `no longer proven: ${counted(lost, 'checkpoint')}, whose time-stamps ended before they were renewed`,
    );
  for (const theft of thefts) print(describeTheft(theft));
  if (standing.length === 0) print('nothing was sealed yet');
  else if (reason !== undefined) print(`due: ${reason}`);
  else if (!now) print(first === undefined ? 'nothing is stamped, and nothing is due' : 'nothing is due');
}

function nameOf({ run, authority, batches = 0, leaf, digest, signatures }: StandingTimestamps): string {
  const algorithms = [digest, ...signatures].join(', ');
  if (run !== undefined) return `renewal ${run}, by ${authority} (${algorithms})`;
  return `${counted(batches, 'checkpoint')} from leaf ${leaf} (${signatures.length === 0 ? 'bare' : algorithms})`;
}

export function printMade({ run: { number, digest, to, tokens }, judged }: Made): void {
  const names = tokens.map(({ authority }) => authority).join(' and ');
  print(`renewal ${number}: ${names} stamped everything up to leaf ${to}, with ${digest}`);
  for (const { token, genTime, due } of judged)
    print(`  ${token.authority}: ${toRfc3339(genTime)}, holds until ${forPeople(toRfc3339(due.at))}`);
}

export function surveyJson({ standing, digest, first, reason, lost, thefts }: Survey) {
  return {
    due: reason ?? null,
    ends_at: first === undefined ? null : toRfc3339(first.at),
    digest,
    no_longer_proven: lost,
    known_thefts: thefts.map(({ root, since, run }) => ({
      subject: describeSubject(root),
      root_sha256: toHex(sha256(root.der)),
      since: toRfc3339(since),
      renewal: run ?? null,
    })),
    standing: standing.map(({ run, authority, batches, leaf, digest, signatures, due }) => ({
      ...(run === undefined ? { checkpoints: batches, leaf } : { renewal: run, authority }),
      digest,
      signatures,
      ends_at: due === undefined ? null : toRfc3339(due.at),
      because: due?.reason ?? null,
    })),
  };
}

export function madeJson({ run: { number, digest, from, to }, judged }: Made) {
  return {
    renewal: number,
    digest,
    from,
    to,
    stamps: judged.map(({ token, genTime, due }) => ({
      authority: token.authority,
      gen_time: toRfc3339(genTime),
      holds_until: toRfc3339(due.at),
    })),
  };
}
