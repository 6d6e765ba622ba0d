import { systemClock } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import { effectiveSettings, type Setting } from '../../config/effective.ts';
import { hidesSecrets, toTomlLines, withoutSecrets } from '../../config/settingsToml.ts';
import { formatKeyPath } from '../../config/toml.ts';
import { findingsOf } from '../../health/healthFindings.ts';
import type { AdminStatus } from '../../health/statusSchema.ts';
import { readStatusOperation } from '../../ops/daemonOperations.ts';
import { command, group, option } from '../command.ts';
import { CONFIG } from '../options.ts';
import { isJson, note, print, printJson } from '../terminal.ts';
import { NobodyAnswers } from './adminClient.ts';
import { askOperation } from './operationClient.ts';

const showCommand = command('show', {
  description:
    'Prints the configuration in effect: every key with its value, and whether the value is from the file or a default. The output ' +
    'is a valid config file with the same meaning; paths are absolute, and secrets are left out. Warns if a running daemon has ' +
    'loaded an older version of the file.',
  options: [CONFIG, option('--changed', 'only values that differ from the default')],
  examples: [
    'pdfseal config show --config /etc/pdfseal/production.toml --changed',
    `pdfseal config show --config /etc/pdfseal/production.toml --json | jq -r 'select(.source == "file") | .key'`,
  ],
  async run({ config: file, changed }) {
    const config = loadConfig(file, { files: 'unused' });
    const all = effectiveSettings(config);
    const settings = changed ? all.filter((one) => one.changed) : all;
    if (isJson()) for (const setting of settings) printJson(present(setting));
    else for (const line of toTomlLines(settings)) print(line);
    if (hidesSecrets(settings))
      note('pdfseal: possible secrets are not shown: PINs, queries of URLs, variables with such names');
    for (const line of await differences(config)) note(`pdfseal: ${line}`);
  },
});

export const configCommand = group(
  'config',
  'Shows the configuration of an environment. To find errors in a config file, use `pdfseal check-config`.',
  [showCommand],
);

function present({ path, value, source, changed }: Setting) {
  return { key: formatKeyPath(path), value: withoutSecrets(value) ?? null, source, changed };
}

/** Differences between the running daemon and the file; none if no daemon runs. */
async function differences(config: Config): Promise<string[]> {
  try {
    const status = await askOperation(readStatusOperation, config.admin.socket, {});
    const changed = loadedOtherwise(status.config, config.sha256);
    const pending = findingsOf({ config: status.config }, systemClock()).map(({ detail }) => detail);
    return [...(changed === undefined ? [] : [changed]), ...pending];
  } catch (error) {
    if (error instanceof NobodyAnswers) return [];
    if (!(error instanceof OperatorError)) throw error;
    return [`it is not known whether the daemon has loaded this file: ${error.message}`];
  }
}

/** Whether the file, whose digest is `sha256` now, is another than the one that a daemon has loaded. */
export function loadedOtherwise(loaded: AdminStatus['config'], sha256: string): string | undefined {
  if (loaded.sha256 === sha256) return undefined;
  return `${loaded.file} has changed since the running daemon loaded it at ${loaded.loaded_at}: reload the daemon (SIGHUP), or restart it`;
}
