import { readFileSync } from 'node:fs';
import { machine, release, type } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { systemClock, toRfc3339 } from '../../base/clock.ts';
import { sha256 } from '../../base/crypto.ts';
import { ownProcess } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import { versionLine } from '../../base/package.ts';
import { loadConfig } from '../../config/config.ts';
import { type TrialOutcome, tryDevice } from '../../kms/acceptance.ts';
import type { TokenOptions } from '../../kms/protocol.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import { command, type Given, option } from '../command.ts';
import { EXIT, type ExitStatus } from '../exit.ts';
import { CONFIG_DESCRIPTION, defaultConfigFile, parseDurationArgument } from '../options.ts';
import { isJson, note, print, printJson } from '../terminal.ts';
import { acceptanceHtml, acceptanceText, reportOf } from './acceptanceReport.ts';
import { configuredKeys } from './hsmKeys.ts';

const SESSIONS = [1, 2, 4, 8, 16];
const MEASURE_MS_MAX = 60_000;
const EXIT_OF: Record<TrialOutcome, ExitStatus> = {
  works: EXIT.ok,
  'does not work': EXIT.failed,
  'could not tell': EXIT.unknown,
};

const OPTIONS = [
  option('--module <file>', 'the PKCS#11 module of a device that no config file names'),
  option('--token <name>', 'label of its token'),
  option('--token-serial <serial>', 'serial number of its token, in place of the label', {
    conflicts: 'token',
  }),
  option('--pin-file <file>', 'file with the user PIN and nothing else, closed to others'),
  option('--library-parameters <text>', 'text for modules that take one when they are initialised'),
  option('--variable <name=value...>', 'environment variables for the module'),
  option('--config <file>', CONFIG_DESCRIPTION),
  option('--partition <name>', 'region of a configured partition, or <region>/<key label>', {
    conflicts: 'module',
  }),
  option('--for <duration>', 'duration of each measurement, at most 1m', {
    parse: parseDurationArgument,
    default: 2_000,
    shown: '2s',
  }),
  option('--remark <text>', 'a line for the report, such as the place of the device'),
  option('--format <name>', 'form of the report', { choices: ['text', 'json', 'html'], default: 'text' }),
] as const;

type AcceptanceOptions = Given<typeof OPTIONS>;

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*=/;

export const acceptanceCommand = command('acceptance', {
  summary: 'try whether pdfseald can use a device, and report it',
  description:
    'Tries on a token everything that pdfseald does: creates a throw-away key of each algorithm, checks how the token protects it, signs ' +
    'and verifies, measures signatures in 1 to 16 sessions, starts signers again, after a kill and next to each other, and removes the ' +
    'keys, also after Ctrl-C. Prints a report for a person to sign. A PIN that the token refuses is presented once, and its last ' +
    'attempt is never made. Name a module and a token, or a partition of a config file. The device should have nothing else to do.',
  options: OPTIONS,
  exit: {
    0: 'pdfseald can use the device',
    1: 'something that pdfseald needs does not work, or a key could not be removed',
    2: 'something could not be tried: the report says why',
  },
  examples: [
    'pdfseal hsm acceptance --module /usr/lib/vendor/libpkcs11.so --token production --pin-file pin --variable VENDOR_CONF=/etc/vendor.conf',
    'pdfseal-run production hsm acceptance --partition eu-west --format html >acceptance.html',
  ],
  misuse({ module, token, tokenSerial, pinFile, variable = [], for: measureMs }) {
    const isNamed = pinFile !== undefined && (token !== undefined || tokenSerial !== undefined);
    if (module !== undefined && !isNamed) return '--module needs --pin-file, and --token or --token-serial';
    if (module === undefined && (pinFile ?? token ?? tokenSerial) !== undefined)
      return '--token, --token-serial and --pin-file need --module';
    const wrong = variable.find((one) => !VARIABLE.test(one));
    if (wrong !== undefined) return `--variable ${wrong}: expected NAME=VALUE`;
    return measureMs > 0 && measureMs <= MEASURE_MS_MAX
      ? undefined
      : '--for: expected a duration above 0 and of at most 1m';
  },
  async run(options) {
    const token = tokenOf(options);
    const interrupted = new AbortController();
    const interrupt = () => {
      if (!interrupted.signal.aborted) note('interrupted: the keys are removed now');
      interrupted.abort();
    };
    const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
    for (const signal of signals) process.on(signal, interrupt);
    const { signal } = interrupted;
    const acceptance = await tryDevice(token, {
      ...{ sessions: SESSIONS, measureMs: options.for, signal, onProgress: note },
    });
    for (const signal of signals) process.off(signal, interrupt);
    const report = reportOf(acceptance, {
      pdfseald: versionLine(),
      date: toRfc3339(systemClock()),
      machine: `${type()} ${release()}, ${machine()}`,
      module: { file: token.module, ...digestOf(token.module) },
      ...(options.remark !== undefined && { remark: options.remark }),
    });
    if (isJson() || options.format === 'json') printJson(report);
    else (options.format === 'html' ? acceptanceHtml : acceptanceText)(report).forEach(print);
    ownProcess().exitCode = EXIT_OF[report.outcome];
  },
});

function tokenOf(options: AcceptanceOptions): TokenOptions & { module: string } {
  const { module, token, tokenSerial, pinFile, libraryParameters, variable = [] } = options;
  if (module === undefined || pinFile === undefined) return configured(options);
  const path = resolve(pinFile);
  return {
    module: resolve(module),
    ...(token !== undefined && { tokenLabel: token }),
    ...(tokenSerial !== undefined && { tokenSerial }),
    ...(libraryParameters !== undefined && { libraryParameters }),
    environment: Object.fromEntries(variable.map(splitVariable)),
    keyLabel: '',
    pinFile: path,
    refusedPins: join(dirname(path), 'refused-pins'),
  };
}

function splitVariable(text: string): [name: string, value: string] {
  const at = text.indexOf('=');
  return [text.slice(0, at), text.slice(at + 1)];
}

/** The token of a partition of the config file. */
function configured({ config, partition }: AcceptanceOptions): TokenOptions & { module: string } {
  const tokens = configuredKeys(loadConfig(config ?? defaultConfigFile())).map(({ token }) => token);
  const wanted = tokens.filter(
    (token) => partition === undefined || partition === token.region || partition === kmsKeyId(token),
  );
  const [found, second] = wanted.filter(({ module }) => module !== undefined);
  if (found?.module === undefined || second !== undefined) {
    const names = tokens.filter(({ module }) => module !== undefined).map(kmsKeyId);
    throw new OperatorError(
      `${found === undefined ? 'the config file has no such partition in a token' : 'several partitions match'}: name one with --partition (${names.join(', ') || 'there is none'}), or a device with --module`,
    );
  }
  if (found.signer !== undefined)
    throw new OperatorError(`only the signer of ${kmsKeyId(found)} has its PIN`, {
      remedy: 'run the command with pdfseal-run',
    });
  return { ...found, module: found.module };
}

/** Names the very file that was tried. */
function digestOf(module: string): { sha256?: string } {
  try {
    return { sha256: Buffer.from(sha256(readFileSync(module))).toString('hex') };
  } catch {
    return {};
  }
}
