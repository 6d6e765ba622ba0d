/** Power cuts while commands put another store in the place of one: each either has done all, or can be repeated, and no log is in two places. */
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Sandbox } from '../support/sandbox.ts';
import { writeImage } from './images.ts';
import type { Outcome } from './play.ts';
import { chosen, type PowerCutOptions, record, recordingIn, sealOn } from './powerCut.ts';
import { randomFrom } from './random.ts';
import { PROMISED, type Recording } from './trace.ts';

/** The configuration of the store to which the log moves. */
export const MOVED = 'moved.toml';

/** Each ends with a command, but for the times in which the daemon seals. */
export type Stage = 'sealed' | 'restored' | 'sealed again' | 'reset' | 'moved';

export async function cutMoves(
  seed: number,
  { images, code }: Pick<PowerCutOptions, 'images' | 'code'>,
): Promise<Outcome> {
  const folder = mkdtempSync(join(tmpdir(), 'pdfseal-recorded-'));
  const against: string[] = [];
  let dir: string | undefined;
  try {
    const recorded = await record('recordedMoves.ts', seed, folder, code);
    dir = recorded.dir;
    const recording = recordingIn(folder, recorded);
    const first = recording.said.find(({ text }) => text.startsWith(PROMISED))?.line;
    const cuts = chosen(recording, randomFrom(seed), images, first);
    for (const cut of cuts) {
      // In its own place: a move is written down with the names of both places.
      for (const name of readdirSync(dir))
        if (!name.startsWith('token-')) rmSync(join(dir, name), { recursive: true });
      writeImage(recording, cut, dir);
      const stage = stageAt(recording, cut.line);
      const image = new Sandbox(dir, recorded.port, [], 'dist');
      await judgeStage(image, stage).catch(async (error) => {
        against.push(`cut at line ${cut.line} after "${stage}", ${cut.kept}: ${error}`);
        await image.kill();
      });
    }
    return { ending: `${cuts.length} images`, against };
  } finally {
    if (dir) rmSync(dir, { recursive: true, force: true });
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The last one that was promised before a line. */
function stageAt({ said }: Recording, line: number): Stage | undefined {
  const promised = said.filter((one) => one.line < line && one.text.startsWith(PROMISED));
  return promised.at(-1)?.text.slice(PROMISED.length).trim() as Stage | undefined;
}

/** Throws unless what was promised is as it was, and the command that was cut off can be repeated. */
async function judgeStage(image: Sandbox, stage: Stage | undefined): Promise<void> {
  const [here, there] = [image.configFile, join(image.dir, MOVED)];
  const run = async (...args: string[]) => {
    const { status, stdout, stderr } = await image.pdfseal(args);
    if (status !== 0) throw new Error(`${args[0]} ended with ${status}: ${stdout}${stderr}`);
  };
  const isUsed = async (file: string) =>
    (await image.pdfseal(['keys', 'list', '--config', file])).status === 0;
  if (stage !== 'reset' && stage !== 'moved') {
    if (stage === 'sealed')
      await run('restore', '--config', here, '--input', join(image.dir, 'backup'), '--accept-rollback');
    await sealOn(image);
    return;
  }
  if (existsSync(join(image.dir, 'state', 'signers')))
    throw new Error('the signers were reset, and remember');
  if ((await isUsed(here)) && (await isUsed(there))) throw new Error('the log is in two places');
  if (stage === 'moved' && !(await isUsed(there))) throw new Error('the log is not where it was moved to');
  await run('store', 'migrate', '--config', here, '--to', there);
  await run('check', '--config', there);
  if (await isUsed(here)) throw new Error('the log is still where it was');
}
