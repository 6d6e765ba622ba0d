import type { Logger } from 'pino';
import type { Clock } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import { oneAtATime } from '../base/serially.ts';
import type { ActObject } from '../manifest/auditRecord.ts';
import { type Config, loadConfig } from './config.ts';
import { meaningOf } from './document.ts';
import { effectiveSettings, type Setting } from './effective.ts';
import { changedKeys, formatKeyPath } from './toml.ts';

/** Settings that take effect without a restart: a key, or all keys of a table. */
const LIVE = [
  ...['limits.queue_jobs_max', 'limits.rate', 'quotas', 'clients', 'organizations', 'logging'],
  'console.tls.people',
];

/** Whether a change of the key takes effect without a restart. */
export function isLive(key: string): boolean {
  return LIVE.some((live) => isWithin(key, live));
}

export interface Reload {
  /** The running configuration with every new value that takes effect at once. */
  config: Config;
  /** Changed keys, named as in the file: those that take effect at once, and those that need a restart. */
  applied: string[];
  deferred: string[];
}

/** Merges the current content of the file into the running configuration. Some keys stay as they were at the start. */
export function mergeConfig(started: Config, running: Config, next: Config): Reload {
  const after = meaningOf(next.document);
  const { limits, policies, organizations, people, logging, sha256, document } = next;
  const { documentBytesMax } = started.limits;
  return {
    config: {
      ...started,
      limits: { ...limits, documentBytesMax },
      ...{ policies, organizations, people, logging, sha256, document },
    },
    applied: changedKeys(meaningOf(running.document), after).filter(isLive),
    deferred: changedKeys(meaningOf(started.document), after).filter((key) => !isLive(key)),
  };
}

/** A key of a running daemon. */
export interface SettingInEffect extends Setting {
  /** The key as the file names it. */
  key: string;
  /** The current value in the file, if it needs a restart. */
  next?: { value: unknown };
}

/**
 * `next` is the current content of the file, `pending` as {@link Reload.deferred}. A key of a table that one of the two lacks has no value
 * there.
 */
export function settingsInEffect(
  started: Config,
  next: Config,
  pending: readonly string[],
): SettingInEffect[] {
  const atStart = byKey(started);
  const now = byKey(next);
  const waits = (key: string) => pending.some((one) => isWithin(one, key) || isWithin(key, one));
  const known = new Map([...atStart, ...now]);
  return Array.from(known, ([key, { path }]): SettingInEffect[] => {
    const inFile = now.get(key);
    if (isLive(key)) return inFile === undefined ? [] : [{ key, ...inFile }];
    const unset = { path, value: undefined, source: 'unset', changed: false } as const;
    const setting = { key, ...(atStart.get(key) ?? unset) };
    // A table that was left out appears there as a key without a value.
    const isSet = setting.value !== undefined || inFile?.value !== undefined;
    return [waits(key) && isSet ? { ...setting, next: { value: inFile?.value } } : setting];
  }).flat();
}

function byKey(config: Config): Map<string, Setting> {
  return new Map(effectiveSettings(config).map((setting) => [formatKeyPath(setting.path), setting]));
}

/** Whether a path is that key, or one below it. */
function isWithin(path: string, key: string): boolean {
  return path === key || path.startsWith(`${key}.`) || path.startsWith(`${key}[`);
}

/** Records that another configuration is about to take effect; resolves when the record is durable. */
type RecordReload = (object: ActObject) => Promise<unknown>;

/** The current configuration. Settings that each request needs are read from here every time; other parts are notified of changes. */
export class LiveConfig {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #listeners: ((config: Config) => void)[] = [];
  readonly #record = Promise.withResolvers<RecordReload>();
  readonly #started: Config;
  #current: Config;
  /** The file as it was last accepted. */
  #next: Config;
  #loadedAt: number;
  #pending: readonly string[] = [];
  readonly #serially = oneAtATime();

  constructor(config: Config, clock: Clock, logger: Logger) {
    this.#started = config;
    this.#current = config;
    this.#next = config;
    this.#logger = logger;
    this.#loadedAt = clock();
    this.#clock = clock;
  }

  get current(): Config {
    return this.#current;
  }

  /** Time at which the file was last read and accepted, and its keys that have waited for a restart since. */
  get loaded(): { at: number; pending: readonly string[] } {
    return { at: this.#loadedAt, pending: this.#pending };
  }

  /** Every key with its value in effect and the value that awaits a restart. */
  settings(): SettingInEffect[] {
    return settingsInEffect(this.#started, this.#next, this.#pending);
  }

  onChange(listener: (config: Config) => void): void {
    this.#listeners.push(listener);
  }

  /** Until this is called, no configuration that was read again takes effect. */
  recordWith(record: RecordReload): void {
    this.#record.resolve(record);
  }

  /**
   * Reads the file again. A file with a fault changes nothing, and the log gives the reason. New settings take effect once that is on
   * record, which a full disk delays; the log level applies at once, because it is most wanted then.
   */
  async reload(): Promise<void> {
    const next = this.#read();
    if (next === undefined) return;
    this.#logger.level = next.logging.level;
    await this.#serially(() => this.#adopt(next));
  }

  #read(): Config | undefined {
    try {
      return loadConfig(this.#current.file);
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      this.#logger.error(
        { event: 'config_refused', reason: error.message },
        'the configuration was refused; the previous one stays in effect',
      );
      return undefined;
    }
  }

  async #adopt(next: Config): Promise<void> {
    const record = await this.#record.promise;
    const { config, applied, deferred } = mergeConfig(this.#started, this.#current, next);
    const digests = { sha256: config.sha256, previous_sha256: this.#current.sha256 };
    await record({ ...digests, applied, deferred });
    this.#current = config;
    this.#next = next;
    this.#loadedAt = this.#clock();
    this.#pending = deferred;
    for (const listener of this.#listeners) listener(config);
    this.#logger.info({ event: 'config_read', keys: applied }, 'the configuration was read again');
    if (deferred.length > 0) this.#logger.warn({ keys: deferred }, 'these keys take effect after a restart');
  }
}
