import { hostname } from 'node:os';
import { OperatorError } from '../../base/errors.ts';
import { lockHolder } from '../../base/lock.ts';
import { describeSeconds } from '../../base/phrases.ts';
import type { Config } from '../../config/config.ts';
import type { HealthPart } from '../../health/finding.ts';
import type { PresentedPartition } from '../../health/sections/partitionsSection.ts';
import { readerTrouble } from '../../health/sections/upkeepSection.ts';
import type { PresentedWitness } from '../../health/sections/witnessesSection.ts';
import type { AdminStatus } from '../../health/statusSchema.ts';
import { signerRemedy } from '../../kms/signerFailure.ts';
import { formatAddress } from '../../net/address.ts';
import { askAdministration, NobodyAnswers } from '../daemon/adminClient.ts';
import { loadedOtherwise } from '../daemon/configCommand.ts';
import { withStoreAt } from '../withStore.ts';
import { bad, type Diagnosis, good, warning } from './diagnosis.ts';
import { judgeEngine } from './hostDiagnosis.ts';

/** What is known about the daemon, from itself if it answers. */
export interface DaemonFindings {
  diagnoses: Diagnosis[];
  status?: AdminStatus;
  /** Whether a daemon uses the state folder, even if it does not answer: then only it may open the tokens. */
  running: boolean;
}

export async function askDaemon(config: Config): Promise<DaemonFindings> {
  const { socket } = config.admin;
  try {
    const status = await askAdministration<AdminStatus>(socket, 'GET', '/status');
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
    return undefined; // What is wrong with the database is another finding.
  }
}

function introduce({ version, environment, pid, uptime_seconds: uptime }: AdminStatus): Diagnosis {
  return good(
    'daemon',
    `pdfseald ${version} of ${environment} runs as process ${pid}, up ${describeSeconds(uptime)}`,
  );
}

function judgeConfig(status: AdminStatus, { sha256 }: Config): Diagnosis[] {
  return loadedOtherwise(status.config, sha256).map((detail) =>
    warning('daemon', detail, 'run pdfseald --check-config, then systemctl reload or restart'),
  );
}

function judgeStatus(status: AdminStatus): Diagnosis[] {
  const { partitions, timestamps, hash } = status;
  return [
    ...status.parts.filter(({ name }) => name !== 'store').map(judgePart),
    ...partitions.members.map((member) => judgePartition(member, status)),
    ...(timestamps?.units ?? []).map(({ subject, ready }) =>
      ready
        ? good(`time-stamping key ${subject}`, 'it signs')
        : warning(`time-stamping key ${subject}`, 'it does not sign', 'see the partition on the same token'),
    ),
    ...(timestamps?.authorities ?? []).map(({ name, tokens, failures, trouble }) => {
      const detail = `${tokens} time-stamps, ${failures} failures since the start`;
      return trouble === undefined
        ? good(`authority ${name}`, detail)
        : warning(
            `authority ${name}`,
            `${trouble}; ${detail}`,
            'read the log of the daemon; check the address of the authority, its roots and the network',
          );
    }),
    ...(status.witnesses?.members ?? []).map(judgeWitness),
    ...judgeEgress(status),
    ...judgeReader(status),
    judgeEngine(hash.engine, hash.kernels),
  ];
}

function judgeEgress({ egress, environment }: AdminStatus): Diagnosis[] {
  if (egress === undefined) return [];
  const { mode, answers, trouble = 'it does not answer yet', restarts } = egress;
  const how = mode === 'unit' ? 'a unit of its own' : `a child of the daemon, ${restarts} restarts`;
  if (answers) return [good('egress process', `it answers; ${how}`)];
  const remedy =
    mode === 'unit'
      ? `systemctl status pdfseal-egress@${environment} says why; then systemctl restart pdfseal-egress@${environment}.socket`
      : 'read the log of the daemon: it says why the process ended';
  return [warning('egress process', `${trouble}; ${how}`, remedy)];
}

function judgeReader({ store }: AdminStatus): Diagnosis[] {
  const trouble = readerTrouble(store);
  return trouble ? [warning('readers of the store', trouble.detail, trouble.remedy)] : [];
}

function judgePart({ name, ready, detail, remedy = '' }: HealthPart): Diagnosis {
  return ready ? good(name, detail) : bad(name, detail, remedy);
}

const WITNESS_REMEDIES: Readonly<Record<string, string>> = {
  unknown_log:
    'have the operator of the witness add this log with a key of the epoch; pdfseal trust export shows the keys',
  too_often: 'raise witness.interval to what the operator of the witness allows',
  invalid_cosignature: 'compare the key of the witness in the policy with the one that the witness publishes',
  log_damaged: 'run `pdfseal check`: its last line says what to do',
};

/** A contradiction is a part of its own. */
function judgeWitness({ name, state, trouble = '', detail = '', ...known }: PresentedWitness): Diagnosis {
  const check = `witness ${name}`;
  const held = `it holds ${known.tree_size} leaves${known.cosigned_at ? `, cosigned ${known.cosigned_at}` : ''}`;
  if (state === 'not_asked') return good(check, `asked by hand: pdfseal witness request; ${held}`);
  if (state !== 'failing' && state !== 'contradiction') return good(check, `${state}; ${held}`);
  const remedy = WITNESS_REMEDIES[trouble] ?? 'check its URL in the policy, witness.ca_file and the network';
  return warning(check, `${trouble || state}: ${detail}; ${held}`, remedy);
}

const REMEDIES: Partial<Record<PresentedPartition['state'], string>> = {
  withdrawn: 'nothing: a drill took it out, and it comes back by itself',
  pin_refused:
    'write the correct PIN into the PIN file: the daemon does not present the refused one again. If the daemon has the PIN as a systemd credential, then also restart it. If the PIN is right now: `pdfseal hsm retry-pin`',
  key_changed: 'connect the token with the key of this log, or restore it from the HSM’s backup',
  key_lost: 'restore the key from the HSM’s backup',
  starting: 'wait a moment',
};

const REFUSED =
  'find out what asked it to sign: the journals of the daemon (event partition_useless) and of the signer have each refusal. If neither a restored store nor a clock that jumped explains it, assume that somebody has broken into the machine: "What is trusted for what" in the manual';

/** A lost partition is a warning while the others meet the quorum. */
function judgePartition(
  { name, state, since, last_error: error, signatures, ...member }: PresentedPartition,
  status: AdminStatus,
): Diagnosis {
  const check = `partition ${name}`;
  if (state === 'ready') {
    const { refusals, trees_given_up: givenUp } = member;
    const counts = `${signatures} signatures, ${givenUp} of them given up, since the start`;
    if (refusals > 0) return warning(check, `it signs, but refused ${refusals} times; ${counts}`, REFUSED);
    return good(check, `it signs; ${counts}`);
  }
  const detail = `${state} since ${since}${error ? ` (${error})` : ''}`;
  const remedy =
    REMEDIES[state] ??
    signerRemedy({ code: error ?? '' }) ??
    'check that the token is connected and that its module is configured; `pdfseal hsm list` tries the token';
  const suffices = status.parts.find((part) => part.name === 'partitions')?.ready === true;
  return suffices ? warning(check, detail, remedy) : bad(check, detail, remedy);
}
