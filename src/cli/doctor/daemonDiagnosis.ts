import { hostname } from 'node:os';
import { OperatorError } from '../../base/errors.ts';
import { lockHolder } from '../../base/lock.ts';
import { describeSeconds } from '../../base/phrases.ts';
import type { Config } from '../../config/config.ts';
import type { HealthPart } from '../../health/healthFinding.ts';
import type { AdminStatus } from '../../health/statusSchema.ts';
import { readStatusOperation } from '../../ops/daemonOperations.ts';
import { formatAddress } from '../../web/address.ts';
import { NobodyAnswers } from '../daemon/adminClient.ts';
import { loadedOtherwise } from '../daemon/configCommand.ts';
import { askOperation } from '../daemon/operationClient.ts';
import { withStoreAt } from '../withStore.ts';
import { bad, type Diagnosis, diagnosisOf, good, warning } from './diagnosis.ts';
import { judgeEngine } from './hostDiagnosis.ts';

/** Checks the daemon, by its own answer if it gives one. */
export interface DaemonFindings {
  diagnoses: Diagnosis[];
  status?: AdminStatus;
  /** Whether a daemon uses the state folder, even if it does not answer: then only it may open the tokens. */
  running: boolean;
}

export async function askDaemon(config: Config): Promise<DaemonFindings> {
  const { socket } = config.admin;
  try {
    const status = await askOperation(readStatusOperation, socket, {});
    return {
      status,
      running: true,
      diagnoses: [introduce(status), ...judgeConfig(status, config), ...judgeStatus(status)],
    };
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    const holder = lockHolder(config.lockFile);
    if (holder !== undefined) {
      const active = await activeElsewhere(config, holder);
      if (active !== undefined) {
        const detail = `process ${holder} waits to take over: ${active} is active`;
        return { running: true, diagnoses: [good('daemon', detail)] };
      }
      const detail = `process ${holder} uses the state folder, but does not answer at ${formatAddress(socket)}: ${error.message}`;
      const remedy = 'if the daemon has just started, wait; if not, read its log; a restart may help';
      return { running: true, diagnoses: [bad('daemon', detail, remedy)] };
    }
    const remedy = `start it: systemctl start pdfseald@${config.environment}; its log says why it ended`;
    const detail = error instanceof NobodyAnswers ? 'not running' : error.message;
    return { running: !(error instanceof NobodyAnswers), diagnoses: [bad('daemon', detail, remedy)] };
  }
}

/** The daemon that is active at a log in a database, where it is not this process of this machine; undefined also where that cannot be told. */
async function activeElsewhere({ store: location }: Config, pid: string): Promise<string | undefined> {
  if (location.engine === 'lmdb') return undefined;
  try {
    return await withStoreAt(location, { front: true }, async ({ sealing }) => {
      const { isActive = false, holder } = (await sealing?.node()) ?? {};
      return isActive && holder !== `process ${pid} on ${hostname()}` ? holder : undefined;
    });
  } catch {
    return undefined; // A fault of the database is another finding.
  }
}

function introduce({ version, environment, pid, uptime_seconds: uptime }: AdminStatus): Diagnosis {
  return good(
    'daemon',
    `pdfseald ${version} of ${environment} runs as process ${pid}, up ${describeSeconds(uptime)}`,
  );
}

function judgeConfig(status: AdminStatus, { sha256 }: Config): Diagnosis[] {
  const detail = loadedOtherwise(status.config, sha256);
  if (detail === undefined) return [];
  return [warning('daemon', detail, 'run pdfseald --check-config, then systemctl reload or restart')];
}

/** The other commands leave their notes in files, and certificates are files: these are examined without the daemon. */
const EXAMINED = ['certificates', 'upkeep'];

export function judgeStatus(status: AdminStatus): Diagnosis[] {
  // A daemon of an earlier version sends no findings, so it is not known which members are well.
  const { parts, findings = [], hash } = status;
  const members = 'findings' in status ? membersOf(status) : [];
  const found = findings
    .filter(
      ({ part, section, subject }) => part === undefined && subject !== 'disk' && !EXAMINED.includes(section),
    )
    .map(diagnosisOf);
  return [
    ...parts.filter(({ name, ready }) => name !== 'store' || !ready).map(judgePart),
    ...found,
    ...members.filter(({ check }) => found.every((one) => one.check !== check)),
    judgeEngine(hash.engine, hash.kernels),
  ];
}

function judgePart({ name, ready, detail, remedy = '' }: HealthPart): Diagnosis {
  return ready ? good(name, detail) : bad(name, detail, remedy);
}

/** The line of each part that is well. */
function membersOf({ partitions, timestamps, witnesses, egress }: AdminStatus): Diagnosis[] {
  return [
    ...partitions.members.map(({ name, signatures, trees_given_up: givenUp }) =>
      good(
        `partition ${name}`,
        `it signs; ${signatures} signatures, ${givenUp} of them given up, since the start`,
      ),
    ),
    ...(timestamps?.units ?? []).map(({ subject }) => good(`time-stamping key ${subject}`, 'it signs')),
    ...(timestamps?.authorities ?? []).map(({ name, tokens, failures }) =>
      good(`authority ${name}`, `${tokens} time-stamps, ${failures} failures since the start`),
    ),
    ...(witnesses?.members ?? [])
      .filter(({ state }) => state !== 'contradiction')
      .map(({ name, state, tree_size: size, cosigned_at: at }) => {
        const how = state === 'not_asked' ? 'asked by hand: pdfseal witness request' : state;
        return good(`witness ${name}`, `${how}; it holds ${size} leaves${at ? `, cosigned ${at}` : ''}`);
      }),
    ...(egress
      ? [
          good(
            'egress process',
            `it answers; ${egress.mode === 'unit' ? 'a unit of its own' : 'a child of the daemon'}`,
          ),
        ]
      : []),
  ];
}
