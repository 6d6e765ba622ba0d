/** A log whose next epoch people propose and approve in a console: its installation, its store and what they send. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { systemClock } from '../../src/base/clock.ts';
import type { Role } from '../../src/base/people.ts';
import type { ConsoleOptions } from '../../src/console/console.ts';
import { epochActsOf } from '../../src/main/epochActs.ts';
import { EpochSeal } from '../../src/prove/epochs/epochSeal.ts';
import { openStore } from '../../src/store/lmdb/open.ts';
import { openSandbox } from '../support/sandbox.ts';
import { sampleEpochs } from './sampleStatus.ts';
import { openTestConsole, type TestConsole } from './testConsole.ts';

const HOUR_MS = 3_600_000;
/** As the field of the form sends it. */
export const LATER = new Date(Date.now() + 48 * HOUR_MS).toISOString().slice(0, 16);
export const PLAN = { act: 'plan', from: LATER };

/** The installation of a log whose quorum is 2 of three partitions, and whose configuration says 1 by now. */
export async function openLog(t: Test) {
  const sandbox = await openSandbox({ regions: ['eu', 'us', 'ap'], quorum: 2 });
  t.teardown(() => sandbox.close());
  const configure = (from: string, to: string) => {
    const text = readFileSync(sandbox.configFile, 'utf8');
    if (!text.includes(from)) throw new Error(`no ${from} in the configuration`);
    writeFileSync(sandbox.configFile, text.replace(from, to));
  };
  configure('quorum = 2', 'quorum = 1');
  const store = await openStore({
    path: join(sandbox.dir, 'state', 'store'),
    clock: systemClock,
    monotonicMs: () => Math.floor(performance.now()),
  });
  t.teardown(() => store.close());
  const epochActs = epochActsOf(store, { file: sandbox.configFile, epochSeal: new EpochSeal(store) });
  const quorums = async () => (await store.epochs.newest()).list.map(({ quorum }) => quorum.needed);
  // This process has the store open.
  const pdfseal = (...args: string[]) =>
    sandbox.pdfseal([...args, '--config', sandbox.configFile], { apart: true });
  return { sandbox, pdfseal, store, epochActs, configure, quorums };
}

export async function openConsole(t: Test, options: Partial<ConsoleOptions> = {}) {
  const log = await openLog(t);
  const { store, epochActs } = log;
  const epochs = async () => sampleEpochs().slice(1, 2);
  const test = await openTestConsole(t, { store, epochActs, epochs, ...options });
  return { ...log, ...people(test), test };
}

export function people(test: TestConsole) {
  /** Each time in another session. */
  const send = (name: string, step: string, fields: Record<string, string>, role: Role = 'administrator') => {
    const { cookie, token } = test.signedIn(role, name);
    return test.post(`/care/epochs/${step}`, { ...fields, token }, { cookie });
  };
  const page = async (path: string, name = 'Bert', role: Role = 'administrator') =>
    (await test.get(path, { cookie: test.signedIn(role, name).cookie })).text;
  const waiting = async () =>
    /name="proposal" value="([^"]+)"/.exec(await page('/care/epochs'))?.[1] ?? 'none';
  const answer = async (name: string, step: 'approve' | 'refuse') =>
    send(name, step, { proposal: await waiting(), sure: 'yes' });
  const acts = async () => (await test.acts()).filter((one) => /^(epoch|console)\./.test(one?.act ?? ''));
  return { send, page, waiting, answer, acts };
}
