import { buffer as readBytes } from 'node:stream/consumers';
import { toBase64 } from '../../base/bytes.ts';
import { systemClock, toRfc3339 } from '../../base/clock.ts';
import { ownProcess } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import { counted } from '../../base/phrases.ts';
import { encodeRenewalQuery, newNonce, readRenewalAnswer } from '../../prove/renewal/renewalQuery.ts';
import { draftRun, endOfDraft, RenewedElsewhere } from '../../prove/renewal/renewalRun.ts';
import type { Theft } from '../../prove/renewal/thefts.ts';
import { isDraftOf, RENEWAL_DIGESTS } from '../../store/renewalStore.ts';
import { argument, command, type Given, memberOf, option, type Parameter } from '../command.ts';
import { CONFIG, parseDateArgument } from '../options.ts';
import { isJson, note, printJson, printResult } from '../terminal.ts';
import { noteChore } from './chores.ts';
import { DAY_MS, firstDue, GainsNothing, gainFault } from './renewalGain.ts';
import { type Made, madeJson, printMade, printSurvey, surveyJson } from './renewalWords.ts';
import {
  commitNow,
  draftNow,
  type Judged,
  judgeToken,
  queryToKeep,
  type Renewing,
  type Survey,
  stampNow,
  surveyNow,
  withRenewals,
} from './renewRun.ts';
import { findTheft, printTheft, readTheft, theftJson } from './theft.ts';

const HASH = option(
  '--hash <name>',
  'hash function; a change renews every checkpoint by itself (default: renewal.hash)',
  { choices: RENEWAL_DIGESTS },
);
const SHORTER = option(
  '--shorter',
  'renew also if the new time-stamp ends before the old ones, or not much later',
);
const THEFT = [
  option(
    '--distrust <file>',
    'root certificate of an authority whose key was stolen: list what depends on it',
  ),
  option('--since <date>', 'when the key was stolen, such as 2027-03-01T12:00:00Z', parseDateArgument),
] as const;
const RENEW_OPTIONS = [
  CONFIG,
  HASH,
  option('--now', 'renew also if nothing is due'),
  SHORTER,
  option('--dry-run', 'only report what is due, and until when everything is valid'),
  ...THEFT,
] as const;

type RenewOptions = Given<typeof RENEW_OPTIONS>;

export const renewCommand = command('renew', {
  description:
    'Renews the time-stamps of all checkpoints when they are due: half a year before the first of their certificates or algorithms ends, or when ' +
    'the hash function changes. One new time-stamp covers the whole log, however large it is, and receipts stay as they are. The ' +
    'evidence records (RFC 4998) that the daemon serves contain the renewals.\n\n' +
    'The running daemon gives the time-stamp. If the command is interrupted, run it again: it continues. Without ' +
    'options, you can call it at any time; a timer of the package calls it every day.\n\n' +
    'Where no network reaches the authority, `request` writes a query (RFC 3161) to standard output. Carry it to an authority that ' +
    'the configuration names in timestamp.remotes, with or without a URL. `accept` reads the answer on standard input, verifies it ' +
    'as any verifier would, and creates the renewal. For 30 days, `request` writes the same query again. If renewal.authorities is ' +
    '2, transfer the query to two authorities.',
  arguments: [
    argument('[step]', 'write a query for an outside authority, or take its answer', {
      choices: ['request', 'accept'],
    }),
  ],
  options: RENEW_OPTIONS,
  exit: {
    0: 'renewed, or nothing is due',
    1: 'not renewed, and standard error says why',
  },
  examples: [
    'pdfseal renew --config /etc/pdfseal/production.toml --dry-run',
    'pdfseal renew --config /etc/pdfseal/production.toml --hash sha384',
    'pdfseal renew --config /etc/pdfseal/production.toml --distrust acme-root.pem --since 2027-03-01',
    'pdfseal renew request --config /etc/pdfseal/production.toml >query.tsq',
    'curl -H "Content-Type: application/timestamp-query" --data-binary @query.tsq https://tsa.example.com >answer.tsr',
    'pdfseal renew accept --config /etc/pdfseal/production.toml <answer.tsr',
  ],
  misuse(options, step) {
    const { takes } = STEPS[step ?? 'renew'];
    const wrong = RENEW_OPTIONS.find((one) => memberOf(one) in options && !takes.includes(one));
    if (wrong !== undefined) return `pdfseal renew ${step} takes no ${wrong.flags.split(' ')[0]}`;
    const { distrust, since } = options;
    return (distrust === undefined) === (since === undefined)
      ? undefined
      : 'name --distrust and --since together';
  },
  run(options, step) {
    const { distrust, since } = options;
    const isTheft = distrust !== undefined && since !== undefined;
    return STEPS[step ?? 'renew'].run(options, isTheft ? readTheft(distrust, since) : undefined);
  },
});

