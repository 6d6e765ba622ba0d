/** A log in memory, with batches of any time, and authorities whose certificates end. */
import type { Certificate } from '../../src/asn1/certificate.ts';
import type { RecordVerification } from '../../src/asn1/evidenceRecord.ts';
import { assert } from '../../src/base/assert.ts';
import { fromUtf8, toBase64 } from '../../src/base/bytes.ts';
import type { DigestName } from '../../src/base/crypto.ts';
import { digestOf } from '../../src/base/crypto.ts';
import type { Act } from '../../src/manifest/auditRecord.ts';
import type { TrustedAuthority } from '../../src/manifest/trustFile.ts';
import { chooseWays } from '../../src/prove/renewal/renewalPath.ts';
import {
  auditedRun,
  commitRun,
  draftRun,
  judgeRenewal,
  nextRun,
  RenewedElsewhere,
} from '../../src/prove/renewal/renewalRun.ts';
import { tokenStandings } from '../../src/prove/renewal/renewalStandings.ts';
import { RenewalTrees } from '../../src/prove/renewal/renewals.ts';
import { keptTheft, type Theft, theftsOf } from '../../src/prove/renewal/thefts.ts';
import { isLast } from '../../src/prove/verify/timestampCheck.ts';
import { actOfProcess } from '../../src/store/acts.ts';
import {
  isDraftOf,
  isRunOfDraft,
  isSameDraft,
  type RenewalDraft,
  type RenewalRun,
  type RenewalStore,
  type RenewalSurvey,
  type RenewalTile,
  type RenewalToken,
} from '../../src/store/renewalStore.ts';
import type { Batch, Store } from '../../src/store/store.ts';
import { issueTimestampingCertificate } from '../../src/tsa/pki.ts';
import { BEGIN, DAY_MS, HeldClock, makeAuthority, makePki, makeToken, type Pki } from './authority.ts';

export const YEAR_MS = 365 * DAY_MS;

/** An authority with a new certificate each year, which is valid for so many. */
export class YearlyAuthority {
  readonly name: string;
  readonly #pki: Pki;
  readonly #certificates = new Map<number, Promise<Certificate>>();

  readonly #years: number;

  private constructor(name: string, pki: Pki, years: number) {
    this.name = name;
    this.#pki = pki;
    this.#years = years;
  }

  static async make(name: string, years = 2): Promise<YearlyAuthority> {
    return new YearlyAuthority(name, await makePki('ecdsa-p256', name), years);
  }

  get trusted(): TrustedAuthority {
    return { name: this.name, root: this.#pki.root };
  }

  /** Over that digest, at that time; its certificates are beside it. */
  async stamp(algorithm: DigestName, digest: Uint8Array, at: number): Promise<RenewalToken> {
    const { unitKey, root } = this.#pki;
    const certificate = await this.#certificateOf(Math.floor((at - BEGIN) / YEAR_MS));
    const unit = { signer: { ...unitKey, ready: true }, chain: [certificate, root] };
    const authority = makeAuthority([unit], new HeldClock(at));
    const token = await makeToken(authority, { imprint: { algorithm, digest }, certReq: false });
    return { authority: this.name, token: toBase64(token), certificates: [toBase64(certificate.der)] };
  }

  #certificateOf(year: number): Promise<Certificate> {
    const { rootKey, unitKey, root } = this.#pki;
    const notBefore = BEGIN + year * YEAR_MS;
    const made =
      this.#certificates.get(year) ??
      issueTimestampingCertificate(
        {
          subject: { organization: this.name, commonName: `TSU ${year}` },
          key: unitKey.key,
          issuer: root,
          notBefore,
          notAfter: notBefore + this.#years * YEAR_MS,
        },
        rootKey,
      );
    this.#certificates.set(year, made);
    return made;
  }
}

/** Batches and renewals in memory. */
export class MemoryLog {
  readonly batches: Batch[] = [];
  /** The audit records of the runs. */
  readonly acts: Act[] = [];
  readonly #runs: RenewalRun[] = [];
  readonly #rows = new Map<string, RenewalTile[]>();
  #draft: RenewalDraft | undefined;
  #survey: RenewalSurvey | undefined;

  readonly log = {
    head: async () => this.batches.at(-1),
    batchOf: async (leaf: number) => this.batches.find(({ treeSize }) => treeSize > leaf),
    batchAt: async (size: number) => this.batches.find(({ treeSize }) => treeSize === size),
  };

