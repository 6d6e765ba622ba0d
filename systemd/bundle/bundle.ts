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
import { OperatorError } from '../../src/base/errors.ts';
import { buildDebianPackage } from './debian.ts';
import { ROOT, stage } from './stage.ts';
import { type BuildVersion, versionOf } from './version.ts';

const USAGE = `Usage: npm run bundle -- [--output FOLDER] [--sign-key FILE] [--version VERSION]

  --output FOLDER    where to put the files (default: bundle)
  --sign-key FILE    PEM of an Ed25519 private key: SHA256SUMS.sig is its signature over SHA256SUMS
  --version VERSION  of the package: 1.2.3, or 1.2.3~git<UTC to the second>.<12 digits of the commit>
                     (default: 1.2.3 for the commit with the tag v1.2.3; the other one for every other commit)
`;

const { values } = parseArgs({
  options: {
    output: { type: 'string', default: 'bundle' },
    'sign-key': { type: 'string' },
    version: { type: 'string' },
    help: { type: 'boolean' },
  },
});

if (values.help) process.stdout.write(USAGE);
else {
  try {
    await build(values.output, versionOf(ROOT, values.version), values['sign-key']);
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    process.stderr.write(`bundle: ${error.message}\n${error.remedy ? `  → ${error.remedy}\n` : ''}`);
    process.exitCode = 1;
  }
}

async function build(output: string, version: BuildVersion, keyFile: string | undefined): Promise<void> {
  const { epoch } = version;
  const architecture = execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim();
  const name = `pdfseald_${version.debian}_${architecture}`;
  const work = mkdtempSync(join(tmpdir(), 'pdfseald-bundle-'));
  try {
    rmSync(output, { recursive: true, force: true });
    mkdirSync(output, { recursive: true });
    const tree = join(work, 'tree');
    const sbom = await stage(tree, version);
    const files = [`${name}.deb`, `${name}.tar.gz`, `${name}.cdx.json`];
    writeFileSync(join(output, `${name}.cdx.json`), sbom);
    pack(tree, join(output, `${name}.tar.gz`), name, epoch);
    buildDebianPackage({ tree, file: join(output, `${name}.deb`), version, architecture });
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
