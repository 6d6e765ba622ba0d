/** The style sheet and the script of the console, as built by `page/build.ts`. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

export interface Asset {
  type: string;
  body: Buffer;
  /** The same content, gzip-compressed. */
  zipped: Buffer;
}

export interface AssetUrls {
  style: string;
  script: string;
  find: string;
  receipt: string;
}

/** Assets by path. A path contains the digest of its content, so browsers can cache it indefinitely. */
export interface Assets {
  urls: AssetUrls;
  byPath: ReadonlyMap<string, Asset>;
}

const SCRIPT_TYPE = 'text/javascript; charset=utf-8';

export function readAssets(): Assets {
  const byPath = new Map<string, Asset>();
  const add = (name: string, type: string): string => {
    const body = readFileSync(new URL(`../../dist/console/${name}`, import.meta.url));
    const digest = createHash('sha256').update(body).digest('hex').slice(0, 16);
    const path = `/assets/${digest}/${name}`;
    byPath.set(path, { type, body, zipped: gzipSync(body) });
    return path;
  };
  const urls = {
    style: add('console.css', 'text/css; charset=utf-8'),
    script: add('page.js', SCRIPT_TYPE),
    find: add('find.js', SCRIPT_TYPE),
    receipt: add('receipt.js', SCRIPT_TYPE),
  };
  return { urls, byPath };
}
