import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/** Generous: systemd answers from memory, so a slow answer means that it is in trouble itself. */
const ANSWER_MS_MAX = 5_000;

const UNITS = ['/usr/lib/systemd/system', '/lib/systemd/system', '/etc/systemd/system'];

/** The instance of the package's units that a configuration belongs to; undefined without such units. */
export function instanceOf(configFile: string): string | undefined {
  const [, instance] = /^\/etc\/pdfseal\/([^/]+)\.toml$/.exec(configFile) ?? [];
  return UNITS.some((folder) => existsSync(`${folder}/pdfseald@.service`)) ? instance : undefined;
}

/** Whether systemd runs this machine (sd_booted(3)). */
export function hasSystemd(): boolean {
  return existsSync('/run/systemd/system');
}

/**
 * The answer of systemctl(1) about a unit: `enabled`, `disabled`, … or `active`, `inactive`, …; undefined if systemd does not run this
 * machine, or does not answer.
 */
export function unitState(question: 'is-enabled' | 'is-active', unit: string): string | undefined {
  if (!hasSystemd()) return undefined;
  const { stdout } = spawnSync('systemctl', [question, unit], {
    env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' },
    encoding: 'utf8',
    timeout: ANSWER_MS_MAX,
  });
  return stdout?.trim().split('\n')[0] || undefined;
}
