import { Command } from 'commander';
import type { AdminStatus } from '../../admin/statusSchema.ts';
import { OperatorError } from '../../base/errors.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import { effectiveSettings, type Setting } from '../../config/effective.ts';
import { formatKeyPath } from '../../config/toml.ts';
import { explain } from '../help.ts';
import { configOption, jsonOption } from '../options.ts';
import { note, print, printJson } from '../terminal.ts';
import { askAdministration, NobodyAnswers } from './adminClient.ts';
import { hidesSecrets, toTomlLines, withoutSecrets } from './configToml.ts';

export function configCommand(): Command {
  const command = new Command('config').description(
    'The configuration of an environment. Whether a file is good, and all that is wrong with it, says `pdfseal check-config`.',
  );
  explain(
    command
      .command('show')
      .description(
        'Prints the configuration as it is in effect: every key with its value, and whether it is from the file or the default. ' +
          'The result is a file that the daemon accepts and that means the same; paths are absolute. Secrets are not part of it. ' +
          'Says so where a running daemon has loaded another content of the file.',
      )
      .addOption(configOption())
      .option('--changed', 'only what is other than the default')
      .addOption(jsonOption())
      .action(show),
    {
      examples: [
        'pdfseal config show --config /etc/pdfseal/production.toml --changed',
        `pdfseal config show --config /etc/pdfseal/production.toml --json | jq -r 'select(.source == "file") | .key'`,
      ],
    },
  );
  return command;
}

interface ShowOptions {
  config: string;
  changed?: true;
  json?: true;
}

async function show({ config: file, changed, json }: ShowOptions): Promise<void> {
  const config = loadConfig(file, { files: 'unused' });
  const all = effectiveSettings(config);
  const settings = changed ? all.filter((one) => one.changed) : all;
  if (json) for (const setting of settings) printJson(present(setting));
  else for (const line of toTomlLines(settings)) print(line);
  if (hidesSecrets(settings)) note('pdfseal: values of variables that look like secrets are not shown');
  for (const line of await differences(config)) note(`pdfseal: ${line}`);
}

function present({ path, value, source, changed }: Setting) {
  return { key: formatKeyPath(path), value: withoutSecrets(value) ?? null, source, changed };
}

/** In what the running daemon goes by something else; nothing where none runs. */
async function differences(config: Config): Promise<string[]> {
  try {
    const { config: loaded } = await askAdministration<AdminStatus>(config.admin.socket, 'GET', '/status');
    return loadedOtherwise(loaded, config.sha256);
  } catch (error) {
    if (error instanceof NobodyAnswers) return [];
    if (!(error instanceof OperatorError)) throw error;
    return [`whether the daemon has loaded this is not known: ${error.message}`];
  }
}

/** What there is to say of what a daemon has loaded; `sha256` is that of the file now. */
export function loadedOtherwise(loaded: AdminStatus['config'], sha256: string): string[] {
  const { file, loaded_at: at, pending } = loaded;
  return [
    ...(loaded.sha256 === sha256
      ? []
      : [`the running daemon loaded another content of ${file} at ${at}: reload it (SIGHUP), or restart it`]),
    ...(pending.length === 0 ? [] : [`these keys wait for a restart of the daemon: ${pending.join(', ')}`]),
  ];
}