/** The action of each step, and the options that it takes. */
const STEPS: Record<
  'renew' | 'request' | 'accept',
  { run(options: RenewOptions, theft: Theft | undefined): Promise<void>; takes: readonly Parameter[] }
> = {
  renew: { run: renew, takes: RENEW_OPTIONS },
  request: { run: request, takes: [CONFIG, HASH, ...THEFT] },
  accept: { run: accept, takes: [CONFIG, SHORTER] },
};

async function renew(options: RenewOptions, theft: Theft | undefined): Promise<void> {
  const { now, dryRun } = options;
  await withRenewals(options.config, async (renewing) => {
    const survey = await surveyNow(renewing, options.hash);
    const found = theft && (await findTheft(renewing, theft));
    if (!isJson() && theft && found) printTheft(found, theft);
    else if (!isJson()) printSurvey(survey, now);
    const isWanted = !dryRun && (now || (survey.reason !== undefined && !theft));
    const outcome = isWanted
      ? await renewNow(renewing, survey, options, theft).catch((error: unknown) => {
          // The time-stamps have no fault if nothing was due, or if another process renews them.
          if (survey.reason !== undefined && !(error instanceof RenewedElsewhere))
            noteRenewal(renewing, survey.size, false, survey.announced?.at);
          throw error;
        })
      : undefined;
    const [made, refused] = outcome instanceof GainsNothing ? [undefined, outcome] : [outcome];
    // Reading the log does not show whether due time-stamps were renewed.
    if (!dryRun && (now || !theft))
      noteRenewal(renewing, survey.size, true, made ? firstDue(made.judged).at : survey.announced?.at);
    const renewed = { renewed: made ? madeJson(made) : null, refused: refused?.message };
    if (isJson())
      printJson({ ...surveyJson(survey), ...(found && { distrusted: theftJson(found) }), ...renewed });
    else if (made !== undefined) printMade(made);
  });
}

/** Notes the result for status, metrics and doctor. */
function noteRenewal(
  { config }: Renewing,
  size: number,
  good: boolean,
  holdsUntil: number | undefined,
): void {
  // 0: no root vouches for it, so the end of its validity is unknown.
  const end = holdsUntil ? { holds_until: toRfc3339(holdsUntil) } : {};
  noteChore(config.stateDir, 'renewal', { good, tree_size: size, ...end });
}

/** Up to this long before the end, a renewal waits for an authority whose certificate ends later. */
const WAIT_MS_MAX = 90 * DAY_MS;

/**
 * Returns the reason why nothing is renewed if there is time to wait for a better certificate. After a theft, records go on with tokens of
 * other authorities, without any of the stolen key.
 */
async function renewNow(
  renewing: Renewing,
  survey: Survey,
  options: RenewOptions,
  theft: Theft | undefined,
): Promise<Made | GainsNothing> {
  const { store, runs } = renewing;
  const { first, announced, digest } = survey;
  if (first?.ofDigest !== undefined && first.ofDigest === digest)
    throw new OperatorError(
      `${digest} may be relied on until ${toRfc3339(first.at).slice(0, 10)} only: nothing is renewed`,
      {
        remedy: 'name another one: renewal.hash in the configuration, or --hash',
      },
    );
  const query = theft ? undefined : await queryToKeep(renewing, survey, options.hash);
  if (query) note(`a query is open: this is the renewal that it requests, with ${query.digest}`);
  const drafted = await draftNow(renewing, digest, { theft, query });
  const draft = await store.renewals.draft();
  // The form that the option takes: whole seconds.
  const since = theft && toRfc3339(theft.since).replace('.000', '');
  const request = theft && `pdfseal renew request --distrust ${options.distrust} --since ${since}`;
  const asked = options.now !== undefined || drafted.scope.digest !== (runs.at(-1)?.digest ?? 'sha512');
  const gain = { first, asked, shorter: options.shorter };
  try {
    const judged = await stampNow(renewing, drafted, { kept: draft?.tokens ?? [], gain, request });
    return { run: await commitNow(renewing, drafted, judged), judged };
  } catch (error) {
    const isTime = !asked && announced !== undefined && announced.at - systemClock() >= WAIT_MS_MAX;
    if (!(error instanceof GainsNothing && isTime)) throw error;
    note(`${error.message} yet`);
    note(`  → ${error.remedy}`);
    return error;
  }
}

