import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';

export const SYNCHRONIZED =
  'A29FC87B,192.0.2.1,3,1700000000.0,0.000001,0.0,0.000001,0.1,0.0,0.01,0.002,0.0003,64.0,Normal\n';
export const UNSYNCHRONIZED = '00000000,,0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,1.0,1.0,0.0,Not synchronised\n';

/** A chronyc that prints what the file beside it holds. */
export function makeChronyc(t: Test): { program: string; say(text: string): void } {
  const dir = t.testdir();
  const [program, tracking] = [join(dir, 'chronyc'), join(dir, 'tracking')];
  writeFileSync(program, `#!/bin/sh\ncat '${tracking}'\n`, { mode: 0o755 });
  return { program, say: (text) => writeFileSync(tracking, text) };
}
