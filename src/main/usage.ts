import { MANUAL_FOLDER } from '../base/package.ts';

/** The options and exit statuses of the daemon, for its help and its manual page. */
export const DAEMON_OPTIONS: readonly [flags: string, meaning: string][] = [
  ['--config FILE', 'the configuration (TOML); see config/production.toml'],
  ['--check-config', 'say whether the daemon would start with the configuration as this user, and exit'],
  ['--version', 'print version and commit, and exit'],
  ['--help', 'print this, and exit'],
];

export const DAEMON_EXIT_MEANINGS: readonly [status: number, meaning: string][] = [
  [0, 'after a stop by SIGTERM or SIGINT'],
  [1, 'for a problem that an administrator can solve'],
  [70, 'for a bug, a failed write or a damaged store'],
];

export const USAGE = `pdfseald: seals PDF documents; one daemon serves one environment

Usage: pdfseald --config FILE [--check-config]

${DAEMON_OPTIONS.map(([flags, meaning]) => `  ${flags.padEnd(16)} ${meaning}`).join('\n')}

Exit status: ${DAEMON_EXIT_MEANINGS.map(([status, meaning]) => `${status} ${meaning}`).join('; ')}.

The manual: ${MANUAL_FOLDER}/index.html
`;
