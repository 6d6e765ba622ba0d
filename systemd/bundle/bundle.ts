/**
 * Makes what an administrator without the internet installs: a Debian package and a tarball of the same tree, a list of what
 * is in it (CycloneDX), checksums, and a signature over those. The same commit gives the same bytes.
 */
import { execFileSync } from 'node:child_process';
import { createHash, createPrivateKey, sign } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { packageVersion } from '../../src/base/package.ts';
import { buildDebianPackage } from './debian.ts';
import { ROOT, stage } from './stage.ts';

const USAGE = `Usage: npm run bundle -- [--output FOLDER] [--sign-key FILE] [--version VERSION]

  --output FOLDER    where to put the files (default: bundle)
  --sign-key FILE    PEM of an Ed25519 private key: SHA256SUMS.sig is its signature over SHA256SUMS
  --version VERSION  of the package (default: that of package.json)
`;

const { values } = parseArgs({
  options: {
    output: { type: 'string', default: 'bundle' },
    'sign-key': { type: 'string' },
    version: { type: 'string', default: packageVersion() },
    help: { type: 'boolean' },
  },
});

if (values.help) process.stdout.write(USAGE);
else await build(values.output, values.version, values['sign-key']);

async function build(output: string, version: string, keyFile: string | undefined): Promise<void> {
  const architecture = execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim();
  const name = `pdfseald_${version}_${architecture}`;
  const epoch = commitTime();
  const work = mkdtempSync(join(tmpdir(), 'pdfseald-bundle-'));
  try {
    rmSync(output, { recursive: true, force: true });
    mkdirSync(output, { recursive: true });
    const tree = join(work, 'tree');
    const sbom = await stage(tree, version, epoch);
    const files = [`${name}.deb`, `${name}.tar.gz`, `${name}.cdx.json`];
    writeFileSync(join(output, `${name}.cdx.json`), sbom);
    pack(tree, join(output, `${name}.tar.gz`), name, epoch);
    buildDebianPackage({ tree, file: join(output, `${name}.deb`), version, architecture, epoch });
    const sums = files.map((file) => `${sha256(join(output, file))}  ${file}\n`).join('');
    writeFileSync(join(output, 'SHA256SUMS'), sums);
    if (keyFile !== undefined) {
      const key = createPrivateKey(readFileSync(keyFile));
      writeFileSync(join(output, 'SHA256SUMS.sig'), sign(null, Buffer.from(sums), key));
    }
    process.stdout.write(
      `${sums}${keyFile === undefined ? 'not signed: give --sign-key to sign SHA256SUMS\n' : ''}`,
    );
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Seconds since the epoch, the time of every file in the bundle. */
function commitTime(): number {
  return Number(execFileSync('git', ['log', '-1', '--format=%ct'], { cwd: ROOT, encoding: 'utf8' }));
}

function pack(tree: string, file: string, name: string, epoch: number): void {
  const reproducible = ['--sort=name', `--mtime=@${epoch}`, '--owner=0', '--group=0', '--numeric-owner'];
  const rename = [`--transform=s,^\\.,${name},`, '--format=gnu'];
  execFileSync('sh', [
    '-c',
    'tar "$@" | gzip -n >"$0"',
    file,
    ...reproducible,
    ...rename,
    '-C',
    tree,
    '-c',
    '.',
  ]);
}

function sha256(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex');
}
