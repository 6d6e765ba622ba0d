import { isUtf8 } from 'node:buffer';
import t from 'tap';
import { probeMessage } from '../../src/kms/probe.ts';

t.test('a probe cannot be mistaken for anything that a log key signs', async (t) => {
  for (let round = 0; round < 1000; round++) {
    const probe = probeMessage();
    if (isUtf8(probe)) t.fail('a note is valid UTF-8');
    if (!probe.includes(0)) t.fail('a note has no control characters');
    if (probe.at(-1) === 0x0a) t.fail('the text of a note ends in a newline');
    if (probe[0] === 0x00) t.fail('a tree head of RFC 6962 begins with version 0');
    if (probe[0] === 0x30) t.fail('DER begins with SEQUENCE');
  }
  t.notSame(probeMessage(), probeMessage(), 'no two are the same');
});
