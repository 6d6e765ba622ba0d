/**
 * Builds dist/verify.html, the verifier in a single file without dependencies, usable for decades; and the style sheet and script of the
 * console.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build, transform } from 'esbuild';
import manifest from '../package.json' with { type: 'json' };
import { english } from './english.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** Bundles TypeScript for a browser; its exports become members of the global `pdfseald`. Throws if it needs Node. */
export async function bundle(source: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents: source, resolveDir: `${ROOT}page`, loader: 'ts' },
    bundle: true,
    write: false,
    platform: 'browser',
    format: 'iife',
    globalName: 'pdfseald',
    target: 'es2023',
    minify: true,
    legalComments: 'eof',
    charset: 'utf8',
  });
  return outputFiles.map(({ text }) => text).join('');
}

/** The page. Its policy allows only inline code to run, and does not allow the page to load or send anything. */
async function buildPage(): Promise<string> {
  const script = await bundle(read('page.ts'));
  const style = styleOf('page.css', 'report.css');
  const policy = [
    `default-src 'none'`,
    `script-src ${hashOfSource(script)}`,
    `style-src ${hashOfSource(style)}`,
    `base-uri 'none'`,
    `form-action 'none'`,
    `require-trusted-types-for 'script'`,
  ].join('; ');
  // In English until the script runs and detects the reader's language.
  const { title, intro, noScript } = english;
  const parts: Record<string, string> = {
    ...{ policy, style, script, version: manifest.version },
    ...{ title, intro, noScript },
  };
  return read('page.html').replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name] ?? '');
}

/** The source expression of an inline script or style in a policy. */
export function hashOfSource(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

/** The given style sheets, between those that every page has. */
function styleOf(...own: string[]): string {
  return ['palette.css', 'base.css', ...own, 'media.css'].map(read).join('');
}

function read(name: string): string {
  return readFileSync(new URL(name, import.meta.url), 'utf8');
}

/** Builds the files that `src/console/assets.ts` reads. */
async function buildConsole(): Promise<void> {
  mkdirSync(`${ROOT}dist/console`, { recursive: true });
  const style = styleOf('console/console.css', 'console/find.css', 'console/access.css');
  const { code } = await transform(style, { loader: 'css', minify: true });
  writeFileSync(`${ROOT}dist/console/console.css`, code);
  for (const name of ['page', 'find', 'receipt'])
    writeFileSync(`${ROOT}dist/console/${name}.js`, await bundle(`import './console/${name}.ts';`));
}

if (import.meta.main) {
  writeFileSync(`${ROOT}dist/verify.html`, await buildPage());
  await buildConsole();
}
