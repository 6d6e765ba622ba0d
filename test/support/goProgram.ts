import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { prepared } from './prepared.ts';

/** Go of Debian's sid and libraries for it, where the set-up of the tests unpacked them. */
const UNPACKED = fileURLToPath(new URL('../../node_modules/.cache/go/usr', import.meta.url));

/** Of what Go compiles, which is all the same however often our sources change: Go itself knows what is still valid. */
const GOCACHE = fileURLToPath(new URL('../../node_modules/.cache/go-build', import.meta.url));

/** Builds one of the programs beside this file, in Go; its path. */
export async function goProgram(name: 'readLog' | 'judgeFormats'): Promise<string> {
  const source = fileURLToPath(new URL(`${name}.go`, import.meta.url));
  // Debian's packages of Go libraries are for GOPATH.
  const env = { GO111MODULE: 'off', GOPATH: join(UNPACKED, 'share/gocode') };
  const build = async (dir: string) => go(['build', '-o', join(dir, name), source], { env });
  return join(await prepared(`${name} ${readFileSync(source)}`, build, []), name);
}

/** Runs `go`, with nothing from the network. Throws if it fails. */
export function go(args: string[], { cwd, env }: { cwd?: string; env: Record<string, string> }): void {
  const root = join(UNPACKED, 'lib/go-1.26');
  if (!existsSync(root)) throw new Error('there is no Go: sh test/setup.sh --all-tests unpacks it');
  const own = {
    PATH: process.env.PATH,
    GOROOT: root,
    GOCACHE,
    CGO_ENABLED: '0',
    GOTOOLCHAIN: 'local',
    GOPROXY: 'off',
  };
  execFileSync(join(root, 'bin/go'), args, { cwd, env: { ...own, ...env }, stdio: 'inherit' });
}
