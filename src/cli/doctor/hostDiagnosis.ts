import { readFileSync } from 'node:fs';
import type { Config } from '../../config/config.ts';
import { readSynchronization } from '../../tsa/synchronization.ts';
import { bad, type Diagnosis, good, warning } from './diagnosis.ts';

/** Tested with this one; Node 26 and lmdb do not get along yet. */
const NODE_MAJOR = 24;
/** Beside the connections: the store, signers, libraries, the log. */
const FILES_BESIDE_MIN = 256;

export function diagnoseNode(): Diagnosis {
  const major = Number.parseInt(process.versions.node, 10);
  if (major === NODE_MAJOR) return good('node', process.version);
  const remedy = `run it with Node.js ${NODE_MAJOR}, such as node_modules/.bin/node of this package`;
  return warning('node', `${process.version}, which pdfseald is not tested with`, remedy);
}

/** Whether as many uploads as the configuration allows can be open at once; `pid` of the daemon, or of this process. */
export function diagnoseLimits({ http }: Config, pid: number | 'self'): Diagnosis {
  const needed = http.uploadsMax + FILES_BESIDE_MIN;
  const whose = pid === 'self' ? 'of this shell; the daemon may have others' : 'of the daemon';
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/limits`, 'utf8');
  } catch {
    return warning(
      'open files',
      'the limits of the daemon cannot be read',
      'run this as its user or as root',
    );
  }
  const [, soft = '0'] = /^Max open files +(\d+|unlimited)/m.exec(text) ?? [];
  const limit = soft === 'unlimited' ? Infinity : Number(soft);
  const detail = `${soft} (${whose})`;
  if (limit >= needed) return good('open files', detail);
  const remedy = `LimitNOFILE=65536 in the unit, or lower http.uploads_max: ${needed} are needed`;
  return warning('open files', detail, remedy);
}

/** Only for when no daemon runs that watches it. */
export async function diagnoseClock({ clock, timestamp }: Config): Promise<Diagnosis[]> {
  if (timestamp.authorities.length === 0) return [];
  const remedy = 'start and synchronize the time service that clock.trust names; `chronyc tracking` shows it';
  try {
    const { synchronized, errorBoundMs, detail } = await readSynchronization(clock);
    const bound = errorBoundMs === undefined ? '' : `, wrong by ${errorBoundMs.toFixed(3)} ms at most`;
    if (!synchronized) return [bad('clock', detail, remedy)];
    if (errorBoundMs !== undefined && errorBoundMs > timestamp.accuracyMs) {
      return [bad('clock', `${detail}${bound}: more than timestamp.accuracy`, remedy)];
    }
    if (clock.trust === 'system') {
      return [
        warning(
          'clock',
          'believed as it is (clock.trust = "system")',
          'let chrony vouch for it, unless something else does',
        ),
      ];
    }
    return [good('clock', `${detail}${bound}`)];
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n')[0] : String(error);
    return [bad('clock', `${clock.trust} cannot be asked: ${reason}`, remedy)];
  }
}
