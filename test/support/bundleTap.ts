/** Puts tap in one file, for `leanTap.ts`: each test file found, read and linked some 300 modules of it. It is where tap knows itself in a stack trace. */
import { readFileSync } from 'node:fs';
import { build, type Plugin } from 'esbuild';

/**
 * tap removes the folder of a test before what the test tears down, unless something was to be torn down when the folder was made: under a signer
 * that still writes into it. That failed now and then, and what was not torn down then went on for ever.
 */
const REMOVES = 'const { onEOF } = this.#t;';
const removeFoldersLast: Plugin = {
  name: 'remove folders last',
  setup({ onLoad }) {
    onLoad({ filter: /@tapjs\/fixture\/dist\/esm\/index\.js$/ }, ({ path }) => {
      const text = readFileSync(path, 'utf8');
      if (!text.includes(REMOVES)) throw new Error(`${path} removes folders in another way`);
      return { contents: text.replace(REMOVES, `this.#t.t.teardown(() => {}); ${REMOVES}`) };
    });
  },
};

await build({
  stdin: { contents: "export * from 'tap';\nexport { default } from 'tap';", resolveDir: '.' },
  outfile: 'node_modules/@tapjs/test/test-built/dist/tap.mjs',
  bundle: true,
  platform: 'node',
  format: 'esm',
  // Some of its packages are of Node's older kind, and ask for Node's own modules.
  banner: {
    js: "import { createRequire as requireFor } from 'node:module';\nconst require = requireFor(import.meta.url);",
  },
  plugins: [removeFoldersLast],
  logLevel: 'error',
});
