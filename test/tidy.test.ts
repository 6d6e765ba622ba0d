/** Holds the shape of the source tree, as the code map in docs/develop.md describes it. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import manifest from '../package.json' with { type: 'json' };
import { BOUNDED_ELSEWHERE, growingCollections, REACHED_ROOMS } from './collections.ts';
import { staleGlobs } from './suite/tiers.ts';

const SRC = fileURLToPath(new URL('../src', import.meta.url));

/**
 * The rooms of `src`, from the bottom up. A room is a folder, or one of the two programs. A file imports from its own room and from
 * rooms in ranks below, never from a neighbour: one device knows no other, and the work knows no face.
 */
const RANKS = [
  ['base'],
  ['asn1', 'log', 'pdf'],
  ['job'],
  ['manifest'],
  ['web'],
  ['store', 'kms', 'tsa', 'scan', 'hash', 'source', 'copy'],
  ['limits', 'webhook'],
  ['seal', 'prove'],
  ['watch', 'config'],
  ['health'],
  ['ops'],
  ['http', 'witness'],
  ['admin'],
  ['console'],
  ['cli'],
  ['main'],
  ['cli.ts', 'main.ts'],
];
/** The rooms of `prove`, from the bottom up, where the same holds. */
const PROVE_RANKS = [['verify'], ['renewal', 'epochs'], ['trail']];
/** One room imports another: the more such arrows, the more a newcomer must know to change anything. */
const ARROWS_MAX = 173;

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

function roomOf(path: string): string {
  return path.split('/')[0] ?? '';
}

function rankOf(path: string): number {
  return RANKS.findIndex((rooms) => rooms.includes(roomOf(path)));
}

t.test('every file has a rank, and every import finds a file', async (t) => {
  const paths = new Set(sources.map(({ path }) => path));
  t.ok(paths.size > 50, `${paths.size} files`);
  for (const { path, imports } of sources) {
    t.ok(rankOf(path) >= 0, `${path} has a rank`);
    for (const imported of imports) t.ok(paths.has(imported), `${path} imports ${imported}`);
  }
});

t.test('imports only go down the ranks, with few arrows between rooms', async (t) => {
  const arrows = new Set<string>();
  for (const { path, imports } of sources) {
    const others = imports.filter((to) => roomOf(to) !== roomOf(path));
    for (const to of others) arrows.add(`${roomOf(path)} → ${roomOf(to)}`);
    t.strictSame(
      others.filter((to) => rankOf(to) >= rankOf(path)),
      [],
      path,
    );
  }
  t.ok(arrows.size <= ARROWS_MAX, `${arrows.size} arrows`);
});

t.test('imports between the rooms of prove go down their ranks', async (t) => {
  const rankIn = (path: string) =>
    PROVE_RANKS.findIndex((rooms) => rooms.some((room) => path.startsWith(`prove/${room}/`)));
  for (const { path, imports } of sources.filter((one) => roomOf(one.path) === 'prove')) {
    t.ok(rankIn(path) >= 0, `${path} has a rank`);
    const others = imports.filter((to) => roomOf(to) === 'prove' && dirname(to) !== dirname(path));
    t.strictSame(
      others.filter((to) => rankIn(to) >= rankIn(path)),
      [],
      path,
    );
  }
});

t.test('the code map has every room, in the order of the ranks', async (t) => {
  const map = readFileSync(join(SRC, '../docs/develop.md'), 'utf8');
  const listed = Array.from(map.matchAll(/^\| `src\/([\w.]+)\/?`/gm), ([, room = '']) => room);
  t.strictSame([...listed].sort(), RANKS.flat().sort());
  const ranks = listed.map((room) => rankOf(room));
  t.strictSame(
    ranks,
    ranks.toSorted((a, b) => b - a),
    'from the programs down',
  );
});

