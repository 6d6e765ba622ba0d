/** HSMs that fail while the daemon seals: the module before each token returns errors, hangs, forges, or loses what it had. */
import { cpSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { forgetRefusedPins, initKey } from '../../src/kms/keyOperations.ts';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import { askAdmin } from '../support/admin.ts';
import {
  behindFaulty,
  buildFaultyModule,
  CHILD_HANGS,
  CHILD_KILLED,
  FORGERIES,
  killSigner,
  LOSSES,
  MODULE_CRASHES,
  type ModuleFault,
  type ModuleFunction,
  NO_SESSION_LEFT,
  setFault,
  TOKEN_VANISHES,
  withoutFaults,
} from '../support/faults.ts';
import { destroyKey, takeToken, tokenFolder } from '../support/tamper.ts';
import { until } from '../support/until.ts';
import type { Try } from './history.ts';
import { type PlayedRound, playRound, type Round, type RoundOptions } from './play.ts';

type Mend = () => void | Promise<void>;

/** What happens to one partition. */
export interface Affliction {
  name: string;
  /** Whether the partition signs nothing while it lasts. */
  disables: boolean;
  /** Lasts until the result is called. */
  strike(partition: PartitionOptions, round: Round): Promise<Mend> | Mend;
}

const DEVICE = {
  CKR_HOST_MEMORY: 0x2,
  CKR_GENERAL_ERROR: 0x5,
  CKR_FUNCTION_FAILED: 0x6,
  CKR_ARGUMENTS_BAD: 0x7,
  CKR_DEVICE_ERROR: 0x30,
  CKR_DEVICE_MEMORY: 0x31,
  CKR_DEVICE_REMOVED: 0x32,
  CKR_CRYPTOKI_NOT_INITIALIZED: 0x190,
  'a code of the vendor': 0x8000_1234,
  'a code that nobody knows': 0x7777,
};
const SESSION = { CKR_SESSION_CLOSED: 0xb0, CKR_SESSION_HANDLE_INVALID: 0xb3 };
const OPERATION = { CKR_OPERATION_NOT_INITIALIZED: 0x91, CKR_FUNCTION_CANCELED: 0x50 };

/** What each function may return (PKCS#11 3.0, sections 5.4 to 5.13), and what it may not. */
const RETURNS: Record<Exclude<ModuleFunction, 'C_Finalize' | 'C_DestroyObject'>, Record<string, number>> = {
  C_Initialize: { ...DEVICE, CKR_CANT_LOCK: 0xa, CKR_NEED_TO_CREATE_THREADS: 0x9 },
  C_OpenSession: {
    ...DEVICE,
    CKR_SLOT_ID_INVALID: 0x3,
    CKR_SESSION_COUNT: 0xb1,
    CKR_SESSION_PARALLEL_NOT_SUPPORTED: 0xb4,
    CKR_SESSION_READ_WRITE_SO_EXISTS: 0xb8,
    CKR_TOKEN_NOT_PRESENT: 0xe0,
    CKR_TOKEN_NOT_RECOGNIZED: 0xe1,
    CKR_TOKEN_WRITE_PROTECTED: 0xe2,
  },
  C_Login: {
    ...DEVICE,
    ...SESSION,
    ...OPERATION,
    CKR_PIN_INCORRECT: 0xa0,
    CKR_PIN_INVALID: 0xa1,
    CKR_PIN_LEN_RANGE: 0xa2,
    CKR_PIN_EXPIRED: 0xa3,
    CKR_PIN_LOCKED: 0xa4,
    CKR_SESSION_READ_ONLY_EXISTS: 0xb7,
    CKR_USER_ALREADY_LOGGED_IN: 0x100,
    CKR_USER_PIN_NOT_INITIALIZED: 0x102,
    CKR_USER_TYPE_INVALID: 0x103,
    CKR_USER_ANOTHER_ALREADY_LOGGED_IN: 0x104,
    CKR_USER_TOO_MANY_TYPES: 0x105,
  },
  C_FindObjectsInit: {
    ...DEVICE,
    ...SESSION,
    CKR_ATTRIBUTE_TYPE_INVALID: 0x12,
    CKR_ATTRIBUTE_VALUE_INVALID: 0x13,
    CKR_OPERATION_ACTIVE: 0x90,
    CKR_PIN_EXPIRED: 0xa3,
  },
  C_FindObjects: { ...DEVICE, ...SESSION, CKR_OPERATION_NOT_INITIALIZED: 0x91 },
  C_SignInit: {
    ...DEVICE,
    ...SESSION,
    CKR_FUNCTION_CANCELED: 0x50,
    CKR_KEY_HANDLE_INVALID: 0x60,
    CKR_KEY_SIZE_RANGE: 0x62,
    CKR_KEY_TYPE_INCONSISTENT: 0x63,
    CKR_KEY_FUNCTION_NOT_PERMITTED: 0x68,
    CKR_MECHANISM_INVALID: 0x70,
    CKR_MECHANISM_PARAM_INVALID: 0x71,
    CKR_OPERATION_ACTIVE: 0x90,
    CKR_PIN_EXPIRED: 0xa3,
    CKR_USER_NOT_LOGGED_IN: 0x101,
    CKR_OPERATION_CANCEL_FAILED: 0x202,
  },
  C_Sign: {
    ...DEVICE,
    ...SESSION,
    ...OPERATION,
    CKR_DATA_INVALID: 0x20,
    CKR_DATA_LEN_RANGE: 0x21,
    CKR_USER_NOT_LOGGED_IN: 0x101,
    CKR_BUFFER_TOO_SMALL: 0x150,
    CKR_FUNCTION_REJECTED: 0x200,
    CKR_TOKEN_RESOURCE_EXCEEDED: 0x201,
  },
};
/** Only a new child calls the others. */
const SIGNING: readonly ModuleFunction[] = ['C_SignInit', 'C_Sign'];

/** Longer than the daemon waits for anything of a token. */
const HANG_MS = 600_000;
/** Every so many calls fail where not all do. */
const EVERY = 3;

function inModule(name: string, fault: ModuleFault, { disables = true, isOfStart = false } = {}): Affliction {
  return {
    name,
    disables,
    strike(partition, { daemon }) {
      setFault(partition, fault);
      if (isOfStart) killSigner(partition, daemon);
      return () => setFault(partition, undefined);
    },
  };
}

/** A refused PIN that is right is presented again after `hsm retry-pin`: the administrator's remedy. */
function withPinRetried(affliction: Affliction): Affliction {
  return {
    ...affliction,
    async strike(partition, round) {
      const mend = await affliction.strike(partition, round);
      return async () => {
        await mend();
        await forgetRefusedPins(partition);
      };
    },
  };
}

/** Another pair has the label of the key: the token was replaced. */
const KEY_CHANGED: Affliction = {
  name: 'another key',
  disables: true,
  async strike(partition, { daemon }) {
    const folder = tokenFolder(partition);
    const giveBack = takeToken(partition);
    cpSync(join(partition.pinFile, '..', 'away'), `${folder}.new`, { recursive: true });
    renameSync(`${folder}.new`, folder);
    destroyKey(withoutFaults(partition));
    await initKey(withoutFaults(partition), 'ed25519');
    killSigner(partition, daemon);
    return () => {
      rmSync(folder, { recursive: true });
      giveBack();
    };
  },
};

export const AFFLICTIONS: readonly Affliction[] = [
  ...Object.entries(RETURNS).flatMap(([called, codes]) =>
    Object.entries(codes).map(([code, value]) => {
      const fails = called as ModuleFunction;
      const isOfStart = !SIGNING.includes(fails);
      const affliction = inModule(`${code} of ${called}`, { fails, with: value }, { isOfStart });
      return fails === 'C_Login' ? withPinRetried(affliction) : affliction;
    }),
  ),
  ...SIGNING.map((fails) =>
    inModule(
      `CKR_DEVICE_ERROR of one ${fails} in ${EVERY}`,
      { fails, with: DEVICE.CKR_DEVICE_ERROR, every: EVERY },
      { disables: false },
    ),
  ),
  ...FORGERIES.map((forges) => inModule(`forged: ${forges}`, { forges })),
  ...FORGERIES.map((forges) =>
    inModule(`one in ${EVERY} forged: ${forges}`, { forges, every: EVERY }, { disables: false }),
  ),
  ...LOSSES.map((loses) => inModule(`the ${loses} lost`, { loses })),
  ...Object.keys(RETURNS).map((called) => {
    const delayed = called as ModuleFunction;
    return inModule(`${called} hangs`, { delayed, ms: HANG_MS }, { isOfStart: !SIGNING.includes(delayed) });
  }),
  inModule('slow signatures', { delayed: 'C_Sign', ms: 400 }, { disables: false }),
  inModule('a slow log-in', { delayed: 'C_Login', ms: 1500 }, { disables: false, isOfStart: true }),
  KEY_CHANGED,
  ...[TOKEN_VANISHES, CHILD_HANGS, CHILD_KILLED, MODULE_CRASHES, NO_SESSION_LEFT].map(
    ({ name, strike }): Affliction => ({
      name,
      disables: true,
      strike: (partition, { daemon }) => strike(partition, daemon),
    }),
  ),
];

/** Of them, so many must sign. */
const REGIONS = ['eu', 'us', 'ap'];
const QUORUM = 2;
/** So often in a round. */
const STRIKES = 4;
/** Of the next affliction: all are reached, as it has no factor in common with their number. */
const STRIDE = 31;
/** So many creates are answered while it lasts, once it has been noticed. */
const ANSWERS = 3;
/** Signatures that hang are given up within seconds. */
const NOTICE_SECONDS_MAX = 30;
/** All partitions sign again so long after their modules do: pauses, slow starts and probes, on a machine that is busy. */
const RECOVERY_SECONDS = 60;

export interface FailOptions extends Pick<RoundOptions, 'code'> {
  strikes?: number;
  /** How long a daemon may take to notice; a mutant that never does is not waited for. */
  noticeSeconds?: number;
  among?: readonly Affliction[];
}

/** Strikes one partition after the other: the two others must seal on. */
export function failPartition(seed: number, options: FailOptions = {}): Promise<PlayedRound> {
  return playModules(seed, 1, options);
}

/** Strikes two partitions at a time: nothing can be sealed until they are back, and every client is told so. */
export function failQuorum(seed: number, options: FailOptions = {}): Promise<PlayedRound> {
  return playModules(seed, 2, options);
}

async function playModules(
  seed: number,
  victims: number,
  { strikes = STRIKES, noticeSeconds = NOTICE_SECONDS_MAX, among = AFFLICTIONS, ...options }: FailOptions,
): Promise<PlayedRound> {
  // Signers load it as long as the daemon runs.
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-module-'));
  const module = buildFaultyModule(dir);
  const disturb = async (round: Round) => {
    for (let n = 0; n < strikes; n++) {
      const struck = Array.from({ length: victims }, (_, index) => ({
        partition: round.sandbox.partitions[(seed + n + index) % REGIONS.length] as PartitionOptions,
        affliction: among[((seed * strikes + n) * STRIDE + index) % among.length] as Affliction,
      }));
      // A partition that was out of service is still starting when the drill has ended.
      await round.workload.administer(round.daemon);
      await until('all sign', () => doAllSign(round), RECOVERY_SECONDS);
      await strikeOnce(round, struck, noticeSeconds);
    }
    return victims > REGIONS.length - QUORUM ? 'refused, and went on' : 'sealed on';
  };
  try {
    return await playRound(seed, disturb, {
      ...options,
      site: {
        regions: REGIONS,
        quorum: QUORUM,
        apart: true,
        tables: { kms: 'sign_timeout = "2s"' },
        equip: (partition) => behindFaulty(partition, module),
      },
    });
  } finally {
    rmSync(dir, { recursive: true });
  }
}

interface Struck {
  partition: PartitionOptions;
  affliction: Affliction;
}

/** Holds the answers to what the partitions that are left can do. Ends when all sign again. */
async function strikeOnce(round: Round, struck: Struck[], noticeSeconds: number): Promise<void> {
  const { history } = round.workload;
  const isBearable = struck.length <= REGIONS.length - QUORUM;
  const isLost = !isBearable && struck.every(({ affliction }) => affliction.disables);
  const name = struck
    .map(({ partition, affliction }) => `${affliction.name} (${partition.region})`)
    .join(', ');
  const first = history.tries.length;
  const mends = await Promise.all(
    struck.map(({ partition, affliction }) => affliction.strike(partition, round)),
  );
  const isNoticed = async () =>
    isLost ? isRefused(await round.workload.sealOne()) : !(await doAllSign(round));
  try {
    if (struck.some(({ affliction }) => affliction.disables))
      await until(`${name} is noticed`, isNoticed, noticeSeconds).catch((e) => history.faults.push(`${e}`));
    for (let answers = 0; answers < ANSWERS; answers++) {
      const answer = await round.workload.sealOne();
      const isRight = isLost ? isRefused(answer) : isSealed(answer) || (!isBearable && isRefused(answer));
      if (!isRight) history.faults.push(`${name}: a create was answered ${JSON.stringify(answer)}`);
    }
  } finally {
    await Promise.all(mends.map((mend) => mend()));
  }
  const begun = performance.now();
  await until(`all sign after ${name}`, () => doAllSign(round), RECOVERY_SECONDS);
  await until(`it seals after ${name}`, () => round.workload.isSealing(), RECOVERY_SECONDS);
  round.recoveryMs = Math.max(round.recoveryMs, performance.now() - begun);
  const refused = history.tries.slice(first).filter(({ answer }) => isRefused(answer));
  if (isBearable && refused.length > 0)
    history.faults.push(`${name}: ${refused.length} creates were refused though two partitions could sign`);
}

function isSealed(answer: Try['answer']): boolean {
  return answer?.phase === 'completed';
}

function isRefused(answer: Try['answer']): boolean {
  return answer?.status === 503 && answer.code === 'kms_partition_unavailable';
}

async function doAllSign({ sandbox }: Round): Promise<boolean> {
  const { partitions } = (await askAdmin(sandbox, '/status')).json<{
    partitions: { signing: number };
  }>();
  return partitions.signing === REGIONS.length;
}
