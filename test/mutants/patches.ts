/** The mutants: patches in this folder. Before the patch stands what is wrong with it, and what a user would suffer. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const HERE = fileURLToPath(new URL('.', import.meta.url));

export function mutantNames(): string[] {
  return readdirSync(HERE)
    .filter((file) => file.endsWith('.patch'))
    .map((file) => file.replace(/\.patch$/, ''))
    .sort();
}

export function patchOf(name: string): string {
  return join(HERE, `${name}.patch`);
}

/** The file of `src` that the patch changes. */
export function fileOf(name: string): string {
  const [, path = ''] = /^diff --git a\/(\S+) /m.exec(readFileSync(patchOf(name), 'utf8')) ?? [];
  return path;
}

export function applies(name: string): boolean {
  return spawnSync('git', ['apply', '--check', patchOf(name)], { cwd: ROOT }).status === 0;
}