  readonly renewals: RenewalStore = {
    runs: async () => [...this.#runs],
    row: async (run, row) => this.#rows.get(`${run} ${row}`),
    draft: async () => this.#draft,
    keepDraft: async (draft, former) => {
      if (draft.number <= this.#runs.length || !isSameDraft(this.#draft, former)) return false;
      for (const key of isDraftOf(this.#draft, draft) ? [] : this.#rows.keys())
        if (key.startsWith(`${draft.number} `)) this.#rows.delete(key);
      this.#draft = draft;
      return true;
    },
    addRow: async (run, row, tiles) => {
      if (!isDraftOf(this.#draft, run)) return false;
      this.#rows.set(`${run.number} ${row}`, [...tiles]);
      return true;
    },
    commit: async (run, act) => {
      if (!isRunOfDraft(this.#draft, run)) return false;
      this.#runs.push(run);
      if (act !== null) this.acts.push(act);
      this.#draft = undefined;
      this.#survey = undefined;
      return true;
    },
    survey: async () => this.#survey,
    keepSurvey: async (survey) => {
      this.#survey = survey;
    },
  };

  get store(): Pick<Store, 'log' | 'renewals'> {
    return this as unknown as Pick<Store, 'log' | 'renewals'>;
  }

  /** Adds a batch of so many leaves, with a token unless there is no authority. */
  async seal(leaves: number, sealedAt: number, authority?: YearlyAuthority): Promise<Batch> {
    const firstLeaf = this.batches.at(-1)?.treeSize ?? 0;
    const treeSize = firstLeaf + leaves;
    const checkpoint = `seal.example.com/test/2026\n${treeSize}\nroot\n\n— seal.example.com/test/2026 sig\n`;
    const made = await authority?.stamp('sha512', digestOf('sha512', fromUtf8(checkpoint)), sealedAt);
    const timestamp = made && { token: made.token, certificates: made.certificates };
    const batch = {
      firstLeaf,
      treeSize,
      sealedAt,
      checkpoint,
      algorithm: 'pdfseal-v1.ed25519',
      kmsKeyId: 'eu/log',
      ...(timestamp && { timestamp }),
    };
    this.batches.push(batch);
    return batch;
  }
}

/** What a verifier who knows of a theft objects to. */
export function objectionTo(theft: Theft | undefined): NonNullable<RecordVerification['objection']> {
  return ({ chain }, at) =>
    theft && at >= theft.since && isLast(chain, theft.root) ? 'its key was stolen' : undefined;
}

/** Renews everything in a log: what `pdfseal renew` does, with tokens of these authorities. */
export async function renew(
  store: Pick<Store, 'log' | 'renewals'>,
  options: {
    digest: DigestName;
    at: number;
    authorities: readonly YearlyAuthority[];
    /** Of those whose time-stamps are in the log; default: those that stamp now. */
    trusted?: readonly TrustedAuthority[];
    theft?: Theft;
    /** When the ways of records were chosen, if that was earlier: no daemon would take such a time-stamp. */
    draftedAt?: number;
    width?: number;
  },
): Promise<RenewalRun> {
  const { digest, at, authorities, theft, draftedAt = at, width } = options;
  const trusted = options.trusted ?? authorities.map((one) => one.trusted);
  const runs = await store.renewals.runs();
  const trees = new RenewalTrees(store, runs, width);
  const thefts = theft ? [keptTheft(theft)] : [];
  const ways = chooseWays(runs, tokenStandings(trusted, theftsOf([...runs, { thefts }])), draftedAt);
  const next = await nextRun(store, runs, digest, ways);
  const drafted = await draftRun(store, trees, { ...next, at, thefts });
  const tokens = await Promise.all(authorities.map((one) => one.stamp(digest, drafted.root, at)));
  for (const token of tokens)
    assert(!('fault' in judgeRenewal(token, drafted, trusted)), 'a token is not a proof');
  const { scope, rows } = drafted;
  const act = actOfProcess(
    'command',
    'renewal.run',
    auditedRun(trees, { ...scope, rows, tokens, thefts: [...drafted.thefts] }),
  );
  const run = await commitRun(store, drafted, tokens, act);
  if (run === undefined) throw new RenewedElsewhere();
  return run;
}
