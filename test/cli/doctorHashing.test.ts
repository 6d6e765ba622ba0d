import t from 'tap';
import { judgeEngine } from '../../src/cli/doctor/hostDiagnosis.ts';

const kernels = (alone: number) => [
  { streams: 1, kernel: 'openssl', megabytes_per_second: alone },
  { streams: 16, kernel: 'avx2', megabytes_per_second: 1000 },
];

t.test('the hash engine is good if one document alone is hashed at 150 MB/s or more', async (t) => {
  t.match(judgeEngine('native', kernels(150)), {
    verdict: 'good',
    detail: /1: openssl 150 MB\/s, 16: avx2 1000 MB\/s/,
  });
  t.match(judgeEngine('native', kernels(149)), {
    verdict: 'warning',
    detail: /less than 150 MB\/s for one document/,
  });
  t.match(judgeEngine('wasm', []), { verdict: 'warning', detail: /WebAssembly/ });
});
