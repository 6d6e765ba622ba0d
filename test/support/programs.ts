/** The programs that tests start. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { prepared } from './prepared.ts';

/** `src` is the TypeScript of now, one file instead of hundreds; `dist` is what `npm run build` made of it, or a changed copy of that. */
export type Code = 'src' | 'dist' | { dist: string };

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** The file of a program. */
export async function programFile(name: 'main' | 'cli' | 'witness/start', code: Code): Promise<string> {
  if (typeof code === 'object') return join(code.dist, `${name}.js`);
  if (code === 'dist') return join(ROOT, `dist/${name}.js`);
  return join(await prepared('programs', bundlePrograms), `${name}.js`);
}

/**
 * A command ran for half of its time to find, read and link some 300 modules, and the tests run hundreds of commands. What a program
 * finds by its own address (add-ons, signers, workers, package.json) it finds beside the sources. A script of Node's older kind is
 * not linked at all, but has no `await` outside of functions. White space is left out, and names of its own are not kept: to read
 * the one and to make the others took an eighth of a command.
 */
async function bundlePrograms(dir: string): Promise<void> {
  const { build } = await import('esbuild');
  await build({
    entryPoints: ['cli', 'main', 'witness/start'].map((name) => join(ROOT, `src/${name}.ts`)),
    outdir: dir,
    bundle: true,
    platform: 'node',
    format: 'cjs',
    target: `node${process.versions.node}`,
    minifyWhitespace: true,
    // A stack trace shows the line.
    lineLimit: 200,
    legalComments: 'none',
    logLevel: 'error',
    // Add-ons, and what starts threads.
    external: ['lmdb', 'pino', 'piscina'],
    plugins: [
      {
        name: 'own address',
        setup: ({ onLoad }) =>
          onLoad({ filter: /\.ts$/ }, async ({ path }) => ({
            contents: (await readFile(path, 'utf8'))
              .replaceAll('import.meta.url', `'${pathToFileURL(path).href}'`)
              .replace(/^await main\(/m, 'void main('),
            loader: 'ts',
          })),
      },
    ],
  });
}
