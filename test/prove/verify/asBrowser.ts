/**
 * For `node --import`: gives the tests of what verifies the files that a browser's bundle has in the place of Node's
 * (package.json, "browser"). They are tens of times slower, so properties are tried for a while, not a number of times.
 */
import { registerHooks } from 'node:module';
import manifest from '../../../package.json' with { type: 'json' };
import { fc } from '../../support/seed.ts';

const PROPERTY_MS = 1500;

const urlOf = (path: string) =>
  new URL(path.replace('./dist/', '../../../src/').replace(/\.js$/, '.ts'), import.meta.url).href;
const replacements = new Map(Object.entries(manifest.browser).map(([from, to]) => [urlOf(from), urlOf(to)]));
const replaced = new Set<string>();

registerHooks({
  resolve(specifier, context, nextResolve) {
    const found = nextResolve(specifier, context);
    const url = replacements.get(found.url);
    if (url === undefined) return found;
    replaced.add(url);
    return { ...found, url };
  },
});
fc.configureGlobal({ ...fc.readConfigureGlobal(), interruptAfterTimeLimit: PROPERTY_MS });

process.on('exit', () => {
  if (replaced.size < replacements.size)
    throw new Error(`replaced only ${[...replaced].join(', ') || 'nothing'}`);
});
