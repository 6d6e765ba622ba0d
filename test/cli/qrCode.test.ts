import t from 'tap';
import { qrAsSvg, qrForTerminal } from '../../src/cli/qrCode.ts';
import { decodeQr, modulesOfSvg, modulesOnTerminal } from '../support/qr.ts';
import { randomBytes } from '../support/seed.ts';

const requestOf = (bytes: number) => {
  const head = 'old 5\n\nseal.example.com/log\n20\n\n— ';
  return (
    head +
    randomBytes(bytes)
      .toString('base64')
      .slice(0, bytes - Buffer.byteLength(head) - 1) +
    '\n'
  );
};

t.test('a QR code decodes to the same bytes, up to the largest', async (t) => {
  for (const bytes of [64, 631, 1400, 2953]) {
    const text = requestOf(bytes);
    t.equal(Buffer.byteLength(text), bytes);
    for (const modules of [modulesOnTerminal(qrForTerminal(text, 0)), modulesOfSvg(qrAsSvg(text))]) {
      // The last line of a terminal can have half a line below the code.
      const code = modules.slice(0, modules[0]?.length);
      const border = [...code.slice(0, 4), ...code.slice(-4), ...code.map((row) => row.slice(0, 4))];
      t.notOk(border.flat().includes(true), 'four light modules around it');
      t.ok(decodeQr(modules).equals(Buffer.from(text)), `${bytes} bytes`);
    }
  }
});

t.test('a request that does not fit is refused with a remedy', async (t) => {
  const tooLong = { message: /holds 2953 bytes, and this request has 2954/, remedy: /carry the file/ };
  t.throws(() => qrForTerminal(requestOf(2954), undefined), tooLong);
  t.throws(() => qrAsSvg(requestOf(2954)), tooLong);
  const remedy = /use --svg/;
  const text = requestOf(631);
  const lines = qrForTerminal(text, 0).split('\n').length - 1;
  const columns = modulesOnTerminal(qrForTerminal(text, 0))[0]?.length ?? 0;
  const takes = `the QR code takes ${columns} columns and ${lines + 3} rows, and this terminal has`;
  t.throws(() => qrForTerminal(text, 80), { message: `${takes} 80 and unknown`, remedy });
  t.throws(() => qrForTerminal(text, 200, 24), { message: `${takes} 200 and 24`, remedy });
  t.throws(() => qrForTerminal(text, columns - 1, lines + 3), { message: /takes/, remedy });
  t.throws(
    () => qrForTerminal(text, columns, lines + 2),
    { message: /takes/, remedy },
    'what is below it needs room, too',
  );
  t.equal(qrForTerminal(text, columns, lines + 3), qrForTerminal(text));
});
