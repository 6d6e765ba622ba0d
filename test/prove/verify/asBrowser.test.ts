/** Everything that holds the verifier to its promises, with the files a browser has. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const NODE = ['--disable-warning=ExperimentalWarning', '--import=./test/prove/verify/asBrowser.ts'];
const run = promisify(execFile);

t.jobs = 2;

for (const file of [
  'test/prove/verify/verify.test.ts',
  'test/prove/verify/fuzz.test.ts',
  'test/prove/verify/sealedPdf.test.ts',
  'test/prove/verify/postQuantum.test.ts',
  'test/prove/verify/timestampCheck.test.ts',
  'test/asn1/evidenceRecordVerification.test.ts',
  'test/asn1/hashTree.test.ts',
  'test/prove/verify/evidenceCheck.test.ts',
  'test/asn1/timestampToken.test.ts',
  'test/asn1/certificate.test.ts',
  'test/asn1/foreign.test.ts',
  'test/log/checkpoint.test.ts',
  'test/log/verifierKey.test.ts',
  'test/log/note.test.ts',
  'test/manifest/manifest.test.ts',
  'test/manifest/receipt.test.ts',
  'test/manifest/trustFile.test.ts',
]) {
  t.test(file, async (t) => {
    // It fails with what the file prints, where a test in it fails.
    const { stdout } = await run(process.execPath, [...NODE, file], { cwd: ROOT, maxBuffer: 1 << 26 });
    t.match(stdout, /^ok [1-9]/m);
    t.notMatch(stdout, /^\s*not ok/m);
  });
}