t.test('no file imports itself through others', async (t) => {
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

t.test('one file reads the environment, and no file re-exports another', async (t) => {
  for (const { path, text } of sources) {
    if (path !== 'base/env.ts') t.notMatch(text, /process\.env\b/, `${path} is told by its caller`);
    t.notMatch(text, /^export (\*|\{[^}]*\}) from /m, `${path} is no barrel`);
    t.notMatch(text, /^export default /m, `${path} names what it exports`);
  }
});

/** The same concept at two ranks: what each face says of itself, and how it is served. */
const TWICE = ['openapi.ts', 'server.ts'];

t.test('file names and exported names are unique', async (t) => {
  const here = sources.filter(({ path }) => !path.endsWith('.browser.ts'));
  const files = here.map(({ path }) => basename(path)).filter((name) => !TWICE.includes(name));
  const declared =
    /^export (?:declare |abstract |async )*(?:function\*?|const|class|interface|type|let) (\w+)/gm;
  const names = here.flatMap(({ text }) => Array.from(text.matchAll(declared), ([, name = '']) => name));
  t.ok(names.length > 1000, `${names.length} exported names`);
  for (const all of [files, names])
    t.strictSame(
      all.filter((name, n) => all.indexOf(name) !== n),
      [],
      'none is there twice',
    );
});

const BROWSER: Record<string, string> = Object.fromEntries(
  Object.entries(manifest.browser).map(([from, to]) => [sourceOf(from), sourceOf(to)]),
);

function sourceOf(compiled: string): string {
  return compiled.replace('./dist/', '').replace(/\.js$/, '.ts');
}

t.test('offline verification uses nothing of Node.js in a browser', async (t) => {
  const sourceByPath = new Map(sources.map((source) => [source.path, source]));
  const reached = new Set<string>();
  const reach = (imported: string): void => {
    const path = BROWSER[imported] ?? imported;
    if (reached.has(path)) return;
    reached.add(path);
    for (const next of sourceByPath.get(path)?.imports ?? []) reach(next);
  };
  for (const path of ['prove/verify/verify.ts', 'prove/verify/proven.ts']) reach(path);
  const packages = new Set<string>();
  for (const path of reached) {
    const { text = '' } = sourceByPath.get(path) ?? {};
    t.notMatch(text, /\bBuffer\b|\b(process|setImmediate|require)\b[.(]/, path);
    for (const [, name = ''] of text.matchAll(/\bfrom '([^'.][^']*)'/g)) packages.add(name);
  }
  t.strictSame([...packages].sort(), [
    '@noble/curves/abstract/modular.js',
    '@noble/curves/ed25519.js',
    '@noble/curves/nist.js',
    '@noble/hashes/legacy.js',
    '@noble/hashes/sha2.js',
    '@noble/post-quantum/ml-dsa.js',
    'canonicalize',
    'zod',
  ]);
  for (const [from, to] of Object.entries(BROWSER)) {
    t.ok(reached.has(to), `${to} is reached`);
    t.ok(sourceByPath.has(from), `${from} is there to be replaced`);
  }
});

const TEST = fileURLToPath(new URL('.', import.meta.url));

/** Secrets, and names that must be unlike those of any other process: not what the seed gives. */
const UNIQUE = [
  'webhook/deliverer.ts',
  'support/seed.ts',
  'support/partitions.ts',
  'support/tamper.ts',
  'store/samples.ts',
  'hash/faulty-worker.ts',
];

t.test('random choices of tests come from a seed that is printed', async (t) => {
  const paths = readdirSync(TEST, { recursive: true, encoding: 'utf8' }).filter(
    (path) => /\.m?ts$/.test(path) && !path.startsWith('bench/') && path !== 'tidy.test.ts',
  );
  t.ok(paths.length > 100, `${paths.length} files`);
  for (const path of paths) {
    const text = readFileSync(join(TEST, path), 'utf8');
    t.notMatch(text, /Math\.random/, `${path} takes random() of support/seed.ts`);
    if (UNIQUE.includes(path)) continue;
    t.notMatch(text, /'fast-check'/, `${path} takes fc of support/seed.ts, which gives it the seed`);
    const chance =
      /^import [^;]*\b(randomBytes|randomInt|randomUUID|getRandomValues)\b[^;]* from 'node:crypto'/m;
    t.notMatch(text, chance, `${path} takes randomBytes of support/seed.ts`);
  }
});

t.test('a process that a test starts has only the environment that the test gives it', async (t) => {
  const program = 'process.stdout.write(JSON.stringify([process.env, process.execArgv]))';
  const env = { LANG: 'C.UTF-8' };
  const printed = execFileSync(process.execPath, ['--eval', program], { env, encoding: 'utf8' });
  t.strictSame(JSON.parse(printed), [env, ['--eval', program]]);
});

/** What runs by itself, and whose promise nobody is given: the call in a callback of a timer or an event, or after `void`. */
const UNWATCHED = [
  /\bvoid ([\w.#?]+)\(/g,
  /\b(?:setTimeout|setInterval|setImmediate|\.on|\.once|\.addEventListener)\((?:'[\w:]+', )?\([^()]*\) => ([\w.#?]+)\((?!.*\)\s*\.catch\()/g,
  /\b(?:setTimeout|setInterval|setImmediate)\(([\w.#?]+)[,)]/g,
];

/** Of Node's own objects, and two that share their name with one that gives a promise. */
const SYNCHRONOUS = /\.(?:push|destroy|write)$|^(?:body\.fail|tls\.reload)$/;

/** Whether a function of that name gives a promise, by what stands before its declaration in one of these. */
function declarations(name: string, among: Source[]): { isAsync: boolean; doc: string }[] {
  const declared = new RegExp(
    `(?:/\\*\\*((?:(?!\\*/)[^])*)\\*/\\s*)?(?:export |static )*(async )?(?:function\\*? |const )?${name}(?: = (async )?)?\\([^()]*(?:\\([^()]*\\)[^()]*)*\\)(: Promise<)?[^;\\n]*(?:\\{|=>)$`,
    'gm',
  );
  return among.flatMap(({ text }) =>
    Array.from(text.matchAll(declared), ([, doc = '', before, after, promise]) => ({
      isAsync: Boolean(before ?? after ?? promise),
      doc,
    })),
  );
}

t.test('a promise that is not awaited never rejects, or is caught', async (t) => {
  let calls = 0;
  for (const source of sources) {
    t.notMatch(
      source.text,
      /\b(?:set\w+|\.on|\.once|\.addEventListener)\([^\n]*\basync\b[^\n]*=>/,
      source.path,
    );
    const names = UNWATCHED.flatMap((pattern) =>
      Array.from(source.text.matchAll(pattern), ([, name = '']) => name),
    );
    for (const path of names) {
      const name = path.split(/[.?]+/).at(-1) ?? '';
      if (SYNCHRONOUS.test(path)) continue;
      const here = declarations(name, [source]);
      const found = here.length > 0 ? here : declarations(name, sources);
      const isSafe =
        found.every(({ isAsync }) => !isAsync) || found.some(({ doc }) => /never rejects/i.test(doc));
      calls += 1;
      t.ok(isSafe, `${source.path}: ${path}`);
    }
  }
  t.ok(calls > 20, `${calls} calls`);
});

t.test('code that runs for each request makes no object literal with an accessor', async (t) => {
  // V8 gives each such object a hidden class of its own, which keeps what the accessor can see until the whole heap is collected: with
  // one in each request, that was once a second. An accessor of a class is indented by one level, one of a literal by more.
  const literals = sources.flatMap(({ path, text }) =>
    roomOf(path) === 'http' && /^ {4,}[gs]et \w+\(/m.test(text) ? [path] : [],
  );
  t.strictSame(literals, []);
});

t.test('every glob of tests that the quick tier leaves out fits a file', async (t) => {
  t.strictSame(staleGlobs(), []);
});

/**
 * Functions that return methods over their own variables. Those of the store make the groups of its contract, which are object literals over
 * their tables. The first two remember only what they read last. Add none.
 */
const STATEFUL_CLOSURES = [
  'prove/trail/lastCheckpoint.ts openLastCheckpoint',
  'seal/draft.ts growthOf',
  ...['endpointRecords', 'epochRecords', 'logRecords', 'outboxRecords'].map(
    (name) => `store/lmdb/${name}.ts ${name}`,
  ),
  ...['epochTable', 'jobTable', 'logTable', 'nodeTalk', 'outboxTable'].map(
    (name) => `store/postgresql/${name}.ts ${name}`,
  ),
];

/** Functions that change a variable of their own and return an object with several methods, by the indentation of the formatter. */
function statefulClosures(text: string): string[] {
  const functions = text.matchAll(/^(?:export )?(?:async )?function (\w+)[\s\S]*?^\}$/gm);
  return Array.from(functions, ([body, name = '']) => {
    const local = body.matchAll(
      /^ {2}(?:const|(?:async )?function\*?) (\w+)(?:\(|<| = (?:async )?[(\w][^=]* =>)/gm,
    );
    const callable = new Set(Array.from(local, ([, own]) => own));
    const objects = body.matchAll(/^ {2}(?:return|const .* =) \{$[\s\S]*?^ {2}\};?$/gm);
    const counts = Array.from(objects, ([object]) => {
      const methods = object.match(
        /^ {4}(?:(?:async |get )?\*?\w+\(.*\{|\w+: (?:async )?(?:\(.*\)|\w+) =>.*)$/gm,
      );
      const named = object.matchAll(/^ {4}(\w+),$/gm);
      return (methods?.length ?? 0) + Array.from(named).filter(([, own]) => callable.has(own)).length;
    });
    return /^ {2}let /m.test(body) && Math.max(0, ...counts) > 1 ? [name] : [];
  }).flat();
}

t.test('what has state and several methods is a class', async (t) => {
  const found = sources.flatMap(({ path, text }) => statefulClosures(text).map((name) => `${path} ${name}`));
  t.strictSame(found.sort(), STATEFUL_CLOSURES.sort());
  const method = '    next() {\n      count += 1;\n    },\n';
  const closure = (methods: string) =>
    `export function open() {\n  let count = 0;\n  return {\n${methods}  };\n}\n`;
  t.strictSame(statefulClosures(closure(`${method}    last: () => count,\n`)), ['open']);
  t.strictSame(statefulClosures(closure(method)), [], 'one method is a function with a memory');
});

t.test('a collection that strangers or clients can make grow is bounded, or has a reason', async (t) => {
  const found = sources
    .filter(({ path }) => REACHED_ROOMS.includes(roomOf(path)))
    .flatMap(({ path, text }) => growingCollections(text).map((name) => `${path} ${name}`));
  t.strictSame(found.sort(), Object.values(BOUNDED_ELSEWHERE).flat().sort());
});

t.test('a new collection without a bound is found wherever it is declared', async (t) => {
  const text = `
const module = new Map<string, number>();
/* const inComment = new Set(); */
class Server {
  readonly #waiting: (() => void)[] = [];
  readonly #counts: Map<string, number>;
  readonly #read = new WeakMap<Session, Set<string>>();
  readonly #turns: SlotQueue;
  #others: readonly string[];
  readonly #bounded = new BoundedMap<string, Job[]>({ max: 10, whenFull: 'refuse it' });
  readonly #sockets = new WeakMap<Socket, Connection>();
  serve() {
    this.#turns = new SlotQueue({ of: 'pages', max: 1 });
    const chunks: Buffer[] = [];
    const serially = this.#queues.get(name) ?? oneAtATime();
    const names = new Set(known.map(nameOf)); // no larger than what is known
  }
}
function open() {
  let heard = new Set<string>();
}`;
  const expected = ['module', '#waiting', '#counts', '#read', '#turns', 'chunks', 'serially', 'heard'];
  t.strictSame(growingCollections(text), expected);
});

t.test('pages and sources have one word for one thing, as CONTRIBUTING.md lists them', async (t) => {
  const avoided =
    /\b(?:epochs? to come|active (?:API )?keys?|active certificates?|make an API key|(?:gave|given) up (?:the )?webhooks?|webhooks? that (?:was|were) given up|replaced? (?:the )?(?:webhook )?secrets?|completed (?:documents?|leaf|leaves|batch))\b/i;
  const root = join(SRC, '..');
  const files = ['docs', 'src', 'page', 'config'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((path) => /\.(?:md|ts|yml|toml)$/.test(path))
      .map((path) => join(folder, path)),
  );
  t.ok(files.length > 500, `${files.length} files`);
  for (const path of files) t.notMatch(readFileSync(join(root, path), 'utf8'), avoided, path);
});
