import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import t from 'tap';

const here = fileURLToPath(new URL('.', import.meta.url));

t.test('kernels and lane scheduler pass under AddressSanitizer and UBSan', async (t) => {
  const { status, stdout, stderr } = spawnSync('make', ['-s', '-j2', '-C', here, 'check'], {
    encoding: 'utf8',
  });
  t.equal(status, 0, stderr);
  t.match(stdout.split('\n'), ['portable']);
});
