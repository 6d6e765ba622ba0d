/** The style and the script of the console, as `page/build.ts` makes them. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

export interface Asset {
  type: string;
  body: Buffer;
}

export interface AssetUrls {
  style: string;
  script: string;
}

/** By path. A path has the digest of what it stands for, so that browsers can keep it for ever. */
export interface Assets {
  urls: AssetUrls;
  byPath: ReadonlyMap<string, Asset>;
}

export function readAssets(): Assets {
  const byPath = new Map<string, Asset>();
  const add = (name: string, type: string): string => {
    const body = readFileSync(new URL(`../../dist/console/${name}`, import.meta.url));
    const digest = createHash('sha256').update(body).digest('hex').slice(0, 16);
    const path = `/assets/${digest}/${name}`;
    byPath.set(path, { type, body });
    return path;
  };
  const urls = {
    style: add('console.css', 'text/css; charset=utf-8'),
    script: add('page.js', 'text/javascript; charset=utf-8'),
  };
  return { urls, byPath };
}
