/** Holds the shape of the source tree that the README's code map promises. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';

const SRC = fileURLToPath(new URL('../src', import.meta.url));

/**
 * From the bottom up. A folder, or a file of that name at the top, imports from layers below its own and from itself,
 * never from a neighbour: devices stay apart, formats know no device, the journeys know no door.
 */
const LAYERS = [
  ['base'],
  ['job', 'log', 'net', 'pdf', 'multipart', 'asn1'],
  ['manifest'],
  ['hash', 'kms', 'scan', 'store', 'tsa'],
  ['document', 'draft', 'timestamping', 'receipts', 'expiry'],
  ['intake', 'sealer', 'verify', 'sweep', 'supervision', 'webhook'],
  ['canary'],
  ['config', 'http'],
  ['cli'],
  ['main'],
];

interface Source {
  path: string;
  text: string;
  /** Paths of the files it imports, relative to src. */
  imports: string[];
}

const sources: Source[] = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts'))
  .map((path) => {
    const text = readFileSync(join(SRC, path), 'utf8');
    return { path, text, imports: importsOf(path, text) };
  });

function importsOf(path: string, text: string): string[] {
  const specifiers = text.matchAll(/(?:\bfrom|\bimport\(?|new URL\()\s*['"](\.[^'"]+\.ts)['"]/g);
  return Array.from(specifiers, ([, specifier = '']) => normalize(join(dirname(path), specifier)));
}

function unitOf(path: string): string {
  return (path.split('/')[0] ?? '').replace(/\.ts$/, '');
}

function layerOf(path: string): number {
  return LAYERS.findIndex((units) => units.includes(unitOf(path)));
}

t.test('every file has a layer, and every import finds a file', async (t) => {
  const paths = new Set(sources.map(({ path }) => path));
  t.ok(paths.size > 50, `${paths.size} files`);
  for (const { path, imports } of sources) {
    t.ok(layerOf(path) >= 0, `${path} belongs to a layer`);
    for (const imported of imports) t.ok(paths.has(imported), `${path} imports ${imported}`);
  }
});

t.test('imports only go down', async (t) => {
  for (const { path, imports } of sources) {
    const upward = imports.filter((to) => unitOf(to) !== unitOf(path) && layerOf(to) >= layerOf(path));
    t.strictSame(upward, [], path);
  }
});

t.test('no file imports itself by way of others', async (t) => {
  const importsByPath = new Map(sources.map(({ path, imports }) => [path, imports]));
  const done = new Set<string>();
  const walk = (path: string, trail: string[]): void => {
    if (trail.includes(path)) t.fail([...trail.slice(trail.indexOf(path)), path].join(' → '));
    if (done.has(path) || trail.includes(path)) return;
    for (const imported of importsByPath.get(path) ?? []) walk(imported, [...trail, path]);
    done.add(path);
  };
  for (const { path } of sources) walk(path, []);
  t.equal(done.size, sources.length);
});

t.test('one file reads the environment, and none passes on what it does not own', async (t) => {
  for (const { path, text } of sources) {
    if (path !== 'base/env.ts') t.notMatch(text, /process\.env\b/, `${path} is told by its caller`);
    t.notMatch(text, /^export (\*|\{[^}]*\}) from /m, `${path} is no barrel`);
    t.notMatch(text, /^export default /m, `${path} names what it exports`);
  }
});

t.test(
  'what verifies offline imports nothing of Node but cryptography, and that in four files',
  async (t) => {
    const importsByPath = new Map(sources.map((source) => [source.path, source]));
    const reached = new Set<string>();
    const reach = (path: string): void => {
      if (reached.has(path)) return;
      reached.add(path);
      for (const imported of importsByPath.get(path)?.imports ?? []) reach(imported);
    };
    reach('verify.ts');
    const bound = [...reached].filter((path) => /from 'node:/.test(importsByPath.get(path)?.text ?? ''));
    t.strictSame(bound.sort(), ['asn1/algorithm.ts', 'asn1/certificate.ts', 'base/bytes.ts', 'log/keys.ts']);
    for (const path of bound) {
      const modules = importsByPath.get(path)?.text.match(/(?<=from ')node:[^']+/g);
      t.strictSame(modules, ['node:crypto'], path);
    }
  },
);
