/** Puts tap in one file, for `leanTap.ts`: each test file found, read and linked some 300 modules of it. It is where tap knows itself in a stack trace. */
import { build } from 'esbuild';

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
  logLevel: 'error',
});
