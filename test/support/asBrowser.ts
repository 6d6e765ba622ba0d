/** Given to Node with --import: replaces what package.json's "browser" replaces, and takes Buffer away from what verifies. */
import { registerHooks } from 'node:module';
import manifest from '../../package.json' with { type: 'json' };

const ROOT = new URL('../../', import.meta.url);
const sourceOf = (path: string) =>
  new URL(path.replace('/dist/', '/src/').replace(/\.js$/, '.ts'), ROOT).href;
const replaced = new Map(
  Object.entries(manifest.browser).map(([from, to]) => [sourceOf(from), sourceOf(to)]),
);

registerHooks({
  resolve(specifier, context, nextResolve) {
    const found = nextResolve(specifier, context);
    return { ...found, url: replaced.get(found.url) ?? found.url };
  },
});