async function request({ config, hash }: RenewOptions, theft: Theft | undefined): Promise<void> {
  if (ownProcess().stdout.isTTY && !isJson())
    throw new OperatorError('the query is binary', {
      remedy: 'send it to a file: pdfseal renew request >query.tsq',
    });
  await withRenewals(config, async (renewing) => {
    const { renewals } = renewing.store;
    const survey = await surveyNow(renewing, hash);
    if (theft) await findTheft(renewing, theft);
    const drafted = await draftNow(renewing, survey.digest, { theft });
    const draft = await renewals.draft();
    const nonce = draft?.nonce ?? newNonce();
    if (!isDraftOf(draft, drafted.scope) || !(await renewals.keepDraft({ ...draft, nonce }, draft)))
      throw new RenewedElsewhere();
    const until = toRfc3339(endOfDraft({ ...draft, nonce }));
    const query = encodeRenewalQuery(drafted, nonce);
    const { number, digest, to } = drafted.scope;
    if (isJson())
      return printJson({ renewal: number, digest, to, query: toBase64(query), answer_until: until });
    ownProcess().stdout.write(query);
    note(
      `a query for renewal ${number}, over ${counted(to, 'leaf', 'leaves')}, ${digest}: transfer it to an authority,`,
    );
    note(`  and pass its answer on until ${until}: pdfseal renew accept <answer.tsr`);
  });
}

async function accept({ config: file, shorter }: RenewOptions): Promise<void> {
  const answer = await readBytes(ownProcess().stdin);
  await withRenewals(file, async (renewing) => {
    const { store, trees, authorities, config } = renewing;
    const draft = await store.renewals.draft();
    if (draft?.nonce === undefined)
      throw new OperatorError(
        'no query is open: this answer belongs to none, or its renewal is done already',
        { remedy: 'write a query: pdfseal renew request >query.tsq' },
      );
    const drafted = await draftRun(store, trees, draft);
    const token = readRenewalAnswer(answer, drafted, draft.nonce, authorities);
    const judged: Judged[] = [];
    for (const one of [...(draft.tokens ?? []).filter((kept) => kept.authority !== token.authority), token]) {
      const found = await judgeToken(renewing, drafted, one);
      if (!('fault' in found)) judged.push(found);
      else if (one !== token)
        note(`the earlier time-stamp of ${one.authority} cannot be used: ${found.fault}`);
      else throw new OperatorError(`the answer is not accepted: ${found.fault}`, found);
    }
    const { first } = await surveyNow(renewing, draft.digest);
    for (const one of judged) {
      const refused = gainFault(one, { first, asked: true, shorter });
      if (refused) throw new GainsNothing(refused);
    }
    const needed = config.renewal.authorities;
    if (judged.length < needed) {
      const tokens = judged.map(({ token }) => token);
      if (!(await store.renewals.keepDraft({ ...draft, tokens }, draft))) throw new RenewedElsewhere();
      if (isJson()) return printJson({ renewed: null, kept: token.authority });
      return note(
        `kept: ${judged.length} of ${needed} time-stamps. Carry the same query to another authority, or run pdfseal renew --now`,
      );
    }
    const made = { run: await commitNow(renewing, drafted, judged), judged };
    noteRenewal(renewing, made.run.to, true, firstDue(made.judged).at);
    printResult({ renewed: madeJson(made) }, () => printMade(made));
  });
}
